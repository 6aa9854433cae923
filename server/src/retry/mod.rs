//! Whether an ended attempt is worth another, as what, and why.
//!
//! ```text
//! Evidence -> lines      the lines of the log that can say why
//!          -> rules      what the end of the log says (data: rules.toml, files of the operator, Spack's taxonomy)
//!          -> reported   that and the words of callers, joined with what was said in earlier questions
//!          -> clues      what each kind of evidence says (reasons: the words of cluster and CI system)
//!          -> classify   the cause, by the strongest clue
//!          -> signature  what the failure is called; seen: what became of it before; lineage: what came before
//!          -> wish       what the cause asks for; next, cpu: the size, from what was measured
//!          -> allow      whether the budget of policy, and what became of such failures, allow it
//!          -> decide     the verdict; outlook: cost and wait
//! ```
//!
//! Pure: no I/O, no clock; the same evidence and history give the same verdict. Anybody can write a line into a log, so
//! a log alone never grows a size and never buys more than one retry.

mod allow;
mod classify;
mod clues;
mod cpu;
mod decide;
mod extend;
mod lineage;
mod lines;
mod next;
mod outlook;
mod pod_sizes;
mod policy;
mod reasons;
mod reported;
mod rules;
mod seen;
mod signature;
mod taxonomy;
#[cfg(test)]
mod tests;
mod wish;

pub use self::{
    classify::{Finding, cause_of, classify, is_censored},
    decide::{Known, judge},
    policy::{Exception, Policy, Terms},
    reported::{recollected, reported},
    rules::Rules,
    seen::{Flaky, Helped, Seen},
};
