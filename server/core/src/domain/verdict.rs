//! What is known of an ended attempt, and the answer to "should it be retried?".

use std::{fmt, sync::Arc};

use plimsoll_proto::wire_enum;
use serde::{Deserialize, Serialize};

use super::{
    AttemptId, Bytes, Cause, EvidenceLine, EvidenceSource, Exit, Key, Millis, Prediction, RecordedCause,
    ReportedEvidence, Resources, RootLine, Summary, VerdictBasis, VerdictCorrection,
    stored_record::stored_record,
};

/// What is known of an ended attempt: the server's measurements, combined with what callers reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The attempt that ended.
    pub attempt: AttemptId,
    /// What was built, if known.
    pub key: Key,
    /// Number of the attempt; 1 for the first execution.
    pub number: u32,
    /// Summary of the attempt; `None` if no agent measured it.
    pub measured: Option<Arc<Summary>>,
    /// How the attempt ended. The caller's report takes precedence over the agent's.
    pub exit: Option<Exit>,
    /// End of the log.
    pub log_tail: String,
    /// GitLab's failure reason.
    pub failure_reason: String,
    /// Kubernetes' reason for the end of the container.
    pub container_reason: String,
    /// Kubernetes' reason for the end of the pod.
    pub pod_reason: String,
    /// Time limit of the attempt, if known.
    pub time_limit: Option<Millis>,
    /// How the memory need grew just before the end, if the attempt's samples are known.
    pub growth: Option<MemoryGrowth>,
    /// Runs of the attempt's job in the CI system's list, in any order.
    pub listed: Vec<ListedRun>,
    /// Requests and limits of the attempt's pod, if nothing was measured and the admission webhook saw the pod.
    pub pod_sizes: Option<Resources>,
    /// What callers reported in earlier questions.
    pub reported: ReportedEvidence,
    /// The sizes that the verdict on the previous attempt gave for this one, if that attempt was short of memory too.
    pub named_before: Option<NamedSizes>,
    /// The cause that an imported history recorded, if a verdict may have replaced it in the summary since.
    pub recorded: Option<RecordedCause>,
    /// A person's correction of the cause.
    pub correction: Option<Box<VerdictCorrection>>,
}

/// Memory sizes that a verdict gave for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSizes {
    /// Memory request.
    pub request: Bytes,
    /// Memory limit.
    pub limit: Bytes,
}

impl Evidence {
    /// What was built: the key of the caller, else that of the agent.
    pub fn known_key(&self) -> &Key {
        match &self.measured {
            Some(measured) if self.key.package.is_empty() => &measured.key,
            _ => &self.key,
        }
    }

    /// Evidence that is empty except for the attempt's id.
    pub fn about(attempt: AttemptId) -> Self {
        Self {
            attempt,
            key: Key::default(),
            number: 1,
            measured: None,
            exit: None,
            log_tail: String::new(),
            failure_reason: String::new(),
            container_reason: String::new(),
            pod_reason: String::new(),
            time_limit: None,
            growth: None,
            listed: Vec::new(),
            pod_sizes: None,
            reported: ReportedEvidence::default(),
            named_before: None,
            recorded: None,
            correction: None,
        }
    }

    /// Whether the attempt was opened as untrusted.
    pub fn is_untrusted(&self) -> bool {
        self.measured.as_deref().is_some_and(|summary| summary.opening.untrusted)
    }
}

/// One run of a CI job in the CI system's list. Empty and `None` mean that the list does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedRun {
    /// The id that the CI system gave the run; the attempt's id ends with it.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// Status as the CI system spells it, for example "failed".
    pub status: String,
    /// The failure reason as the CI system spells it.
    pub failure_reason: String,
    /// When the run was created, milliseconds since 1970.
    pub created_unix_ms: Option<u64>,
    /// When the run ended, milliseconds since 1970.
    pub finished_unix_ms: Option<u64>,
}

/// How the need of an attempt grew just before its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryGrowth {
    /// Need in the last sample.
    pub need: Bytes,
    /// Growth of the need in bytes a second; 0 if it did not grow.
    pub per_second: f64,
}

impl MemoryGrowth {
    /// The growth between two samples, `first` and the attempt's last one.
    pub fn between(first: (Millis, Bytes), last: (Millis, Bytes)) -> Self {
        let seconds = last.0.saturating_sub(first.0).as_f64() / 1000.0;
        let grown = last.1.saturating_sub(first.1).as_f64();
        Self { need: last.1, per_second: if seconds > 0.0 { grown / seconds } else { 0.0 } }
    }
}

stored_record! {
    /// The answer to `ShouldRetry`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Verdict {
        /// The attempt that was judged.
        pub attempt: AttemptId,
        /// What to do next.
        pub action: Action,
        /// Why the attempt failed.
        pub cause: Cause,
        /// Confidence in the cause, 0 to 1.
        pub confidence: f64,
        /// The evidence that decided, strongest first.
        pub evidence: Vec<EvidenceLine>,
        /// What the next attempt should request; `None` if there should be none. With [`Action::No`], these sizes are for a retry that a person
        /// starts although the budget is used up.
        pub next: Option<Prediction>,
        /// Number of retries that the budget still allows.
        pub attempts_left: u32,
        /// One sentence that sums up the verdict.
        pub reason: String,
        /// The signature of the failure, and what a retry would cost and gain.
        pub outlook: RetryOutlook = default,
        /// When the verdict was stored, milliseconds since 1970; `None` if it is not stored.
        pub given_unix_ms: Option<u64> = default,
        /// The job that memory ended, so that its next pod is recognized even after a restart; `None` for other causes.
        pub job: Option<JobName> = default,
        /// What the verdict is based on.
        pub basis: VerdictBasis = default,
    }
}

impl Verdict {
    /// Whether memory was short, so that the next attempt gets more: a memory limit ended this attempt, or a lack of memory on the machine
    /// did.
    pub fn raises_memory(&self) -> bool {
        self.cause.is_memory() || (self.cause == Cause::EvictedByNode && self.action == Action::Bigger)
    }
}

/// Text shown in place of a log line that was removed because it was too old.
pub(crate) const REMOVED_LINE: &str = "(removed: log_lines_keep_for)";

impl Verdict {
    /// Whether the verdict prevents a retry that would otherwise have been made. A retry above the budget does not count, because it would
    /// not have been made.
    pub fn avoids_retry(&self) -> bool {
        self.action == Action::No && self.attempts_left > 0
    }

    /// The correction that is in force.
    pub fn correction(&self) -> Option<&VerdictCorrection> {
        self.basis.correction.as_deref().filter(|correction| !correction.undone)
    }

    /// Removes the lines of the log and the sentence that quotes one; the decision stays. Returns false if there were no lines.
    pub fn drop_log_lines(&mut self) -> bool {
        let is_there =
            |line: &&mut EvidenceLine| line.source == EvidenceSource::Log && line.text != REMOVED_LINE;
        let mut dropped = false;
        for line in self.evidence.iter_mut().filter(is_there) {
            REMOVED_LINE.clone_into(&mut line.text);
            REMOVED_LINE.clone_into(&mut self.reason);
            dropped = true;
        }
        if self.outlook.signature.as_ref().is_some_and(|known| !known.line.is_empty()) {
            self.outlook.drop_log_lines();
            dropped = true;
        }
        self.basis.reported.drop_log_lines() || dropped
    }
}

/// Name of a CI job; all its runs within one pipeline share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobName {
    /// Project of the job.
    pub project: String,
    /// Pipeline of the job.
    pub pipeline: String,
    /// Name of the job in the pipeline.
    pub name: String,
}

impl JobName {
    /// The job of a key, if its labels name pipeline and job.
    pub fn of(key: &Key) -> Option<Self> {
        let (pipeline, name) = key.job()?;
        Some(Self { project: key.project.clone(), pipeline: pipeline.to_owned(), name: name.to_owned() })
    }
}

stored_record! {
    /// The signature of a failure, and what a retry would cost and gain.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct RetryOutlook {
        /// The failure's signature, equal for equal failures; `None` if no line of the log shows what went wrong.
        pub signature: Option<Signature>,
        /// Number of other attempts with this failure at the same commit or in the same job.
        pub seen: u32,
        /// Number of unchanged retries after this failure of this key that have ended.
        pub retried: u32,
        /// Number of attempts in `retried` that passed.
        pub passed: u32,
        /// What the retry would cost; `None` without a retry.
        pub cost: Option<ReservationCost>,
        /// How long to wait before the retry.
        pub wait: Millis,
        /// GiB x h that waiting saves.
        pub waiting_saves_gib_h: f64,
        /// Whether the next size is below what the failure calls for, because the pool's maximum is lower.
        pub clamped: bool,
        /// What would fix the failure, if a retry cannot.
        pub mend: Option<String>,
        /// Whether better evidence than the log proves the cause.
        pub proven: bool = default,
        /// The size at which memory stopped the attempt, if the verdict is to retry with more memory; `None` if unknown.
        pub stopped_at: Option<Bytes> = default,
        /// Position of the signature's first line in the log, and the lines that follow from it; `None` without a signature.
        pub root: Option<RootLine> = default,
        /// Log line that shows a failure of the build itself, if the cause is a fault outside the build: which of the two ended the build is
        /// uncertain.
        pub own_failure: Option<String> = default,
        /// Number of retries that the policy allows after a failure with this cause, if it is lower than the budget; else `None`.
        pub retries_allowed: Option<u32> = default,
    }
}

impl RetryOutlook {
    /// Removes the lines of the log; the id of the signature stays.
    pub fn drop_log_lines(&mut self) {
        if let Some(signature) = &mut self.signature {
            signature.clear_lines();
        }
        (self.root, self.own_failure) = (None, None);
    }
}

/// Identifies equal failures.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature {
    /// Id of the failure: 16 hexadecimal digits.
    pub id: String,
    /// The line that the id was computed from, without the parts that change from run to run.
    pub line: String,
    /// The first line of the log that shows what went wrong, unchanged, taken from one failure with this signature. Empty once it was
    /// removed for its age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
}

impl Signature {
    /// Removes the lines of the log; the id stays the same.
    pub(crate) fn clear_lines(&mut self) {
        self.line.clear();
        self.first.clear();
    }
}

/// What an attempt reserves while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReservationCost {
    /// Requested memory multiplied by time, GiB x h.
    pub memory_gib_h: f64,
    /// Requested CPU multiplied by time, cores x h.
    pub cpu_core_h: f64,
}

wire_enum! {
    /// What to do after a failed attempt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Action {
        /// Do not retry.
        No => "no",
        /// Retry unchanged.
        AsIs => "as_is",
        /// Retry with a larger size: more memory, or more CPU if CPU was short.
        Bigger => "bigger",
        /// Retry with fewer build jobs.
        FewerJobs => "fewer_jobs",
        /// Retry with a longer time limit.
        Longer => "longer",
        /// Retry in another pool or on another node.
        Elsewhere => "elsewhere",
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl Verdict {
    /// Whether the report applies to its attempt, if the attempt is of this project (empty: of none). It does if the caller may report on
    /// that project and named no other.
    pub fn counts_for(&self, project: &str) -> bool {
        let named = self.basis.reported.project.as_str();
        let names_another = !named.is_empty() && !project.is_empty() && named != project;
        self.basis.reported_by.may_report_on(project) && !names_another
    }

    /// Whether the caller named this project in the question and may report on it.
    pub fn is_in_the_name_of(&self, project: &str) -> bool {
        self.basis.reported.project == project && self.counts_for(project)
    }
}
