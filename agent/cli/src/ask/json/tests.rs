//! Rules of the JSON that programs read; `golden` pins its names.

use plimsoll_proto::v1::{Outlook, Running};
use serde_json::{Value, json};

use super::*;

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
fn a_message_is_one_line() {
    let running = Running { attempt: "a\nb".to_owned(), need_bytes: 7, ..Running::default() };
    let line = render_watch(&WatchResponse { running: vec![running], ended: vec!["c".to_owned()] });
    assert_eq!(line.matches('\n').count(), 1);
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!([&parsed["running"][0]["need_bytes"], &parsed["ended"]], [&json!(7), &json!(["c"])]);
}
