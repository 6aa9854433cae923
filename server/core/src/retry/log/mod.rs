//! Reads a log: prefixes, the lines that can show the reason, and lines that mention an error.
//!
//! | module | content |
//! |---|---|
//! | `line_wrappers` | removes the prefixes of runners and loggers from a line |
//! | `log_tail` | the lines that can show the reason |
//! | `mentioned_failures` | lines that only mention a failure |
//! | `failure_order` | whether a fault outside the build was overcome: the only use of a line's position |
//! | `error_lines` | where no rule matches: lines that mention an error |

pub(super) mod error_lines;
pub(super) mod failure_order;
pub(super) mod line_wrappers;
pub(super) mod log_tail;
pub(super) mod mentioned_failures;
