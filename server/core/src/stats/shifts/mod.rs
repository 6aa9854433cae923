//! Needs that change.
//!
//! | module | content |
//! |---|---|
//! | `variation`, `mixed` | needs that vary, or that form several groups |
//! | `need_shifts`, `regressions`, `level` | needs that have shifted |

pub(super) mod level;
pub(super) mod mixed;
pub(super) mod need_shifts;
pub(super) mod regressions;
pub(super) mod variation;
