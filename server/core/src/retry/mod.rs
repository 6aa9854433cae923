//! Whether an ended attempt should be retried, with which change, and why.
//!
//! | step | module |
//! |---|---|
//! | read the log | [`log`], by the rules of [`matching`] |
//! | collect evidence | [`evidence`] |
//! | find the cause | [`cause`] |
//! | compare with earlier failures | [`known`] |
//! | decide | [`decision`] |
//!
//! Pure: no I/O, no clock; the same evidence and history give the same verdict. Any process can write a line into a log, so
//! a log alone never raises a size and never allows more than one retry.

mod cause;
mod decision;
mod evidence;
mod known;
mod log;
mod matching;
#[cfg(test)]
mod tests;

pub use self::{
    cause::{
        classify::{cause_of, classify, classify_with_records, is_censored},
        corrections::{Corrections, WrongVerdicts},
        finding::Finding,
    },
    decision::{
        decide::{VerdictInputs, judge},
        policy::{PolicyException, RetryPolicy, RetryTerms},
    },
    evidence::{
        containers::{other_container, reason_in_container},
        join::{join, join_reports},
        reported::reported,
    },
    known::{
        failure_groups::FailureGroup,
        known_failures::{FlakyFailure, KnownFailures, RetrySuccess},
        rule_experience::{RuleExperience, SilencedRule},
        rule_records::{RuleRecord, RuleRecords, no_records},
    },
    matching::{
        explain::{FiredRule, LogExplanation, explain},
        log_rules::LogRules,
        rule_files::{RuleReport, check_files},
    },
};
