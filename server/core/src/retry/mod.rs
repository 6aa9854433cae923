//! Whether an ended attempt is worth another, as what, and why.
//!
//! ```text
//! Evidence -> reader     a line as the tool wrote it, whatever wraps it; mention: lines that only speak of a failure
//!          -> lines      the lines of the log that can say why
//!          -> rules      what the end of the log says (data: rules/*.toml, files of the operator, Spack's taxonomy)
//!          -> order      whether trouble in the log was overcome: the only use of where a line stands
//!          -> reported   that and the words of callers
//!          -> join       the same with what was said in earlier questions: a set, whatever came first
//!          -> clues      what each kind of evidence says (reasons: the words of cluster and CI system; containers: which one they are of)
//!          -> classify   the cause, by the strongest clue
//!          -> corrections the cause that a person says, over what the rules found
//!          -> signature  what the failure is called; seen: what became of it before; lineage: what came before
//!          -> remedy     what the cause asks for; next, cpu, evicted: the size, from what was measured; size_words: why
//!          -> allow      whether the budget of policy, and what became of such failures, allow it
//!          -> decide     the verdict; outlook: cost and wait
//! failure_groups: failures that are the same, together, for people
//! explain: which rules know lines of a log, and why one decides; check: files of rules before a server reads them
//! ```
//!
//! Pure: no I/O, no clock; the same evidence and history give the same verdict. Any process can write a line into a log, so
//! a log alone never grows a size and never buys more than one retry.

mod allow;
mod check;
mod classify;
mod clues;
mod containers;
mod corrections;
mod cpu;
mod decide;
mod evicted;
mod explain;
mod extend;
mod failure_groups;
mod failure_order;
mod finding;
mod join;
mod known_failures;
mod lineage;
mod lines;
mod mentioned_failures;
mod next;
mod outlook;
mod pod_sizes;
mod policy;
mod reader;
mod reasons;
mod remedy;
mod reported;
mod rule;
mod rules;
mod signature;
mod size_words;
mod taxonomy;
#[cfg(test)]
mod tests;

pub use self::{
    check::{RuleReport, check},
    classify::{cause_of, classify, is_censored},
    containers::{container_beside_build, reason_in_container},
    corrections::{Corrections, WrongVerdicts},
    decide::{VerdictInputs, judge},
    explain::{FiredRule, LogExplanation, explain},
    failure_groups::FailureGroup,
    finding::Finding,
    join::join,
    known_failures::{FlakyFailure, KnownFailures, RetrySuccess},
    policy::{Exception, RetryPolicy, Terms},
    reported::reported,
    rules::LogRules,
};
