//! What callers said of an ended attempt, as far as it can say why it failed. It is kept with the verdict on it, so that a later
//! question starts from all that was said before: evidence only adds up.
//!
//! How the words of several callers become one is in [`join`](fn@crate::retry::join).

use serde::{Deserialize, Serialize};

use super::{Cause, Exit, Key, Millis};

/// What callers said of an ended attempt. Empty lists and `None` mean that nothing was said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedEvidence {
    /// Project of the one who said it, or in whose name it was said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// What was built, if nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<Key>>,
    /// Number of the attempt, 1 for the first execution; 0 if nothing was said.
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u32,
    /// How it ended.
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
    /// Lines of the log that a rule knows, at most one for each rule; the strongest 16 once they are joined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<MatchedLine>,
    /// The last line of a log that speaks of an error, where no rule knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// The first line of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_words: Option<String>,
    /// The last word of the CI system's runner in the log is that the build's container was killed for memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runner_says_oom: bool,
    /// The container beside the build's of which the runner's last word says the same; empty if it says it of none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_oom_container: String,
    /// Text of a log was read, whether or not it says anything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_read: bool,
    /// Earlier runs of the same job, as the CI system lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_before: Option<u32>,
    /// Time that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Millis>,
}

/// A line of a log that a rule knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedLine {
    /// Id of the rule.
    pub rule: String,
    /// What the rule said when the line was read; counts if the rule is no longer known.
    pub cause: Cause,
    /// One of the lines that the rule knows as it is shown, the same one wherever it stood; at most some 200 bytes. Empty once lines of logs
    /// were removed for their age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// The first line that the rule knows: of several errors the one that the others follow from. Empty as `line` is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
    /// Where that first line is, and what follows from it; `None` once lines of logs were removed for their age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootLine>,
    /// How it stands to failures of the build itself in the same log.
    #[serde(default, skip_serializing_if = "LogOrder::is_alone")]
    pub order: LogOrder,
}

/// Where in a log the line stands from which a failure began, and what followed from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RootLine {
    /// Its place.
    pub at: LogPlace,
    /// The next lines by which tools only pass the failure on, as `make: *** Error 2` does: at most 3, of at most some 200 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
}

/// Place of a line in what was kept of a log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPlace {
    /// From the first line that was kept.
    FromStart(u32),
    /// From the end: the beginning of the log was cut off.
    FromEnd(u32),
}

/// How trouble outside the build stands to the build's own failures in the same log. Of two logs the larger counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogOrder {
    /// The log has no failure of the build that is another.
    #[default]
    Alone,
    /// The build went on after it, or was over before it: its own failure is another.
    Overcome,
    /// It came after a failure of the build, and nothing came after it.
    Last,
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
    /// Whether anything says that the attempt has ended.
    pub fn says_how_it_ended(&self) -> bool {
        let reasons = [&self.container_reasons, &self.pod_reasons, &self.ci_reasons];
        self.exit.is_some()
            || reasons.iter().any(|reason| !reason.is_empty())
            || !self.log.is_empty()
            || self.last_words.is_some()
    }

    /// What a job may say of itself without being trusted: how it ended and its log. The words of cluster and CI system are theirs.
    #[must_use]
    pub fn of_the_job_alone(&self) -> Self {
        Self {
            project: self.project.clone(),
            exit: self.exit,
            log: self.log.clone(),
            last_words: self.last_words.clone(),
            first_words: self.first_words.clone(),
            ..Self::default()
        }
    }

    /// The same without texts of the log, which may be removed for their age. It tells one state of knowledge from another.
    #[must_use]
    pub fn without_log_lines(&self) -> Self {
        let mut without = self.clone();
        without.drop_log_lines();
        without
    }

    /// Takes the lines of the log away; which rules matched stays. False if there is none.
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
