//! Whether an ended attempt is worth another, as what, and why.
//!
//! ```text
//! Evidence -> rules     what the end of the log says (data: rules.toml)
//!          -> clues     what each kind of evidence says
//!          -> classify  the cause, by the strongest clue
//!          -> decide    the verdict, with the budget
//!          -> next      the next size, from what was measured
//! ```
//!
//! Pure: no I/O, no clock; the same evidence and history give the same verdict. Anybody can write a line into a log, so
//! a log alone never grows a size and never buys more than one retry.

mod classify;
mod clues;
mod decide;
mod next;
mod reasons;
mod rules;
#[cfg(test)]
mod tests;

pub use self::{
    classify::{Finding, cause_of, classify, is_censored},
    decide::{Policy, judge},
    rules::Rules,
};
