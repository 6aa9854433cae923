//! Each size is set by what is known of it, not by what is known of another.

use std::sync::Arc;

use plimsoll_base::quantity;
use plimsoll_core::domain::{Outcome, Resources, Summary, test_summary};
use plimsoll_proto::{reasons::SizeBound, v1::TakenBackLowering};

use super::*;

/// A job of llvm that asks for twelve cores, of which only the memory is known.
fn llvm() -> (Value, Prediction) {
    let mut value = pod();
    value["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "12", "memory": "16Gi" }, "limits": { "memory": "64Gi" } });
    let mut prediction = sizes((9216, 12288), (1003, 2000), 0.97);
    for quantity in [&mut prediction.cpu_request, &mut prediction.cpu_limit, &mut prediction.wall_p95] {
        quantity.basis.rung = Rung::Default;
    }
    (value, prediction)
}

#[test]
fn unknown_cpu_stays_when_memory_is_set() {
    let (value, prediction) = llvm();
    for (from, confidence) in [
        (SizeSource::ByHistory, 0.3),
        (SizeSource::ByVerdict { cause: Cause::Oom, had_unknown: true }, 0.3),
        (SizeSource::ByHistory, 0.0),
        (SizeSource::ByVerdict { cause: Cause::Oom, had_unknown: true }, 0.0),
    ] {
        let settings = Settings { confidence, max_time: Some(2.0), ..on() };
        let (after, plan) = planned(&value, &settings, (&prediction, from), |_needs| None);
        let expected =
            json!({ "requests": { "cpu": "12", "memory": "9216Mi" }, "limits": { "memory": "12288Mi" } });
        assert_eq!(resources(&after), &expected, "{from:?} from {confidence}");
        let why = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
        assert!(why.ends_with("; too little is known to set cpu_request, cpu_limit"), "{why}");
        // a queue would end the build after twice the default
        assert!(after["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"].is_null());
        assert!(plan.sized && plan.skip_reason.is_none());
    }
}

#[test]
fn cpu_is_set_only_above_its_confidence_threshold() {
    let (value, mut prediction) = llvm();
    for (sure, expected) in [(0.4, json!("12")), (0.95, json!("1003m"))] {
        prediction.cpu_request.basis.rung = Rung::NoVersion;
        prediction.cpu_request.basis.confidence = Some(sure);
        let (after, _) = patched(&value, &prediction, &on());
        assert_eq!(resources(&after)["requests"]["cpu"], expected, "{sure}");
        assert!(resources(&after)["limits"]["cpu"].is_null());
    }
}

#[test]
fn unknown_memory_stays_when_cpu_is_set() {
    let (value, mut prediction) = llvm();
    for quantity in [&mut prediction.memory_request, &mut prediction.memory_limit] {
        quantity.basis.rung = Rung::Default;
    }
    prediction.cpu_request.basis.rung = Rung::Exact;
    let (after, plan) = patched(&value, &prediction, &on());
    assert_eq!(resources(&after)["requests"], json!({ "cpu": "1003m", "memory": "16Gi" }));
    assert!(plan.sized);
}

#[test]
fn unknown_pods_still_follow_their_annotations() {
    let (mut value, mut prediction) = llvm();
    for quantity in all_of(&mut prediction) {
        quantity.basis.rung = Rung::Default;
    }
    let (_, plan) = patched(&value, &prediction, &on());
    assert!(plan.patch.is_none() && plan.skip_reason == Some(SkipReason::Unsure));
    value["metadata"]["annotations"]["plimsoll/memory-limit"] = json!("32Gi");
    let (after, plan) = patched(&value, &prediction, &on());
    assert_eq!(resources(&after)["limits"]["memory"], "32768Mi");
    assert!(plan.sized);
}

#[test]
fn fitting_pods_are_skipped_as_fits_not_unsure() {
    let mut value = pod();
    value["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1500m", "memory": "2048Mi" }, "limits": { "cpu": "3000m", "memory": "4096Mi" } });
    let (_, plan) = patched(&value, &sizes((2048, 4096), (1500, 3000), 0.9), &on());
    assert!(plan.patch.is_none() && plan.skip_reason == Some(SkipReason::Fits));
    assert!(!SkipReason::Fits.is_unsized());
    assert!(SkipReason::Unsure.is_unsized());
    assert!(SkipReason::PodSizes.is_unsized());
    let words: std::collections::HashSet<_> = SkipReason::ALL.map(SkipReason::as_str).into();
    assert_eq!(words.len(), SkipReason::ALL.len());
}

#[test]
fn other_packages_lower_the_request_of_an_unknown_one() {
    let of_fleet = |packages: usize| {
        let built = |n: usize| Summary {
            resources: Resources { memory_request: Some(Bytes(8 << 30)), ..Resources::default() },
            ..test_summary(&n.to_string(), &format!("p{n}"), "1", 1024)
        };
        let mut history = History::new(100);
        (0..packages).map(built).for_each(|summary| history.learn(Arc::new(summary)));
        let preset = [16 << 30, 64 << 30].map(Bytes);
        let settings = predict::Settings {
            memory_request: preset[0],
            memory_limit: preset[1],
            preset: true,
            ..predict::Settings::default()
        };
        predict::predict(&history, &test_summary("q", "llvm", "1", 1).key, &settings)
    };
    let (value, _) = llvm();
    let (after, plan) = patched(&value, &of_fleet(40), &on());
    let request = quantity::bytes(resources(&after)["requests"]["memory"].as_str().unwrap()).unwrap();
    assert!((2 << 30..8 << 30).contains(&request), "{request}");
    assert_eq!(resources(&after)["limits"]["memory"], "64Gi", "no build is killed by it");
    assert!(plan.sized);
    let why = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
    assert!(why.contains("by what other packages used of theirs, 12 % at most"), "{why}");
    let (_, plan) = patched(&value, &of_fleet(5), &on());
    assert!(plan.patch.is_none() && plan.skip_reason == Some(SkipReason::Unsure));
}

/// What is predicted for a package that memory stopped ten times at a size of so many MiB, beside builds of other packages.
fn after_kills(limit_mib: u64, others: usize, settings: &predict::Settings) -> Prediction {
    let mut history = History::new(100);
    for n in 0..others {
        history.learn(Arc::new(test_summary(&format!("o{n}"), &format!("other-{n}"), "1", 300)));
    }
    for n in 0..10 {
        let killed = test_summary(&format!("k{n}"), "zlib", "1", limit_mib);
        history.learn(Arc::new(Summary { outcome: Outcome::Failed, censored: true, ..killed }));
    }
    predict::predict(&history, &test_summary("q", "zlib", "1", 1).key, settings)
}

#[test]
fn memory_that_always_got_killed_is_not_repeated() {
    let usual = predict::Settings::default();
    let with = |memory: &str| {
        let mut value = pod();
        value["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "2", "memory": memory }, "limits": { "memory": memory } });
        value
    };
    let sizes = |own: &str, prediction: &Prediction, settings: &Settings| {
        let (after, plan) = patched(&with(own), prediction, settings);
        let memory = |kind: &str| resources(&after)[kind]["memory"].as_str().unwrap().to_owned();
        assert_eq!(resources(&after)["requests"]["cpu"], "2");
        ((memory("requests"), memory("limits")), after, plan)
    };
    let both = |request: &str, limit: &str| (request.to_owned(), limit.to_owned());
    let known = after_kills(2048, 0, &usual);
    assert_eq!(known.confidence.to_bits(), 0, "a failure makes nothing surer");
    let (got, after, plan) = sizes("2Gi", &known, &on());
    assert_eq!(got, both("3072Mi", "3072Mi"), "the size that the verdict names");
    assert!(plan.sized);
    let why = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
    let begin_or_end = "; its own memory was not above 2.00 GiB, where memory stopped builds of this package; too little is known to set cpu_request, cpu_limit";
    assert!(why.ends_with(begin_or_end), "{why}");
    // what is above the kills may be enough, and nothing better is known
    assert_eq!(sizes("2200Mi", &known, &on()).0, both("2200Mi", "2200Mi"));
    let sized = sizes("100Mi", &after_kills(100, 0, &usual), &on()).0;
    assert_eq!(sized, both("200Mi", "200Mi"), "and not the default");
    // whatever other packages need
    assert_eq!(sizes("2Gi", &after_kills(2048, 40, &usual), &on()).0, both("3072Mi", "3072Mi"));
    // what no pod may have is not given, and what a cap cut is not raised
    let small = Settings { max_memory: Some(Bytes(5 << 29)), ..on() };
    assert_eq!(sizes("2Gi", &known, &small).0, both("2560Mi", "2560Mi"));
    let none = Settings { max_memory: Some(Bytes(1 << 30)), ..on() };
    assert_eq!(sizes("2Gi", &known, &none).0, both("2Gi", "2Gi"));
    let capped = predict::Settings { memory_cap: Some(Bytes(5 << 29)), ..usual };
    assert_eq!(sizes("2Gi", &after_kills(2048, 0, &capped), &on()).0, both("2560Mi", "2560Mi"));
}

#[test]
fn a_lowering_taken_back_raises_unsure_pods() {
    let taken_back = Some(TakenBackLowering::default());
    let guessed = Prediction { taken_back, ..sizes((6144, 6144), (1500, 3000), 0.05) };
    let mut held = guessed.clone();
    for size in [&mut held.memory_request, &mut held.memory_limit] {
        size.basis.bound = SizeBound::TakenBack("6 GiB".to_owned());
    }
    let memory = |own: &str, prediction: &Prediction| {
        let mut value = pod();
        value["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "memory": own }, "limits": { "memory": own } });
        let (after, _) = patched(&value, prediction, &on());
        ["requests", "limits"].map(|kind| resources(&after)[kind]["memory"].as_str().unwrap().to_owned())
    };
    assert_eq!(memory("3Gi", &held), ["6144Mi", "6144Mi"]);
    assert_eq!(memory("8Gi", &held), ["8Gi", "8Gi"], "more than before the lowering");
    assert_eq!(memory("3Gi", &guessed), ["3Gi", "3Gi"], "an unsure size above it is not applied");
    assert_eq!(memory("3Gi", &Prediction { taken_back: None, ..held }), ["3Gi", "3Gi"]);
}
