//! Whether an ended attempt should be retried, with which change, and why.
//!
//! | step | module | what it does |
//! |---|---|---|
//! | read the log | `reader` | removes the prefixes of runners and loggers from a line |
//! | | `lines`, `mentioned_failures` | selects the lines that can show the reason; skips those that only mention a failure |
//! | | `rules`, `rule`, `keyword_prefilter`, `rule_match`, `extend`, `taxonomy` | match lines by rules (`rules/*.toml`, the operator's files, Spack's taxonomy) |
//! | | `failure_order` | whether a fault outside the build was overcome: the only use of a line's position |
//! | collect evidence | `reported` | extracts from a question what is stored |
//! | | `join` | merges it with earlier questions, as a set |
//! | find the cause | `clues`, `reasons`, `containers` | turn each kind of evidence into clues |
//! | | `classify`, `finding` | the cause, by the strongest clue |
//! | | `error_lines` | where no rule matches: lines that mention an error |
//! | | `corrections` | a person's correction, over what the rules found |
//! | compare | `signature` | identifies equal failures |
//! | | `known_failures`, `lineage` | earlier failures and their retries; earlier attempts of the job |
//! | | `rule_cases`, `rule_experience`, `rule_records` | how often each rule was right here, and whether it may name a cause |
//! | decide | `remedy` | the action for the cause; a file for each change of a size |
//! | | `allow`, `policy` | whether budget, earlier failures and cost allow it |
//! | | `decide`, `outlook` | the verdict; cost and wait of the retry |
//! | for people | `failure_groups` | equal failures as groups |
//! | | `explain`, `check` | which rules match a log; checks of rule files |
//!
//! Pure: no I/O, no clock; the same evidence and history give the same verdict. Any process can write a line into a log, so
//! a log alone never raises a size and never allows more than one retry.

mod allow;
mod check;
mod classify;
mod clues;
mod containers;
mod corrections;
mod decide;
mod error_lines;
mod explain;
mod extend;
mod failure_groups;
mod failure_order;
mod finding;
mod join;
mod keyword_prefilter;
mod known_failures;
mod lineage;
mod lines;
mod mentioned_failures;
mod outlook;
mod policy;
mod reader;
mod reasons;
mod remedy;
mod reported;
mod rule;
mod rule_cases;
mod rule_experience;
mod rule_match;
mod rule_records;
mod rules;
mod signature;
mod taxonomy;
#[cfg(test)]
mod tests;

pub use self::{
    check::{RuleReport, check_files},
    classify::{cause_of, classify, classify_with_records, is_censored},
    containers::{other_container, reason_in_container},
    corrections::{Corrections, WrongVerdicts},
    decide::{VerdictInputs, judge},
    explain::{FiredRule, LogExplanation, explain},
    failure_groups::FailureGroup,
    finding::Finding,
    join::{join, join_reports},
    known_failures::{FlakyFailure, KnownFailures, RetrySuccess},
    policy::{PolicyException, RetryPolicy, RetryTerms},
    reported::reported,
    rule_experience::{RuleExperience, SilencedRule},
    rule_records::{RuleRecord, RuleRecords, no_records},
    rules::LogRules,
};
