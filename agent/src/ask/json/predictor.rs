//! JSON of predictions, explanations and verdicts.

use plimsoll_proto::v1::{
    Basis, EvidenceLine, ExplainResponse, Outlook, Prediction, Quantity, Rung, UsedAttempt, Verdict,
};
use serde::Serialize;

use super::{groups::NeedGroupsJson, jobs::JobsCurveJson};
use crate::ask::words;

/// What an attempt should ask for.
#[derive(Debug, Serialize)]
pub(super) struct PredictionJson {
    /// Memory to request, for packing.
    memory_request_bytes: Option<QuantityJson>,
    /// Memory limit, for killing.
    memory_limit_bytes: Option<QuantityJson>,
    /// CPU in thousandths of a core.
    cpu_request_millicores: Option<QuantityJson>,
    cpu_limit_millicores: Option<QuantityJson>,
    /// Parallel jobs (-j).
    build_jobs: Option<QuantityJson>,
    /// Wall time that half of the attempts need.
    wall_p50_ms: Option<QuantityJson>,
    /// Wall time that 95 % of the attempts need.
    wall_p95_ms: Option<QuantityJson>,
    /// 0 to 1.
    confidence: f64,
    /// Attempts that the prediction learnt from.
    attempts: u32,
    /// One sentence.
    reason: String,
    /// Shadow mode: to be looked at, and not to be put into force.
    shadow: bool,
    /// Name of the pool in which it should run; empty if there is none.
    pool: String,
    /// It needs more than the pool has.
    clamped: bool,
    /// Why this pool.
    pool_reason: String,
    /// Several groups of need among the attempts; `null` if they are one group, or too few.
    need_groups: Option<NeedGroupsJson>,
}

/// A number with its reason.
#[derive(Debug, Serialize)]
struct QuantityJson {
    value: u64,
    basis: Option<BasisJson>,
}

/// Why a number is what it is.
#[derive(Debug, Serialize)]
struct BasisJson {
    /// `default`, `fleet`, `build_system`, `package`, `no_compiler`, `no_version` or `exact`.
    rung: String,
    attempts: u32,
    /// 0 to 1; 0 if the number is not a quantile.
    quantile: f64,
    /// Factor on top, 1 for none.
    margin: f64,
    /// The floor, the cap or what else decided beside the attempts; empty if nothing did.
    bound: String,
}

/// A prediction and what it learnt from.
#[derive(Debug, Serialize)]
pub(super) struct ExplanationJson {
    prediction: Option<PredictionJson>,
    /// The same build at other numbers of build jobs; `null` from a server that does not tell.
    jobs: Option<JobsCurveJson>,
    /// Heaviest first; left out where only the jobs are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<UsedAttemptJson>>,
}

impl ExplanationJson {
    /// Only the prediction and the jobs.
    pub(super) fn without_attempts(explained: &ExplainResponse) -> Self {
        Self { attempts: None, ..Self::from(explained) }
    }
}

/// One attempt that a prediction learnt from.
#[derive(Debug, Serialize)]
struct UsedAttemptJson {
    attempt: String,
    rung: String,
    /// Share of all weight, 0 to 1.
    weight: f64,
    need_bytes: u64,
    /// It proves "more than this".
    censored: bool,
    /// Its build jobs; `null` if they are not known.
    build_jobs: Option<u32>,
    /// How long it took.
    wall_ms: u64,
    /// Its need as it was measured, before it was adjusted to the build jobs and the input asked for.
    measured_bytes: u64,
}

/// What to do after a failed attempt.
#[derive(Debug, Serialize)]
pub(super) struct VerdictJson {
    attempt: String,
    /// Whether to try again at all; the same as exit status 0.
    retry: bool,
    /// `no`, `as_is`, `bigger`, `fewer_jobs`, `longer` or `elsewhere`.
    action: String,
    /// For example `oom`.
    cause: String,
    /// What decided the cause, for example `kernel` or `log`; empty if nothing did.
    cause_source: String,
    /// 0 to 1.
    confidence: f64,
    /// Strongest first.
    evidence: Vec<EvidenceJson>,
    /// What the next attempt should ask for; without `retry`, `null` or what an attempt needs that a person starts all the same.
    next: Option<PredictionJson>,
    attempts_left: u32,
    /// One sentence.
    reason: String,
    /// `null` if the server does not say.
    outlook: Option<OutlookJson>,
    /// When it was put on disk; 0 if that is not known.
    given_unix_ms: u64,
}

/// What the failure is called, and what a retry of it would mean.
#[derive(Debug, Serialize)]
struct OutlookJson {
    /// 16 hexadecimal digits; empty if no line says what went wrong.
    signature: String,
    /// What the signature stands for: without numbers and directories.
    signature_line: String,
    /// The first line of the log that says what went wrong, as it was; empty if none does, or from an older server.
    failure_line: String,
    /// Other attempts that failed so at the same commit, or in the same job.
    seen: u32,
    /// Retries of this failure whose end is known, and those that passed.
    retried: u32,
    passed: u32,
    /// Share of them, 0 to 1; `null` as long as there are none.
    pass_rate: Option<f64>,
    cost_memory_gib_hours: f64,
    cost_cpu_core_hours: f64,
    wait_ms: u64,
    waiting_saves_gib_hours: f64,
    /// The next size is below what the failure asks for.
    clamped: bool,
    /// What would mend it, if a retry cannot; empty if that is not known.
    mend: String,
}

/// One observation.
#[derive(Debug, Serialize)]
struct EvidenceJson {
    /// `kernel`, `container`, `pod`, `measured`, `exit`, `ci`, `log` or `policy`.
    source: String,
    text: String,
    /// False for an observation that argued against the cause.
    supports: bool,
}

impl From<&Prediction> for PredictionJson {
    fn from(prediction: &Prediction) -> Self {
        let quantity = |quantity: &Option<Quantity>| quantity.as_ref().map(QuantityJson::from);
        Self {
            memory_request_bytes: quantity(&prediction.memory_request_bytes),
            memory_limit_bytes: quantity(&prediction.memory_limit_bytes),
            cpu_request_millicores: quantity(&prediction.cpu_request_millicores),
            cpu_limit_millicores: quantity(&prediction.cpu_limit_millicores),
            build_jobs: quantity(&prediction.build_jobs),
            wall_p50_ms: quantity(&prediction.wall_p50_ms),
            wall_p95_ms: quantity(&prediction.wall_p95_ms),
            confidence: prediction.confidence,
            attempts: prediction.attempts,
            reason: prediction.reason.clone(),
            shadow: prediction.shadow,
            pool: prediction.pool.clone(),
            clamped: prediction.clamped,
            pool_reason: prediction.pool_reason.clone(),
            need_groups: prediction.need_groups.as_ref().map(NeedGroupsJson::from),
        }
    }
}

impl From<&Quantity> for QuantityJson {
    fn from(quantity: &Quantity) -> Self {
        Self { value: quantity.value, basis: quantity.basis.as_ref().map(BasisJson::from) }
    }
}

impl From<&Basis> for BasisJson {
    fn from(basis: &Basis) -> Self {
        Self {
            rung: rung(basis.rung()),
            attempts: basis.attempts,
            quantile: basis.quantile,
            margin: basis.margin,
            bound: basis.bound.clone(),
        }
    }
}

impl From<&ExplainResponse> for ExplanationJson {
    fn from(explained: &ExplainResponse) -> Self {
        let used = |used: &UsedAttempt| UsedAttemptJson {
            attempt: used.attempt.clone(),
            rung: rung(used.rung()),
            weight: used.weight,
            need_bytes: used.need_bytes,
            censored: used.censored,
            build_jobs: used.build_jobs,
            wall_ms: used.wall_ms,
            measured_bytes: used.measured_bytes,
        };
        Self {
            prediction: explained.prediction.as_ref().map(PredictionJson::from),
            jobs: explained.jobs.as_ref().map(JobsCurveJson::from),
            attempts: Some(explained.attempts.iter().map(used).collect()),
        }
    }
}

impl From<&Outlook> for OutlookJson {
    fn from(outlook: &Outlook) -> Self {
        let rate = || f64::from(outlook.passed) / f64::from(outlook.retried);
        Self {
            signature: outlook.signature.clone(),
            signature_line: outlook.signature_line.clone(),
            failure_line: outlook.failure_line.clone(),
            seen: outlook.seen,
            retried: outlook.retried,
            passed: outlook.passed,
            pass_rate: (outlook.retried > 0).then(rate),
            cost_memory_gib_hours: outlook.cost_memory_gib_hours,
            cost_cpu_core_hours: outlook.cost_cpu_core_hours,
            wait_ms: outlook.wait_ms,
            waiting_saves_gib_hours: outlook.waiting_saves_gib_hours,
            clamped: outlook.clamped,
            mend: outlook.mend.clone(),
        }
    }
}

impl From<&Verdict> for VerdictJson {
    fn from(verdict: &Verdict) -> Self {
        let evidence = |line: &EvidenceLine| EvidenceJson {
            source: line.source.clone(),
            text: line.text.clone(),
            supports: line.supports,
        };
        Self {
            attempt: verdict.attempt.clone(),
            retry: words::is_retry(verdict.action()),
            action: words::action(verdict.action()),
            cause: words::cause(verdict.cause()),
            cause_source: verdict.cause_source.clone(),
            confidence: verdict.confidence,
            evidence: verdict.evidence.iter().map(evidence).collect(),
            next: verdict.next.as_ref().map(PredictionJson::from),
            attempts_left: verdict.attempts_left,
            reason: verdict.reason.clone(),
            outlook: verdict.outlook.as_ref().map(OutlookJson::from),
            given_unix_ms: verdict.given_unix_ms,
        }
    }
}

fn rung(rung: Rung) -> String {
    words::rung(rung)
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Action, Cause};
    use serde_json::{Value, json};

    use super::*;
    use crate::ask::json::{render_prediction, render_verdict};

    #[test]
    fn a_prediction_has_the_names_of_the_wire() {
        let basis = Basis {
            rung: Rung::Exact.into(),
            attempts: 7,
            quantile: 0.95,
            margin: 1.1,
            bound: String::new(),
        };
        let prediction = Prediction {
            memory_request_bytes: Some(Quantity { value: 5, basis: Some(basis) }),
            confidence: 0.5,
            ..Prediction::default()
        };
        let said: Value = serde_json::from_str(&render_prediction(&prediction)).unwrap();
        let basis = json!({"rung": "exact", "attempts": 7, "quantile": 0.95, "margin": 1.1, "bound": ""});
        assert_eq!(said["memory_request_bytes"], json!({"value": 5, "basis": basis}));
        assert_eq!((&said["wall_p95_ms"], &said["confidence"]), (&Value::Null, &json!(0.5)));
    }

    #[test]
    fn a_verdict_says_in_one_field_whether_to_retry() {
        let verdict =
            Verdict { action: Action::Bigger.into(), cause: Cause::Oom.into(), ..Verdict::default() };
        let said: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
        assert_eq!(
            [&said["retry"], &said["action"], &said["cause"]],
            [&json!(true), &json!("bigger"), &json!("oom")]
        );
        assert_eq!(said["outlook"], Value::Null);
    }

    #[test]
    fn a_verdict_says_what_a_retry_would_mean() {
        let outlook = Outlook { retried: 4, passed: 3, wait_ms: 30, ..Outlook::default() };
        let verdict = Verdict { outlook: Some(outlook), ..Verdict::default() };
        let said: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
        let said = &said["outlook"];
        assert_eq!(
            [&said["pass_rate"], &said["wait_ms"], &said["clamped"]],
            [&json!(0.75), &json!(30), &json!(false)]
        );
        let verdict = Verdict { outlook: Some(Outlook::default()), ..Verdict::default() };
        let said: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
        assert_eq!(said["outlook"]["pass_rate"], Value::Null, "nothing was tried, so nothing is known");
    }
}
