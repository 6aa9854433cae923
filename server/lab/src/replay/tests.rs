//! The accounts of a replay, on files small enough to check by hand.

use std::fmt::Write as _;

use plimsoll_core::predict::Settings;

use super::{tally::PolicyTally, tape::ReplayTape, *};
use crate::import::Reader;

const GIB: u64 = 1 << 30;
const HOUR: u64 = 3_600_000;

fn tape(text: &str) -> ReplayTape {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.csv");
    std::fs::write(&path, text).unwrap();
    ReplayTape::read(Reader::open(&path).unwrap(), |_| {}).unwrap()
}

fn cost(tape: &ReplayTape, kind: PolicyKind, aim: FailureTarget) -> PolicyTally {
    run(tape, kind, &Settings::default(), TuneGoal { target: aim, warmup: 0.0 }, |_| {}).unwrap()
}

/// Builds of one package, one after the other, each of an hour.
fn builds(peaks: &[u64], preset: u64) -> ReplayTape {
    let mut text = "package,wall_ms,peak_bytes,requested_bytes\n".to_owned();
    for peak in peaks {
        writeln!(text, "zlib,{HOUR},{peak},{preset}").unwrap();
    }
    tape(&text)
}

#[test]
fn surplus_includes_unused_and_lost_memory() {
    // the preset of 1 GiB fits the first build; the second needs 3 GiB: 1 and 2 GiB are lost, 4 GiB are held
    let tape = builds(&[GIB / 2, 3 * GIB], GIB);
    let tally = cost(&tape, PolicyKind::Preset, FailureTarget::AsItIs);
    let surplus = tally.all_builds.surplus_gib_hours;
    assert!((surplus - (0.5 + 1.0 + 2.0 + 1.0)).abs() < 1e-9, "{surplus}");
    assert!((tally.all_builds.need_gib_hours - 3.5).abs() < 1e-9);
    let value: serde_json::Value =
        serde_json::from_str(&json(&tape, &[(PolicyKind::Preset, tally.clone())], None, false)).unwrap();
    let number = |name: &str| value["policies"][0][name].as_f64().unwrap();
    assert!((number("surplus_gib_hours") - 4.5).abs() < 1e-9);
    assert!((number("need_gib_hours") - 3.5).abs() < 1e-9);
    assert_eq!(tally.all_builds.scored, 2);
    assert_eq!(tally.all_builds.first_failed, 1);
    assert_eq!(tally.all_builds.failures, 2);
}

#[test]
fn perfect_foresight_has_no_surplus() {
    let tally = cost(&builds(&[GIB, 5 * GIB, 2 * GIB], 4 * GIB), PolicyKind::Oracle, FailureTarget::AsItIs);
    assert!((tally.all_builds.surplus_gib_hours, tally.all_builds.failures) == (0.0, 0));
}

#[test]
fn an_attempt_is_learned_only_after_it_ends() {
    let rows = |second_start: u64| {
        let start = 1_700_000_000_000_u64;
        tape(&format!(
            "package,submitted_ms,wall_ms,peak_bytes,requested_bytes\n\
             zlib,{},{HOUR},{GIB},{}\nzlib,{start},{HOUR},{},{}\n",
            start + second_start,
            8 * GIB,
            2 * GIB,
            8 * GIB,
        ))
    };
    let waste = |tape: &ReplayTape| {
        cost(tape, PolicyKind::MaxSeen, FailureTarget::AsItIs).all_builds.surplus_gib_hours
    };
    // unsorted rows; the later one starts while the earlier one runs, and knows nothing of it
    assert!((waste(&rows(HOUR / 2)) - (6.0 + 7.0)).abs() < 1e-6);
    assert!((waste(&rows(HOUR)) - (6.0 + 1.0)).abs() < 1e-6);
}

#[test]
fn rows_with_equal_times_keep_file_order() {
    let mut text = "package,submitted_ms,wall_ms,peak_bytes\n".to_owned();
    for n in 0..1000 {
        writeln!(text, "zlib,{},1,{}", 1_700_000_000_000_u64 + u64::from(n % 2 == 0), 1_000_000 + n).unwrap();
    }
    let peaks: Vec<u64> = tape(&text).rows.iter().map(|row| row.peak.0 - 1_000_000).collect();
    assert_eq!(peaks, (1..1000).step_by(2).chain((0..1000).step_by(2)).collect::<Vec<_>>());
    assert!(size_of::<tape::TapeRow>() <= 96, "{} bytes a row", size_of::<tape::TapeRow>());
}

#[test]
fn every_policy_settles_on_a_build_that_repeats() {
    let tape = builds(&[GIB; 60], 16 * GIB);
    for kind in PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Preset) {
        let tally = run(
            &tape,
            kind,
            &Settings::default(),
            TuneGoal { target: FailureTarget::AsItIs, warmup: 0.5 },
            |_| {},
        )
        .unwrap();
        let over = tally.all_builds.surplus_over_need();
        // VPA's buckets and margin, TaskVine's buckets and our limits hold most above a need that repeats
        let most = if kind == PolicyKind::PlimsollLimit { 16.0 } else { 0.3 };
        assert_eq!(tally.all_builds.scored, 30, "{}: {over}", kind.as_str());
        assert_eq!(tally.all_builds.failures, 0, "{}: {over}", kind.as_str());
        assert!(over < most, "{}: {over}", kind.as_str());
    }
}

#[test]
fn a_file_without_presets_yields_no_preset_policy() {
    let tape = tape("package,wall_ms,peak_bytes\nzlib,1,1000000\n");
    assert!(
        run(
            &tape,
            PolicyKind::Preset,
            &Settings::default(),
            TuneGoal { target: FailureTarget::AsItIs, warmup: 0.0 },
            |_| {}
        )
        .is_none()
    );
}

#[test]
fn policies_are_tuned_to_the_requested_failure_rate() {
    // needs of 1 to 2 GiB in a fixed order without a pattern
    let needs: Vec<u64> = (0..400_u64).map(|n| GIB + (n * 7919 % 401) * GIB / 401).collect();
    let tape = builds(&needs, 4 * GIB);
    for kind in [PolicyKind::Gantry, PolicyKind::PodScaler, PolicyKind::Krr] {
        let matched = cost(&tape, kind, FailureTarget::Match(0.1)).all_builds.first_failed_rate();
        assert!((matched - 0.1).abs() < 0.03, "{}: {matched}", kind.as_str());
    }
    for kind in [PolicyKind::Plimsoll, PolicyKind::Gantry, PolicyKind::PodScaler] {
        let most = cost(&tape, kind, FailureTarget::AtMost(0.05)).all_builds.first_failed_rate();
        assert!(most <= 0.05, "{}: {most}", kind.as_str());
    }
}

#[test]
fn an_unreachable_rate_costs_no_more_than_needed() {
    // no price makes the first builds fit, because their preset is too small
    let needs: Vec<u64> = (0..80_u64).map(|n| 2 * GIB + (n * 7919 % 401) * GIB / 401).collect();
    let tape = builds(&needs, GIB);
    let matched = cost(&tape, PolicyKind::Plimsoll, FailureTarget::Match(0.001)).all_builds;
    let settings = Settings { failure_price: Some(9e4), ..Settings::default() };
    let goal = TuneGoal { target: FailureTarget::AsItIs, warmup: 0.0 };
    let highest = run(&tape, PolicyKind::Plimsoll, &settings, goal, |_| {}).unwrap().all_builds;
    assert_eq!(matched.first_failed, highest.first_failed);
    assert!(matched.surplus_gib_hours < highest.surplus_gib_hours, "{matched:?} {highest:?}");
}

#[test]
fn the_json_result_has_the_documented_names() {
    let tape = builds(&[GIB, GIB, 3 * GIB], GIB);
    let results: Vec<_> =
        PolicyKind::ALL.into_iter().map(|kind| (kind, cost(&tape, kind, FailureTarget::AsItIs))).collect();
    let value: serde_json::Value = serde_json::from_str(&json(&tape, &results, None, true)).unwrap();
    assert_eq!((&value["rows"], &value["refused"]), (&3.into(), &0.into()));
    let names: Vec<&str> =
        value["policies"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    let documented = [
        "plimsoll",
        "plimsoll-limit",
        "plimsoll-pod",
        "preset",
        "gantry",
        "vpa",
        "pod-scaler",
        "krr",
        "min-waste",
        "max-seen",
        "oracle",
    ];
    assert_eq!(names, documented);
    for field in [
        "surplus_gib_hours",
        "need_gib_hours",
        "failures",
        "attempts",
        "scored",
        "first_try_oom_rate",
        "predict_ns",
    ] {
        assert!(value["policies"][0][field].is_number(), "{field}");
    }
    assert!(packages_table(&results).contains("zlib") && text(&results, None).contains("pod-scaler"));
}

#[test]
fn a_replay_counts_how_often_times_held() {
    // the first build has only defaults, and the last takes twice as long as the others
    let mut text = "package,wall_ms,peak_bytes\n".to_owned();
    for wall in [HOUR, HOUR, HOUR, HOUR, 0, 2 * HOUR] {
        writeln!(text, "zlib,{},{GIB}", if wall > 0 { wall.to_string() } else { String::new() }).unwrap();
    }
    let tape = tape(&text);
    let results = [(PolicyKind::Plimsoll, cost(&tape, PolicyKind::Plimsoll, FailureTarget::AsItIs))];
    let value: serde_json::Value = serde_json::from_str(&json(&tape, &results, None, false)).unwrap();
    let times =
        serde_json::json!({ "builds": 4, "p50_coverage": 0.75, "p95_coverage": 0.75, "p95_over_true": 1.0 });
    assert_eq!(value["policies"][0]["times"], times);
    assert!(text_of_times(&results).starts_with("Times: 75.0 % of 4 builds"), "{results:?}");
}

fn text_of_times(results: &tally::PolicyResults) -> String {
    text(results, None).lines().find(|line| line.starts_with("Times")).unwrap_or_default().to_owned()
}

#[test]
fn packages_with_most_surplus_are_listed_first() {
    let tape = tape(
        "package,wall_ms,peak_bytes,requested_bytes\n\
         fits,3600000,4294967296,4294967296\nlarge,1800000,1073741824,17179869184\n",
    );
    let kinds = [PolicyKind::Plimsoll, PolicyKind::Preset];
    let results: Vec<_> =
        kinds.into_iter().map(|kind| (kind, cost(&tape, kind, FailureTarget::AsItIs))).collect();
    let listed = packages_table(&results);
    assert!(listed.lines().nth(1).unwrap().starts_with("large "), "{listed}");
}

#[test]
fn stdio_answers_each_request_with_one_line() {
    let task =
        r#""task":{"trace":"t","process":"p","input_size":1000,"cpus":2,"requested_bytes":8589934592}"#;
    let input = format!(
        "{{\"op\":\"reset\",\"trace\":\"t\",\"seed\":1}}\n{{\"op\":\"predict\",{task}}}\n\
         {{\"op\":\"observe\",{task},\"peak_bytes\":1073741824,\"runtime_ms\":3600000,\"input_size\":1000,\"attempts\":null}}\n\
         {{\"op\":\"predict\",{task}}}\n{{\"op\":\"retry\",{task},\"failed_bytes\":2147483648,\"attempt\":1}}\n"
    );
    let mut output = Vec::new();
    serve_stdio(&Settings::default(), input.as_bytes(), &mut output).unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1]["bytes"], 8 * GIB, "before anything is known, the preset");
    assert!(lines[3]["bytes"].as_u64().unwrap() < 8 * GIB, "{}", lines[3]);
    assert!(lines[4]["bytes"].as_u64().unwrap() > 2 * GIB, "{}", lines[4]);
    let mut output = Vec::new();
    let error = serve_stdio(&Settings::default(), &b"{}\n"[..], &mut output).unwrap_err();
    assert!(error.to_string().starts_with("line 1 is not a request"), "{error}");
}

#[test]
fn a_replay_ends_with_the_predicted_savings() {
    // 8 GB asked for, 1 GB needed, 20 times: almost all of it is surplus today
    let tape = builds(&[1_000_000_000; 20], 8_000_000_000);
    let both = [PolicyKind::Plimsoll, PolicyKind::Preset]
        .map(|kind| (kind, cost(&tape, kind, FailureTarget::AsItIs)));
    let text = text(&both, None);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("plimsoll against preset, what the builds asked for: "), "{text}");
    assert!(last.ends_with(" %), as many failures.") && last.contains(" GiB·h less surplus ("), "{text}");
    let text = super::text(&both[..1], None);
    assert!(!text.contains("against preset"), "{text}");
}

#[test]
fn pod_surplus_counts_requests_and_losses_at_limits() {
    let needs: Vec<u64> = (0..200_u64).map(|n| GIB + (n * 7919 % 3) * GIB).collect();
    let tape = builds(&needs, 16 * GIB);
    let [request, limit, pod] = [PolicyKind::Plimsoll, PolicyKind::PlimsollLimit, PolicyKind::PlimsollPod]
        .map(|kind| cost(&tape, kind, FailureTarget::AsItIs).all_builds);
    assert!(request.failures > limit.failures, "{request:?} {limit:?}");
    assert_eq!(pod.failures, limit.failures);
    assert!(pod.surplus_gib_hours < limit.surplus_gib_hours, "{pod:?} {limit:?}");
    assert!(pod.surplus_gib_hours >= 0.0, "{pod:?} {limit:?}");
}

/// Needs of 1 GiB, one in twenty of 4 GiB, and what a person asked for who knew each of them.
fn asked_well(over: u64) -> ReplayTape {
    let mut text = "package,wall_ms,peak_bytes,requested_bytes\n".to_owned();
    for n in 0..300_u64 {
        let need = if n * 7919 % 401 < 20 { 4 * GIB } else { GIB };
        writeln!(text, "zlib,{HOUR},{need},{}", need + need * over / 100).unwrap();
    }
    tape(&text)
}

fn gain(tape: &ReplayTape, rate: f64) -> (Option<GainThreshold>, String) {
    let both = [PolicyKind::Plimsoll, PolicyKind::Preset]
        .map(|kind| (kind, cost(tape, kind, FailureTarget::Match(rate))));
    let gain = gain_threshold(tape, &both, &Settings::default(), 0.0, |_| {});
    (gain, text(&both, gain))
}

#[test]
fn a_replay_names_the_failure_rate_that_saves() {
    // people ask for twice the need: less than the 4 GiB without failures, more than 1 GiB with a few
    let tape = asked_well(100);
    let (found, sentence) = gain(&tape, 0.001);
    let from = found.unwrap().gains_from.unwrap();
    assert!(sentence.contains("It has less from ") && sentence.contains("(--match-failures "), "{sentence}");
    // at that rate it is so, and nothing is said
    let (there, quiet) = gain(&tape, from);
    assert!(there.is_none() && !quiet.contains("more surplus"), "{from}: {quiet}");
}

#[test]
fn a_replay_reports_when_no_failure_rate_saves() {
    // each build asks for exactly what it needs
    let (found, sentence) = gain(&asked_well(0), 0.01);
    assert_eq!(found.unwrap().gains_from, None);
    assert!(
        sentence.contains("at any other failure rate: what the builds ask for fits their needs"),
        "{sentence}"
    );
}

#[test]
fn a_given_preset_fills_missing_requests() {
    let mut tape = tape(
        "package,wall_ms,peak_bytes,requested_bytes\na,3600000,1073741824,4294967296\na,3600000,1073741824,\n",
    );
    tape.fill_presets(plimsoll_core::domain::Bytes(2 * GIB));
    let waste = cost(&tape, PolicyKind::Preset, FailureTarget::AsItIs).all_builds.surplus_gib_hours;
    assert!((waste - (3.0 + 1.0)).abs() < 1e-9, "{waste}");
}

#[test]
fn limits_hold_as_often_as_expected() {
    // builds of 40 packages with a spread of their own each, at ceilings that make limits hold for 50 to 99 % of them
    let mut state = 7_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
    };
    let mut text = "package,wall_ms,peak_bytes\n".to_owned();
    for _ in 0..100 {
        for package in 1..=40_u32 {
            // the sum of twelve uniform numbers is nearly normal
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let peak = 2e9 * f64::from(package) * ((0.05 + 0.01 * f64::from(package)) * normal).exp2();
            writeln!(text, "p{package},{HOUR},{peak:.0}").unwrap();
        }
    }
    let tape = tape(&text);
    let mut reliability = Vec::new();
    for failure_ceiling in [0.01, 0.1, 0.3, 0.5] {
        let settings = Settings { failure_ceiling, failure_price: Some(1e-3), ..Settings::default() };
        let goal = TuneGoal { target: FailureTarget::AsItIs, warmup: 0.0 };
        let tally = run(&tape, PolicyKind::Plimsoll, &settings, goal, |_| {}).unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&json(&tape, &[(PolicyKind::Plimsoll, tally)], None, false)).unwrap();
        reliability.extend(value["policies"][0]["reliability"].as_array().unwrap().clone());
    }
    let bins: Vec<[f64; 3]> = reliability
        .iter()
        .map(|bin| ["predictions", "expected", "observed"].map(|name| bin[name].as_f64().unwrap()))
        .filter(|[predictions, ..]| *predictions >= 200.0)
        .collect();
    assert!(bins.iter().any(|[_, expected, _]| *expected < 0.8), "{bins:?}");
    assert!(bins.iter().any(|[_, expected, _]| *expected > 0.95), "{bins:?}");
    for [_, expected, observed] in &bins {
        assert!((expected - observed).abs() < 0.06, "{bins:?}");
    }
}
