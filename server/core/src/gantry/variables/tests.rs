//! The variables that stock clients are sent.

use std::sync::Arc;

use super::*;
use crate::{
    domain::{History, Key, Outcome, Rung, Summary},
    predict,
};

fn sizes(memory_gib: (u64, u64), milli: (u64, u64)) -> Prediction {
    let mut prediction = predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
    prediction.memory_request.value = memory_gib.0 << 30;
    prediction.memory_limit.value = memory_gib.1 << 30;
    prediction.cpu_request.value = milli.0;
    prediction.cpu_limit.value = milli.1;
    prediction.build_jobs.value = 8;
    prediction.confidence = 0.9;
    let Prediction { memory_request, memory_limit, cpu_request, cpu_limit, build_jobs, .. } = &mut prediction;
    for quantity in [memory_request, memory_limit, cpu_request, cpu_limit, build_jobs] {
        quantity.basis.rung = Rung::Exact;
    }
    prediction
}

fn text(prediction: &Prediction, settings: &Settings) -> String {
    serde_json::to_string(&allocation_answer(prediction, "", settings)).unwrap()
}

#[test]
fn disk_follows_the_operators_settings_and_its_cap() {
    let gib = |n: u64| Bytes(n << 30);
    let settings = Settings {
        extras: vec![ExtraVariable::EphemeralStorage],
        ephemeral_storage: vec![("e4s".into(), gib(40)), ("big".into(), gib(400))],
        max_ephemeral_storage: Some(gib(100)),
        ..Settings::default()
    };
    let disk = |stack: &str, settings: &Settings| {
        let answer_text =
            serde_json::to_value(allocation_answer(&sizes((2, 4), (500, 500)), stack, settings)).unwrap();
        answer_text["variables"].get("KUBERNETES_EPHEMERAL_STORAGE_REQUEST").cloned()
    };
    assert_eq!(disk("e4s", &settings), Some("40960Mi".into()));
    assert_eq!(disk("big", &settings), Some("102400Mi".into()));
    assert_eq!((disk("", &settings), disk("other", &settings)), (None, None), "no size is set");
    let all = Settings { ephemeral_storage: vec![("*".into(), gib(20))], ..settings.clone() };
    assert_eq!(disk("other", &all), Some("20480Mi".into()));
    assert_eq!(disk("e4s", &Settings { extras: Vec::new(), ..settings }), None, "not switched on");
}

#[test]
fn without_settings_only_the_two_requests_are_sent() {
    let answer_text = text(&sizes((2, 4), (1234, 2000)), &Settings::default());
    let expected = r#"{"variables":{"KUBERNETES_CPU_REQUEST":"1234m","KUBERNETES_MEMORY_REQUEST":"2048Mi"}}"#;
    assert_eq!(answer_text, expected);
}

#[test]
fn extras_are_sent_when_they_are_switched_on() {
    let settings = Settings { extras: ExtraVariable::ALL.to_vec(), ..Settings::default() };
    let answer_text = text(&sizes((2, 4), (1234, 2000)), &settings);
    let expected =
        r#""KUBERNETES_CPU_LIMIT":"2000m","KUBERNETES_MEMORY_LIMIT":"4096Mi","SPACK_BUILD_JOBS":"8"}}"#;
    assert!(answer_text.ends_with(expected), "{answer_text}");
}

#[test]
fn unknown_extras_are_not_sent() {
    let settings = Settings { extras: ExtraVariable::ALL.to_vec(), ..Settings::default() };
    let mut prediction = sizes((2, 4), (1000, 2000));
    for quantity in [&mut prediction.cpu_request, &mut prediction.cpu_limit, &mut prediction.build_jobs] {
        quantity.basis.rung = Rung::Default;
    }
    let answer_text = text(&prediction, &settings);
    let expected = r#"{"variables":{"KUBERNETES_CPU_REQUEST":"1000m","KUBERNETES_MEMORY_REQUEST":"2048Mi","KUBERNETES_MEMORY_LIMIT":"4096Mi"}}"#;
    assert_eq!(answer_text, expected);
    let unknown = predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
    let only_requests = text(&unknown, &Settings::default());
    let unknown = text(&unknown, &settings);
    assert_eq!(unknown, only_requests, "a default limit would take from the job what it has");
}

#[test]
fn a_raised_memory_request_also_sets_the_limit() {
    let gib = |n: u64| n << 30;
    let settings = Settings { extras: vec![ExtraVariable::MemoryLimit], ..Settings::default() };
    let key = Key { package: "zlib".into(), ..Key::default() };
    let asked = |kill_mib: Option<u64>, settings: &Settings| {
        let mut history = History::new(10);
        if let Some(mib) = kill_mib {
            let killed = crate::domain::test_summary("k", "zlib", "1", mib);
            history.learn(Arc::new(Summary { outcome: Outcome::Failed, censored: true, ..killed }));
        }
        let least = predict::defaults_raised_to_need(&history, &key, &predict::Settings::default());
        assert_eq!(least.confidence.to_bits(), 0, "a failure makes nothing surer");
        let answer_text = serde_json::to_value(allocation_answer(&least, "", settings)).unwrap();
        ["KUBERNETES_MEMORY_REQUEST", "KUBERNETES_MEMORY_LIMIT"]
            .map(|name| answer_text["variables"][name].as_str().map(|text| quantity::bytes(text).unwrap()))
    };
    assert_eq!(asked(None, &settings), [Some(gib(2)), None]);
    assert_eq!(asked(Some(2048), &settings), [Some(gib(3)); 2]);
    assert_eq!(asked(Some(4096), &settings), [Some(gib(6)), Some(gib(6))]);
    assert_eq!(asked(Some(4096), &Settings::default()), [Some(gib(6)), None], "not switched on");
    let cut = Settings { max_memory_limit: Some(Bytes(gib(5))), ..settings };
    assert_eq!(asked(Some(4096), &cut), [Some(gib(5)); 2]);
}

#[test]
fn retry_is_sent_only_with_exit_codes() {
    let settings = Settings { retry_exit_codes: vec![82, 83], ..Settings::default() };
    let answer_text = text(&sizes((2, 4), (1234, 2000)), &settings);
    assert!(answer_text.ends_with(r#"},"retry":{"max":2,"exit_codes":[82,83]}}"#), "{answer_text}");
}

#[test]
fn nothing_goes_above_what_the_runner_allows() {
    let settings = Settings {
        extras: ExtraVariable::ALL.to_vec(),
        max_memory_request: Some(Bytes(64_000_000_000)),
        max_memory_limit: Some(Bytes(96_000_000_000)),
        max_cpu_request: Some(Cores(16.0)),
        max_cpu_limit: Some(Cores(0.29)),
        ..Settings::default()
    };
    let answer_text = text(&sizes((100, 200), (99_000, 99_000)), &settings);
    // 64e9 / 2^20 = 61035.2, 96e9 / 2^20 = 91552.7; the CPU request may not exceed its limit either
    for part in [
        r#""KUBERNETES_MEMORY_REQUEST":"61035Mi""#,
        r#""KUBERNETES_MEMORY_LIMIT":"91552Mi""#,
        r#""KUBERNETES_CPU_REQUEST":"290m""#,
        r#""KUBERNETES_CPU_LIMIT":"290m""#,
    ] {
        assert!(answer_text.contains(part), "{part} is not in {answer_text}");
    }
}
