//! The ended attempts as rows, and the lists made from them.
//!
//! | module | content |
//! |---|---|
//! | `attempt_table`, `chunk`, `row` | the ended attempts, and why they are kept as rows |
//! | `builds`, `interner`, `labels` | values shared by attempts, as bounded numbers |
//! | `listing`, `rank_estimate` | the attempts of one page of a list |

pub(super) mod attempt_table;
pub(super) mod builds;
pub(super) mod chunk;
pub(super) mod interner;
pub(super) mod labels;
pub(super) mod listing;
pub(super) mod rank_estimate;
pub(super) mod row;
