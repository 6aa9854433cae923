//! The verdict on a recorded failure, in the form in which it is printed.

use plimsoll_core::{
    domain::{Action, EvidenceLine, History, LogPlace, Prediction, ReservationCost, RetryOutlook, RootLine},
    mask, predict,
    retry::{self, KnownFailures, LogRules, RetryPolicy, VerdictInputs},
};
use plimsoll_proto::reasons::line_place;
use serde::Serialize;

use super::Failure;

/// What a verdict depends on besides the failure itself.
#[derive(Debug)]
pub struct ClassifyTerms<'a> {
    /// The rules that find a cause in the end of a log.
    pub rules: &'a LogRules,
    /// Settings by which sizes are chosen.
    pub predict: &'a predict::Settings,
    /// Settings that decide whether a retry is worth its cost.
    pub retry: &'a RetryPolicy,
    /// Whether to use only exit code, signal and log.
    pub log_only: bool,
}

/// The verdict on one line of the input file.
#[derive(Debug, Serialize)]
pub struct JudgedLine {
    /// ID of the failure.
    pub id: String,
    /// The cause; `none` if the build did not fail.
    pub cause: &'static str,
    /// What the verdict says to do.
    pub verdict: Action,
    /// Confidence in the cause, 0 to 1.
    pub confidence: f64,
    evidence: Vec<EvidenceLine>,
    /// The reason for the verdict, one sentence.
    pub reason: String,
    /// Number of attempts that the retry budget still allows.
    attempts_left: u32,
    /// The sizes that the next attempt should request, with their cost; `None` without a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NextAllocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<ReservationCost>,
    /// How long to wait before a retry, in milliseconds; the next field is the memory time that the waiting
    /// saves.
    wait_ms: u64,
    waiting_saves_gib_h: f64,
    /// What a person must do if a retry cannot help.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
    /// Signature of the failure: equal for failures with the same log line.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// The log line with which the failure began, and its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<JudgedRoot>,
    /// A failure of the build itself, if there was also trouble outside of it. It is then not certain which of
    /// the two ended the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_failure: Option<String>,
}

/// The log line with which a failure began.
#[derive(Debug, Serialize)]
pub struct JudgedRoot {
    /// Text of the line.
    pub line: String,
    /// Position of the line in the kept part of the log, counted from 1; `None` if no rule knows the line.
    #[serde(flatten)]
    pub at: Option<RootLine>,
}

impl JudgedRoot {
    /// The line, its place, and what followed from it, for people.
    pub fn in_words(&self) -> String {
        let place = self.at.as_ref().and_then(|root| match root.at {
            LogPlace::FromStart(number) => line_place(number, false),
            LogPlace::FromEnd(number) => line_place(number, true),
        });
        let mut words = place.map_or_else(|| self.line.clone(), |place| format!("{} ({place})", self.line));
        for line in self.at.iter().flat_map(|root| &root.then) {
            words.push_str("; then: ");
            words.push_str(line);
        }
        words
    }
}

/// The sizes for the next attempt, without their reasons.
#[derive(Debug, Serialize)]
struct NextAllocation {
    memory_request_bytes: u64,
    memory_limit_bytes: u64,
    cpu_request_millicores: u64,
    cpu_limit_millicores: u64,
    build_jobs: u64,
    wall_p50_ms: u64,
    wall_p95_ms: u64,
}

impl NextAllocation {
    fn of(next: &Prediction) -> Self {
        Self {
            memory_request_bytes: next.memory_request.value,
            memory_limit_bytes: next.memory_limit.value,
            cpu_request_millicores: next.cpu_request.value,
            cpu_limit_millicores: next.cpu_limit.value,
            build_jobs: next.build_jobs.value,
            wall_p50_ms: next.wall_p50.value,
            wall_p95_ms: next.wall_p95.value,
        }
    }
}

/// A line of the input file that cannot be judged.
#[derive(Debug, Serialize)]
pub struct UnreadableLine<'a> {
    /// Number of the line.
    pub line: u64,
    /// Why the line cannot be judged.
    pub error: &'a str,
}

/// Judges one failure.
pub fn judge(failure: Failure, terms: &ClassifyTerms<'_>) -> JudgedLine {
    let id = failure.id().to_owned();
    let evidence = mask::evidence(failure.evidence(terms.log_only));
    let finding = retry::classify(&evidence, terms.rules);
    let known = VerdictInputs {
        history: &History::new(1),
        seen: &KnownFailures::new(1),
        settings: terms.predict,
        policy: terms.retry,
    };
    let cause = finding.cause.map_or("none", |cause| finding.decided_cause(cause).as_str());
    let verdict = retry::judge(&evidence, finding, &known);
    let root = root_of(&verdict.outlook);
    JudgedLine {
        id,
        cause,
        verdict: verdict.action,
        confidence: verdict.confidence,
        evidence: verdict.evidence,
        reason: verdict.reason,
        attempts_left: verdict.attempts_left,
        next: verdict.next.as_ref().map(NextAllocation::of),
        cost: verdict.outlook.cost,
        wait_ms: verdict.outlook.wait.0,
        waiting_saves_gib_h: verdict.outlook.waiting_saves_gib_h,
        mend: verdict.outlook.mend,
        root,
        own_failure: verdict.outlook.own_failure,
        signature: verdict.outlook.signature.map(|signature| signature.id),
    }
}

fn root_of(outlook: &RetryOutlook) -> Option<JudgedRoot> {
    let signature = outlook.signature.as_ref().filter(|signature| !signature.first.is_empty())?;
    Some(JudgedRoot { line: signature.first.clone(), at: outlook.root.clone() })
}
