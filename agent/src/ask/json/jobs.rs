//! JSON of a build at different numbers of build jobs.

use plimsoll_proto::v1::{JobsCurve, JobsPoint};
use serde::Serialize;

use crate::ask::words;

/// What a build needs at different numbers of build jobs.
#[derive(Debug, Serialize)]
pub(super) struct JobsCurveJson {
    /// `nothing`, `one_count`, `contradictory`, `flat` or `line`.
    known: String,
    /// The least similar rung that was heard.
    rung: String,
    /// Fewest jobs first.
    points: Vec<JobsPointJson>,
    /// Need that belongs to no job.
    base_bytes: u64,
    /// Need of one job more.
    per_job_bytes: u64,
    memory_limit_bytes: Option<u64>,
    /// The most jobs of which 95 % of the builds fit the limit.
    most_that_fit: Option<u32>,
    /// The jobs that hold least memory over their time.
    cheapest: Option<u32>,
    reason: String,
}

/// A build at one number of jobs.
#[derive(Debug, Serialize)]
struct JobsPointJson {
    jobs: u32,
    /// Attempts at exactly this number; 0 if the point is worked out from others.
    attempts: u32,
    /// Those of them that memory stopped.
    stopped: u32,
    need_p50_bytes: u64,
    need_p95_bytes: u64,
    /// 0 if it is not known.
    wall_p50_ms: u64,
    /// `need_p95_bytes` held for `wall_p50_ms`.
    held_gib_hours: f64,
}

impl From<&JobsCurve> for JobsCurveJson {
    fn from(curve: &JobsCurve) -> Self {
        let point = |point: &JobsPoint| JobsPointJson {
            jobs: point.jobs,
            attempts: point.attempts,
            stopped: point.stopped,
            need_p50_bytes: point.need_p50_bytes,
            need_p95_bytes: point.need_p95_bytes,
            wall_p50_ms: point.wall_p50_ms,
            held_gib_hours: point.held_gib_hours,
        };
        Self {
            known: words::curve_known(curve.known()),
            rung: words::rung(curve.rung()),
            points: curve.points.iter().map(point).collect(),
            base_bytes: curve.base_bytes,
            per_job_bytes: curve.per_job_bytes,
            memory_limit_bytes: curve.memory_limit_bytes,
            most_that_fit: curve.most_that_fit,
            cheapest: curve.cheapest,
            reason: curve.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{CurveKnown, ExplainResponse, UsedAttempt};
    use serde_json::{Value, json};

    use super::*;
    use crate::ask::json::{render_explanation, render_jobs};

    #[test]
    fn the_curve_stands_in_both_answers_and_the_attempts_only_where_they_are_asked_for() {
        let point = JobsPoint { jobs: 2, need_p95_bytes: 7, ..JobsPoint::default() };
        let known = CurveKnown::Line.into();
        let curve = JobsCurve { known, points: vec![point], most_that_fit: Some(2), ..JobsCurve::default() };
        let attempts = vec![UsedAttempt { build_jobs: Some(2), ..UsedAttempt::default() }];
        let explained = ExplainResponse { jobs: Some(curve), attempts, prediction: None };
        let whole: Value = serde_json::from_str(&render_explanation(&explained)).unwrap();
        let short: Value = serde_json::from_str(&render_jobs(&explained)).unwrap();
        for said in [&whole, &short] {
            assert_eq!((&said["jobs"]["known"], &said["jobs"]["most_that_fit"]), (&json!("line"), &json!(2)));
            assert_eq!(said["jobs"]["points"][0]["need_p95_bytes"], json!(7));
            assert_eq!(said["jobs"]["cheapest"], Value::Null);
        }
        assert_eq!(whole["attempts"][0]["build_jobs"], json!(2));
        assert!(short.get("attempts").is_none(), "{short}");
    }
}
