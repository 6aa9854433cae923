//! What is known of an ended attempt, and the answer to "shall it be tried again?".

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    AttemptId, Bytes, Cause, EvidenceLine, EvidenceSource, Exit, Key, Millis, Prediction, RecordedCause,
    ReportedEvidence, Resources, RootLine, Summary, VerdictBasis, VerdictCorrection,
};

/// What is known of an ended attempt: what the server measured, joined with what the caller saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The attempt that ended.
    pub attempt: AttemptId,
    /// What was built, if known.
    pub key: Key,
    /// 1 for the first execution.
    pub number: u32,
    /// What was measured; `None` if no agent was beside it.
    pub measured: Option<Arc<Summary>>,
    /// How it ended; the caller's word wins over the agent's.
    pub exit: Option<Exit>,
    /// End of the log.
    pub log_tail: String,
    /// GitLab's failure reason.
    pub failure_reason: String,
    /// Kubernetes' reason for the end of the container.
    pub container_reason: String,
    /// Kubernetes' reason for the end of the pod.
    pub pod_reason: String,
    /// Its time limit, if known.
    pub time_limit: Option<Millis>,
    /// How its need grew just before the end, if its samples are known.
    pub growth: Option<MemoryGrowth>,
    /// Runs of its job, as the CI system lists them, in any order.
    pub listed: Vec<ListedRun>,
    /// What its pod had, if nothing was measured and the admission webhook saw the pod.
    pub pod_sizes: Option<Resources>,
    /// What was said of it in earlier questions.
    pub reported: ReportedEvidence,
    /// What the verdict on the attempt before named for this one, if that one was short of memory too.
    pub named_before: Option<NamedSizes>,
    /// The cause that an imported history recorded, if a verdict may have put another one into the summary since.
    pub recorded: Option<RecordedCause>,
    /// What a person said of its cause.
    pub correction: Option<Box<VerdictCorrection>>,
}

/// Memory sizes that a verdict named for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSizes {
    /// Memory request.
    pub request: Bytes,
    /// Memory limit.
    pub limit: Bytes,
}

impl Evidence {
    /// Of an attempt of which nothing is said.
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

    /// Whether the attempt was measured as untrusted.
    pub fn is_untrusted(&self) -> bool {
        self.measured.as_deref().is_some_and(|summary| summary.opening.untrusted)
    }
}

/// One run of a CI job, as the CI system lists it. Empty and `None` mean that nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedRun {
    /// The CI system's own id, which is the end of an attempt's id.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// For example "failed".
    pub status: String,
    /// Why it failed, in the words of the CI system.
    pub failure_reason: String,
    /// When it was made, milliseconds since 1970.
    pub created_unix_ms: Option<u64>,
    /// When it ended, milliseconds since 1970.
    pub finished_unix_ms: Option<u64>,
}

/// How the need of an attempt grew just before its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryGrowth {
    /// Need in the last sample.
    pub need: Bytes,
    /// Bytes a second, 0 for a need that did not grow.
    pub per_second: f64,
}

impl MemoryGrowth {
    /// From the need in two samples, the later one the last.
    pub fn between(first: (Millis, Bytes), last: (Millis, Bytes)) -> Self {
        let seconds = last.0.saturating_sub(first.0).as_f64() / 1000.0;
        let grown = last.1.saturating_sub(first.1).as_f64();
        Self { need: last.1, per_second: if seconds > 0.0 { grown / seconds } else { 0.0 } }
    }
}

/// The answer to `ShouldRetry`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The attempt that was judged.
    pub attempt: AttemptId,
    /// What to do.
    pub action: Action,
    /// Why it failed.
    pub cause: Cause,
    /// 0 to 1.
    pub confidence: f64,
    /// What decided, strongest first.
    pub evidence: Vec<EvidenceLine>,
    /// What the next attempt should ask for; `None` if there should be none. With [`Action::No`] it is what an attempt would have to ask
    /// for that a person starts although the attempts are used up.
    pub next: Option<Prediction>,
    /// Attempts that the budget still allows.
    pub attempts_left: u32,
    /// One sentence that sums the reasons up.
    pub reason: String,
    /// What the failure is called, and what a retry of it would mean.
    #[serde(default, skip_serializing_if = "RetryOutlook::is_empty")]
    pub outlook: RetryOutlook,
    /// When it was put on disk, milliseconds since 1970; `None` in one that is not on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_unix_ms: Option<u64>,
    /// Which job memory ended, so that its next pod is known by it after a restart too; `None` for other causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
    /// What it stands on.
    #[serde(default, skip_serializing_if = "VerdictBasis::is_empty")]
    pub basis: VerdictBasis,
}

impl Verdict {
    /// Whether memory was short, so that the next attempt gets more of it: a limit or the machine's lack of it ended this one.
    pub fn raises_memory(&self) -> bool {
        self.cause.is_memory() || (self.cause == Cause::EvictedByNode && self.action == Action::Bigger)
    }
}

/// What stands in the place of a line of a log that is gone.
pub(crate) const LINE_GONE: &str = "(removed: log_lines_keep_for)";

impl Verdict {
    /// Whether it keeps an attempt from being made that would have been made without it: one above the budget would not have been.
    pub fn avoids_retry(&self) -> bool {
        self.action == Action::No && self.attempts_left > 0
    }

    /// The correction that is in force.
    pub fn correction(&self) -> Option<&VerdictCorrection> {
        self.basis.correction.as_deref().filter(|correction| !correction.undone)
    }

    /// Takes the lines of the log away, and the sentence that repeats one; what was decided stays. False if there is none.
    pub fn drop_log_lines(&mut self) -> bool {
        let is_there =
            |line: &&mut EvidenceLine| line.source == EvidenceSource::Log && line.text != LINE_GONE;
        let mut dropped = false;
        for line in self.evidence.iter_mut().filter(is_there) {
            LINE_GONE.clone_into(&mut line.text);
            LINE_GONE.clone_into(&mut self.reason);
            dropped = true;
        }
        if self.outlook.signature.as_ref().is_some_and(|known| !known.line.is_empty()) {
            self.outlook.drop_log_lines();
            dropped = true;
        }
        self.basis.reported.drop_log_lines() || dropped
    }
}

/// How a CI system calls a job: every run of it within one pipeline has the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobName {
    /// Its project.
    pub project: String,
    /// Its pipeline.
    pub pipeline: String,
    /// Its name there.
    pub name: String,
}

impl JobName {
    /// Of a key, if its labels tell pipeline and name.
    pub fn of(key: &Key) -> Option<Self> {
        let (pipeline, name) = key.job()?;
        Some(Self { project: key.project.clone(), pipeline: pipeline.to_owned(), name: name.to_owned() })
    }
}

/// What the failure is called, and what a retry of it would mean.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryOutlook {
    /// Equal for failures that are the same; `None` if no line of the log says what went wrong.
    pub signature: Option<Signature>,
    /// Other attempts that failed so at the same commit, or in the same job.
    pub seen: u32,
    /// Retries as they were of this failure of this key whose end is known, and those of them that passed.
    pub retried: u32,
    /// See `retried`.
    pub passed: u32,
    /// What the retry would cost; `None` without one.
    pub cost: Option<ReservationCost>,
    /// How long to wait before it.
    pub wait: Millis,
    /// Memory time that waiting saves, GiB x h.
    pub waiting_saves_gib_h: f64,
    /// The next size is below what the failure asks for, because the pool has no more.
    pub clamped: bool,
    /// What would mend it, if a retry cannot.
    pub mend: Option<String>,
    /// Something better than the log names the cause.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// Memory at which the attempt was stopped, in a verdict to retry with more; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Bytes>,
    /// Where the first line of the signature is in the log, and what followed from it; `None` without a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<RootLine>,
    /// A failure of the build itself beside trouble outside, where that trouble decides: which of them ended the build is not certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_failure: Option<String>,
    /// Retries that the policy allows after a failure like this one, where that is less than the budget; `None` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries_allowed: Option<u32>,
}

impl RetryOutlook {
    /// Forgets the lines of the log; the name of the failure stays.
    pub fn drop_log_lines(&mut self) {
        if let Some(signature) = &mut self.signature {
            signature.clear_lines();
        }
        (self.root, self.own_failure) = (None, None);
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The name of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature {
    /// 16 hexadecimal digits.
    pub id: String,
    /// The line it stands for, without what changes from run to run.
    pub line: String,
    /// The first line of the log that says what went wrong, as it was: of the failure that the signature was made of first. Empty once
    /// lines of logs were removed for their age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
}

impl Signature {
    /// Forgets the lines of the log; the failure stays the same.
    pub(crate) fn clear_lines(&mut self) {
        self.line.clear();
        self.first.clear();
    }
}

/// What an attempt holds while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReservationCost {
    /// Requested memory over time, GiB x h.
    pub memory_gib_h: f64,
    /// Requested CPU over time, cores x h.
    pub cpu_core_h: f64,
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Do not try again.
    No,
    /// Try again as it was.
    AsIs,
    /// Try again with a bigger size: more memory, or more CPU if that was short.
    Bigger,
    /// Try again with fewer build jobs.
    FewerJobs,
    /// Try again with more time.
    Longer,
    /// Try again in another place.
    Elsewhere,
}

impl Action {
    /// The word for people, metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::AsIs => "as_is",
            Self::Bigger => "bigger",
            Self::FewerJobs => "fewer_jobs",
            Self::Longer => "longer",
            Self::Elsewhere => "elsewhere",
        }
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
    /// Whether it counts for its attempt, if that is of this project (empty: of none): the asker may speak of it, and did not name
    /// another project.
    pub fn counts_for(&self, project: &str) -> bool {
        let named = self.basis.reported.project.as_str();
        let names_another = !named.is_empty() && !project.is_empty() && named != project;
        self.basis.reported_by.may_speak_of(project) && !names_another
    }

    /// Whether it was asked for in the name of this project, by a caller who may speak of it.
    pub fn is_in_the_name_of(&self, project: &str) -> bool {
        self.basis.reported.project == project && self.counts_for(project)
    }
}
