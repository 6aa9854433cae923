//! What callers reported about an ended attempt, as evidence for the cause of its failure. It is stored with the verdict, so that a later
//! question starts from all earlier reports: evidence is added and never removed.
//!
//! [`join`](fn@crate::retry::join) merges the reports of several callers.

use plimsoll_base::named_enum;
use serde::{Deserialize, Serialize};

use super::{Cause, Exit, Key, Millis, stored_record::stored_record};

stored_record! {
    /// What callers reported about an ended attempt. Empty lists and `None` mean that nothing was reported.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ReportedEvidence {
        /// Project of the caller, or the project that the caller reported for.
        pub project: String = default,
        /// What was built, if nothing was measured.
        pub key: Option<Box<Key>> = default,
        /// Number of the attempt, 1 for the first execution; 0 if not reported.
        pub number: u32 = default,
        /// How the attempt ended.
        pub exit: Option<Exit> = default,
        /// Kubernetes' reasons for the end of the container, at most 4.
        pub container_reasons: Vec<String> = default,
        /// Kubernetes' reasons for the end of the pod, at most 4.
        pub pod_reasons: Vec<String> = default,
        /// The CI system's failure reasons, at most 4.
        pub ci_reasons: Vec<String> = default,
        /// Lines of the log that match a rule, at most one for each rule; after merging, the strongest 16.
        pub log: Vec<MatchedLine> = default,
        /// The last line of the log that mentions an error, if no rule matches a line.
        pub last_words: Option<String> = default,
        /// The first line of the log that names an error, if no rule matches a line.
        pub first_words: Option<String> = default,
        /// Whether the CI runner's last line in the log reports that the build's container was killed for memory.
        pub runner_says_oom: bool = default,
        /// Name of the service container that the runner's last line reports as killed for memory; empty if none.
        pub runner_oom_container: String = default,
        /// Whether part of the log was read, whether or not it contains evidence.
        pub log_read: bool = default,
        /// Number of earlier runs of the same job in the CI system's list.
        pub runs_before: Option<u32> = default,
        /// Time limit of the attempt.
        pub time_limit: Option<Millis> = default,
    }
}

stored_record! {
    /// A line of a log that matches a rule.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MatchedLine {
        /// Id of the rule.
        pub rule: String,
        /// The rule's cause when the line was read; used if the rule no longer exists.
        pub cause: Cause,
        /// The matching line to show, chosen independently of its position in the log; at most about 200 bytes. Empty once it was removed for
        /// its age.
        pub line: String = default,
        /// The first matching line: if there are several errors, this one caused the others. Empty once it was removed for its age.
        pub first: String = default,
        /// Position of `first`, and the lines that follow from it; `None` once they were removed for their age.
        pub root: Option<RootLine> = default,
        /// Order of the line relative to failures of the build itself in the same log.
        pub order: LogOrder = default,
    }
}

/// Position of the line where a failure began, and the lines that follow from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RootLine {
    /// Position of the first line.
    pub at: LogPlace,
    /// Later lines in which tools only pass the failure on, such as `make: *** Error 2`: at most 3, each at most about 200 bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
}

/// Line number in the kept part of a log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPlace {
    /// The number of the line, counted from the first kept line.
    FromStart(u32),
    /// Counted from the end of the log, because the beginning was cut off.
    FromEnd(u32),
}

named_enum! {
    /// Order of a fault outside the build relative to the build's own failures in the same log. If two logs are merged, the larger value is
    /// used.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LogOrder {
        /// The log shows no other failure of the build.
        #[default]
        Alone => "alone",
        /// The build went on after the fault, or had ended before it: the build's own failure is not the fault.
        Overcome => "overcome",
        /// The fault came after a failure of the build, and nothing came after the fault.
        Last => "last",
    }
}

impl ReportedEvidence {
    /// Whether any field shows that the attempt has ended.
    pub fn shows_end(&self) -> bool {
        let reasons = [&self.container_reasons, &self.pod_reasons, &self.ci_reasons];
        self.exit.is_some()
            || reasons.iter().any(|reason| !reason.is_empty())
            || !self.log.is_empty()
            || self.last_words.is_some()
    }

    /// The part that an untrusted job may report about itself: how it ended, and its log. Reasons of the cluster and the CI system are left
    /// out.
    #[must_use]
    pub fn reportable_by_job(&self) -> Self {
        Self {
            project: self.project.clone(),
            exit: self.exit,
            log: self.log.clone(),
            last_words: self.last_words.clone(),
            first_words: self.first_words.clone(),
            ..Self::default()
        }
    }

    /// Removes the lines of the log; the ids of matching rules stay. Returns false if there were no lines.
    pub fn drop_log_lines(&mut self) -> bool {
        let mut dropped = self.last_words.take().is_some() | self.first_words.take().is_some();
        for matched in self.log.iter_mut().filter(|matched| !matched.line.is_empty()) {
            matched.line.clear();
            matched.first.clear();
            matched.root = None;
            dropped = true;
        }
        dropped
    }
}
