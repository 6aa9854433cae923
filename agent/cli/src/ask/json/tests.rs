//! Names and nulls of the JSON that programs read.

use plimsoll_proto::v1::{
    Action, Basis, Calibration, Cause, CurveKnown, JobsCurve, JobsPoint, OomOrigin, Outcome, Phase, Quantity,
    Regression, Rung, Running, Sample, UsedAttempt,
};
use serde_json::{Value, json};

use super::*;

#[test]
fn an_attempt_has_the_names_of_the_wire_and_null_for_the_unknown() {
    let summary = Summary {
        attempt: "a".to_owned(),
        key: Some(Key { package: "zlib".to_owned(), r#ref: "main".to_owned(), ..Key::default() }),
        outcome: Outcome::Failed.into(),
        exit: Some(Exit { code: Some(2), signal: None }),
        ..Summary::default()
    };
    let shown =
        GetAttemptResponse { summary: Some(summary), series: vec![Sample::default()], ..Default::default() };
    let parsed: Value = serde_json::from_str(&render_attempt(&shown)).unwrap();
    let summary = &parsed["summary"];
    assert_eq!(summary["key"]["ref"], json!("main"));
    assert_eq!([&summary["exit_code"], &summary["oom_kill"]], [&json!(2), &Value::Null]);
    assert_eq!([&summary["outcome"], &parsed["series"][0]["need_bytes"]], [&json!("failed"), &json!(0)]);
}

#[test]
fn what_held_a_build_back_and_its_phases_are_shown() {
    let phase = Phase { name: "build".to_owned(), wall_ms: 5, ..Phase::default() };
    let summary = Summary {
        oom_origin: OomOrigin::LimitAbove.into(),
        starved_ms: Some(7),
        phases: vec![phase],
        peak_phase: "build".to_owned(),
        ..Summary::default()
    };
    let row = Sample { need_max_bytes: Some(9), ..Sample::default() };
    let shown = GetAttemptResponse { summary: Some(summary), series: vec![row], ..Default::default() };
    let parsed: Value = serde_json::from_str(&render_attempt(&shown)).unwrap();
    let summary = &parsed["summary"];
    assert_eq!([&summary["oom_origin"], &summary["peak_phase"]], [&json!("limit_above"), &json!("build")]);
    assert_eq!([&summary["starved_ms"], &summary["throttled_usec"]], [&json!(7), &Value::Null]);
    assert_eq!(
        [&summary["phases"][0]["wall_ms"], &parsed["series"][0]["need_max_bytes"]],
        [&json!(5), &json!(9)]
    );
}

#[test]
fn a_prediction_has_the_names_of_the_wire() {
    let basis = Basis {
        rung: Rung::Exact.into(),
        attempts: 7,
        quantile: 0.95,
        margin: 1.1,
        bound: String::new(),
        ..Basis::default()
    };
    let prediction = Prediction {
        memory_request_bytes: Some(Quantity { value: 5, basis: Some(basis) }),
        confidence: 0.5,
        ..Prediction::default()
    };
    let parsed: Value = serde_json::from_str(&render_prediction(&prediction)).unwrap();
    let basis = json!({"rung": "exact", "attempts": 7, "quantile": 0.95, "margin": 1.1, "bound": "", "all_of_rung": false, "by_processes": 0});
    assert_eq!(parsed["memory_request_bytes"], json!({"value": 5, "basis": basis}));
    assert_eq!((&parsed["wall_p95_ms"], &parsed["confidence"]), (&Value::Null, &json!(0.5)));
}

#[test]
fn a_verdict_says_in_one_field_whether_to_retry() {
    let verdict = Verdict { action: Action::Bigger.into(), cause: Cause::Oom.into(), ..Verdict::default() };
    let parsed: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
    assert_eq!(
        [&parsed["retry"], &parsed["action"], &parsed["cause"]],
        [&json!(true), &json!("bigger"), &json!("oom")]
    );
    assert_eq!(parsed["outlook"], Value::Null);
}

#[test]
fn a_verdict_says_what_a_retry_would_mean() {
    let outlook = Outlook { retried: 4, passed: 3, wait_ms: 30, ..Outlook::default() };
    let verdict = Verdict { outlook: Some(outlook), ..Verdict::default() };
    let parsed: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
    let parsed = &parsed["outlook"];
    assert_eq!(
        [&parsed["pass_rate"], &parsed["wait_ms"], &parsed["clamped"]],
        [&json!(0.75), &json!(30), &json!(false)]
    );
    let verdict = Verdict { outlook: Some(Outlook::default()), ..Verdict::default() };
    let parsed: Value = serde_json::from_str(&render_verdict(&verdict)).unwrap();
    assert_eq!(parsed["outlook"]["pass_rate"], Value::Null, "nothing was tried, so nothing is known");
}

#[test]
fn statistics_without_totals_are_zeros() {
    let parsed: Value = serde_json::from_str(&render_stats(&GetStatsResponse::default())).unwrap();
    assert_eq!((&parsed["totals"]["attempts"], &parsed["groups"]), (&json!(0), &json!([])));
    assert_eq!(parsed["regressions"], json!([]));
}

#[test]
fn sums_of_what_was_not_measured_are_null_and_not_zero() {
    let totals = Some(StatsTotals {
        attempts: 3,
        memory_not_measured: 3,
        cpu_not_measured: 1,
        cpu_core_hours: 2.0,
        ..StatsTotals::default()
    });
    let stats = GetStatsResponse { totals, ..GetStatsResponse::default() };
    let parsed: Value = serde_json::from_str(&render_stats(&stats)).unwrap();
    for name in
        ["memory_used_gib_hours", "memory_asked_gib_hours", "memory_wasted_gib_hours", "need_peak_max_bytes"]
    {
        assert_eq!(parsed["totals"][name], Value::Null, "{name}");
    }
    assert_eq!(
        [&parsed["totals"]["cpu_core_hours"], &parsed["totals"]["memory_not_measured"]],
        [&json!(2.0), &json!(3)]
    );
}

#[test]
fn a_regression_has_the_names_of_the_wire() {
    let kind = plimsoll_proto::v1::ChangeKind::Step.into();
    let regression = Regression { attempt: "a".to_owned(), factor: 2.5, kind, ..Regression::default() };
    let stats = GetStatsResponse { regressions: vec![regression], ..GetStatsResponse::default() };
    let parsed: Value = serde_json::from_str(&render_stats(&stats)).unwrap();
    let first = &parsed["regressions"][0];
    assert_eq!(
        (&first["attempt"], &first["factor"], &first["kind"]),
        (&json!("a"), &json!(2.5), &json!("step"))
    );
}

#[test]
fn causes_have_their_names_and_what_was_not_predicted_is_null() {
    let causes = vec![CauseCount { cause: Cause::DiskFull.into(), count: 3 }];
    let calibration = Some(Calibration { attempts: 2, within_limit: 1, ..Calibration::default() });
    let totals = Some(StatsTotals { causes, calibration, ..StatsTotals::default() });
    let stats = GetStatsResponse { totals, currency: "EUR".to_owned(), ..GetStatsResponse::default() };
    let parsed: Value = serde_json::from_str(&render_stats(&stats)).unwrap();
    let totals = &parsed["totals"];
    assert_eq!([&totals["causes"], &parsed["currency"]], [&json!({ "disk_full": 3 }), &json!("EUR")]);
    assert_eq!(totals["calibration"]["within_limit"], json!(1));
    assert_eq!(totals["would_have_been"], Value::Null);
}

#[test]
fn the_curve_is_in_both_answers_and_the_attempts_only_where_they_are_asked_for() {
    let point = JobsPoint { jobs: 2, need_p95_bytes: 7, ..JobsPoint::default() };
    let known = CurveKnown::Line.into();
    let curve = JobsCurve { known, points: vec![point], most_that_fit: Some(2), ..JobsCurve::default() };
    let attempts = vec![UsedAttempt { build_jobs: Some(2), ..UsedAttempt::default() }];
    let explained = ExplainResponse { jobs: Some(curve), attempts, prediction: None };
    let whole: Value = serde_json::from_str(&render_explanation(&explained)).unwrap();
    let short: Value = serde_json::from_str(&render_jobs(&explained)).unwrap();
    for parsed in [&whole, &short] {
        assert_eq!((&parsed["jobs"]["known"], &parsed["jobs"]["most_that_fit"]), (&json!("line"), &json!(2)));
        assert_eq!(parsed["jobs"]["points"][0]["need_p95_bytes"], json!(7));
        assert_eq!(parsed["jobs"]["cheapest"], Value::Null);
    }
    assert_eq!(whole["attempts"][0]["build_jobs"], json!(2));
    assert!(short.get("attempts").is_none(), "{short}");
}

#[test]
fn a_message_is_one_line() {
    let running = Running { attempt: "a\nb".to_owned(), need_bytes: 7, ..Running::default() };
    let line = render_watch(&WatchResponse { running: vec![running], ended: vec!["c".to_owned()] });
    assert_eq!(line.matches('\n').count(), 1);
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!([&parsed["running"][0]["need_bytes"], &parsed["ended"]], [&json!(7), &json!(["c"])]);
}
