//! One pass over the rows: counts by group and over time.
//!
//! | module | content |
//! |---|---|
//! | `count`, `row_filter` | the pass, and the rows that it takes |
//! | `groups`, `steps`, `totals`, `need_to_request` | what is counted |

pub(super) mod count;
pub(super) mod groups;
pub(super) mod need_to_request;
pub(super) mod row_filter;
pub(super) mod steps;
pub(super) mod totals;
