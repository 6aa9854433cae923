//! What callers reported about an ended attempt, as evidence for the cause of its failure. It is stored with the verdict, so that a later
//! question starts from all earlier reports: evidence is added and never removed.
//!
//! [`join`](fn@crate::retry::join) merges the reports of several callers.

use plimsoll_base::named_enum;
use serde::{Deserialize, Serialize};

use super::{Cause, Exit, Key, Millis};

/// What callers reported about an ended attempt. Empty lists and `None` mean that nothing was reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedEvidence {
    /// Project of the caller, or the project that the caller reported for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// What was built, if nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<Key>>,
    /// Number of the attempt, 1 for the first execution; 0 if not reported.
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u32,
    /// How the attempt ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Kubernetes' reasons for the end of the container, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_reasons: Vec<String>,
    /// Kubernetes' reasons for the end of the pod, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_reasons: Vec<String>,
    /// The CI system's failure reasons, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ci_reasons: Vec<String>,
    /// Lines of the log that match a rule, at most one for each rule; after merging, the strongest 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<MatchedLine>,
    /// The last line of the log that mentions an error, if no rule matches a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// The first line of the log that names an error, if no rule matches a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_words: Option<String>,
    /// Whether the CI runner's last line in the log reports that the build's container was killed for memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runner_says_oom: bool,
    /// Name of the service container that the runner's last line reports as killed for memory; empty if none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_oom_container: String,
    /// Whether part of the log was read, whether or not it contains evidence.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_read: bool,
    /// Number of earlier runs of the same job in the CI system's list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_before: Option<u32>,
    /// Time limit of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Millis>,
}

/// A line of a log that matches a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedLine {
    /// Id of the rule.
    pub rule: String,
    /// The rule's cause when the line was read; used if the rule no longer exists.
    pub cause: Cause,
    /// The matching line to show, chosen independently of its position in the log; at most about 200 bytes. Empty once it was removed for
    /// its age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// The first matching line: if there are several errors, this one caused the others. Empty once it was removed for its age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
    /// Position of `first`, and the lines that follow from it; `None` once they were removed for their age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootLine>,
    /// Order of the line relative to failures of the build itself in the same log.
    #[serde(default, skip_serializing_if = "LogOrder::is_alone")]
    pub order: LogOrder,
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

impl LogOrder {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_alone(&self) -> bool {
        *self == Self::Alone
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
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
