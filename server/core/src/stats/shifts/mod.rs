//! Needs that change.
//!
//! | module | content |
//! |---|---|
//! | `package_variation` | needs that vary |
//! | `need_shifts`, `regressions`, `level_change` | needs that have shifted |

pub(super) mod level_change;
pub(super) mod need_shifts;
pub(super) mod package_variation;
pub(super) mod regressions;
