//! Names and nulls of the JSON of an attempt.

use plimsoll_proto::v1::{Exit, OomOrigin, Outcome};
use serde_json::{Value, json};

use super::*;
use crate::ask::json::render_attempt;

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
    let said: Value = serde_json::from_str(&render_attempt(&shown)).unwrap();
    let summary = &said["summary"];
    assert_eq!(summary["key"]["ref"], json!("main"));
    assert_eq!([&summary["exit_code"], &summary["oom_kill"]], [&json!(2), &Value::Null]);
    assert_eq!([&summary["outcome"], &said["series"][0]["need_bytes"]], [&json!("failed"), &json!(0)]);
}

#[test]
fn what_held_a_build_back_and_its_phases_are_said() {
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
    let said: Value = serde_json::from_str(&render_attempt(&shown)).unwrap();
    let summary = &said["summary"];
    assert_eq!([&summary["oom_origin"], &summary["peak_phase"]], [&json!("limit_above"), &json!("build")]);
    assert_eq!([&summary["starved_ms"], &summary["throttled_usec"]], [&json!(7), &Value::Null]);
    assert_eq!(
        [&summary["phases"][0]["wall_ms"], &said["series"][0]["need_max_bytes"]],
        [&json!(5), &json!(9)]
    );
}
