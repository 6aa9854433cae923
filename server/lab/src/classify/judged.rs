//! The verdict on a recorded failure, as it is written.

use plimsoll_core::{
    domain::{Action, Cause, EvidenceLine, History, Prediction, ReservationCost},
    mask, predict,
    retry::{self, KnownFailures, LogRules, RetryPolicy, VerdictInputs},
};
use serde::Serialize;

use super::Failure;

/// What verdicts stand on beside the line itself.
#[derive(Debug)]
pub struct ClassifyTerms<'a> {
    /// What the end of a log says.
    pub rules: &'a LogRules,
    /// How sizes are chosen.
    pub predict: &'a predict::Settings,
    /// When a retry is worth it.
    pub retry: &'a RetryPolicy,
    /// Looks at exit code, signal and log alone.
    pub log_only: bool,
}

/// The answer to one line.
#[derive(Debug, Serialize)]
pub struct JudgedLine {
    /// Of the failure.
    pub id: String,
    /// `none` if it did not fail.
    pub cause: &'static str,
    /// What to do.
    pub verdict: Action,
    /// 0 to 1.
    pub confidence: f64,
    evidence: Vec<EvidenceLine>,
    /// One sentence.
    pub reason: String,
    /// Attempts that the budget still allows after this one.
    attempts_left: u32,
    /// What the next attempt should ask for, and what it costs; neither without a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NextAllocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<ReservationCost>,
    /// How long to wait before it, and the memory time that is saved by waiting.
    wait_ms: u64,
    waiting_saves_gib_h: f64,
    /// What would mend it, if a retry cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
    /// Equal for failures that are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// The numbers of the next allocation, without their reasons.
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

/// A line that cannot be judged.
#[derive(Debug, Serialize)]
pub struct UnreadableLine<'a> {
    /// Its number.
    pub line: u64,
    /// Why.
    pub error: &'a str,
}

/// The verdict on one failure.
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
    let cause = finding.cause.map_or("none", Cause::as_str);
    let verdict = retry::judge(&evidence, finding, &known);
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
        signature: verdict.outlook.signature.map(|signature| signature.id),
    }
}
