//! A preset of an unknown package: other packages show how much of it is needed, and nothing else lowers it.

use proptest::prelude::*;

use super::super::*;
use crate::domain::{
    Millis, OpeningRecord, Outcome, PredictionSnapshot, Resources, Summary, test_history as history,
    test_summary,
};

const MIB: u64 = Bytes::MIB.0;

/// An attempt of its own package with this preset, in MiB.
fn built(id: usize, preset_mib: u64, need_mib: u64) -> Summary {
    let resources = Resources { memory_request: Some(Bytes(preset_mib * MIB)), ..Resources::default() };
    Summary { resources, ..test_summary(&id.to_string(), &format!("p{id}"), "1", need_mib) }
}

/// Packages that need a fifth of presets that differ, but for one that needs a quarter.
fn fleet(packages: usize) -> impl Iterator<Item = Summary> {
    (0..packages).map(|id| built(id, 1000 << (id % 5), if id == 3 { 2000 } else { 200 << (id % 5) }))
}

fn ask(all: impl IntoIterator<Item = Summary>, preset: Bytes) -> Prediction {
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    predict(&history(all), &test_summary("q", "new", "1", 1).key, &settings)
}

/// The request in MiB for a preset of 10,000 MiB.
fn request(all: impl IntoIterator<Item = Summary>) -> u64 {
    ask(all, Bytes(10_000 * MIB)).memory_request.value / MIB
}

#[test]
fn a_preset_is_lowered_by_what_packages_used() {
    let prediction = ask(fleet(30), Bytes(10_000 * MIB));
    let [lowered, limit] =
        [&prediction.memory_request, &prediction.memory_limit].map(|size| size.value / MIB);
    assert!((2500..3500).contains(&lowered) && limit == 10_000, "{lowered} {limit}");
    let expected = "nothing is known about new@1 yet, so this is the configured default; its request is chosen by what other packages used of theirs, 25 % at most";
    assert_eq!(prediction.reason, expected);
    assert!(request(fleet(12)) > lowered, "fewer packages show less");
    assert_eq!([request(fleet(9)), request(fleet(2)), request([])], [10_000; 3], "too few packages");
    let alike = (0..40).map(|id| built(id, 4000, 4000));
    assert_eq!(request(alike), 10_000, "presets that are needed whole");
    let no_time = fleet(30).map(|summary| Summary { wall: Millis(0), ..summary });
    assert_eq!(request(no_time), lowered);
}

#[test]
fn one_attempt_counts_more_than_a_preset() {
    let preset = Bytes(64 << 30);
    let price = Some(1.0);
    let settings = Settings {
        memory_request: preset,
        memory_limit: preset,
        preset: true,
        failure_price: price,
        ..Settings::default()
    };
    let prediction = predict(&history([built(1, 64 << 10, 1000)]), &built(1, 0, 1).key, &settings);
    let [request, limit] =
        [&prediction.memory_request, &prediction.memory_limit].map(|size| size.value >> 20);
    assert!((1000..8000).contains(&request) && limit == 64 << 10, "{request} {limit}");
}

/// Request and limit of the first package with a preset of 10,000 MiB, in MiB.
fn priced(all: impl IntoIterator<Item = Summary>, failure_price: Option<f64>) -> [u64; 2] {
    let preset = Bytes(10_000 * MIB);
    let preset = Settings { memory_request: preset, memory_limit: preset, ..Settings::default() };
    let settings = Settings { preset: true, failure_price, ..preset };
    let sizes = predict(&history(all), &test_summary("q", "new", "1", 1).key, &settings);
    [sizes.memory_request, sizes.memory_limit].map(|size| size.value / MIB)
}

#[test]
fn the_price_of_a_failure_sizes_first_builds() {
    let request = |price| priced(fleet(30), price)[0];
    assert!(request(Some(1e-9)) < request(None) && request(None) < request(Some(100.0)));
    let too_small = || [built(50, 1000, 1100)];
    assert_eq!([priced(too_small(), None), priced([], Some(1e6))], [[10_000; 2]; 2]);
    let [low, limit] = priced(too_small(), Some(1e-9));
    assert!(low < 5000 && limit == 10_000, "{low} {limit}");
    let [high, limit] = priced(too_small(), Some(1e6));
    assert!(high > 10_000 && limit == high, "{high} {limit}");
}

#[test]
fn presets_that_were_too_small_bound_no_price() {
    let known = || [Summary { key: test_summary("q", "new", "1", 1).key, ..built(1, 10_000, 9000) }];
    let too_small = || known().into_iter().chain([built(50, 1000, 1100)]);
    assert_eq!(priced(known(), Some(1e6))[0], 10_000);
    assert!(priced(too_small(), None)[0] <= 10_000 && priced(too_small(), Some(1e6))[0] > 10_000);
    let opening = OpeningRecord { untrusted: true, ..OpeningRecord::default() };
    let forged = Summary { opening, ..built(50, 1000, 1100) };
    assert_eq!(priced(known().into_iter().chain([forged]), Some(1e6))[0], 10_000);
}

#[test]
fn a_package_that_needed_its_preset_keeps_others_up() {
    let all = |more: Summary| request(fleet(30).chain([more]));
    assert_eq!(all(built(30, 4000, 3990)), 10_000);
    let killed = Summary { outcome: Outcome::Failed, censored: true, ..built(30, 4000, 100) };
    assert_eq!(all(killed), 10_000);
}

#[test]
fn the_closest_enough_packages_decide() {
    let of_project = |project: &'static str, preset: u64| {
        (0..12).map(move |id| {
            let mut summary = built(id + 100 * project.len(), preset, 900);
            project.clone_into(&mut summary.key.project);
            summary
        })
    };
    let all = || of_project("wasteful", 9000).chain(of_project("exact", 1000));
    assert_eq!(request(all()), 10_000);
    let mut key = test_summary("q", "new", "1", 1).key;
    "wasteful".clone_into(&mut key.project);
    let preset = Bytes(10_000 * MIB);
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    assert!(predict(&history(all()), &key, &settings).memory_request.value < 2000 * MIB);
}

#[test]
fn only_trusted_attempts_with_presets_lower_one() {
    type Change = fn(Summary) -> Summary;
    let changes: [(&str, Change); 5] = [
        ("untrusted", |summary| {
            let opening = OpeningRecord { untrusted: true, ..OpeningRecord::default() };
            Summary { opening, ..summary }
        }),
        ("predicted", |summary| {
            let memory_request = summary.resources.memory_request.unwrap();
            let predicted = Some(PredictionSnapshot { memory_request, ..PredictionSnapshot::default() });
            Summary { opening: OpeningRecord { predicted, ..OpeningRecord::default() }, ..summary }
        }),
        ("a retry", |summary| Summary { number: 2, ..summary }),
        ("incomplete", |summary| Summary { source: crate::domain::MeasurementSource::Prometheus, ..summary }),
        ("no real size", |summary| {
            let resources = Resources { memory_request: Some(Bytes(u64::MAX)), ..Resources::default() };
            Summary { resources, ..summary }
        }),
    ];
    for (what, change) in changes {
        assert_eq!(request(fleet(9).chain(fleet(60).skip(9).map(change))), 10_000, "{what}");
    }
    let tiny = (0..50).map(|id| changes[0].1(built(id + 100, 4000, 1)));
    assert_eq!(request(fleet(30).chain(tiny)), request(fleet(30)), "untrusted ones change nothing");
}

#[test]
fn a_kill_brings_the_preset_back() {
    let key = test_summary("q", "new", "1", 1).key;
    let preset = Bytes(10_000 * MIB);
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    let above = predict_above(&history(fleet(30)), &key, &settings, Bytes(2700 * MIB));
    assert!(above >= Bytes(8000 * MIB), "{above}");
    let stopped = Summary { key, outcome: Outcome::Failed, censored: true, ..built(99, 2700, 2700) };
    assert!(request(fleet(30).chain([stopped])) >= 10_000);
}

proptest! {
    #[test]
    fn any_presets_give_a_size_up_to_the_preset(
        all in prop::collection::vec((0..40_usize, prop::option::of(0..u64::MAX), 1..u64::MAX, prop::bool::ANY, 0..u64::MAX), 0..60),
        preset in prop::sample::select(vec![0, 1, MIB, 1 << 34, 1 << 60, u64::MAX]),
        price in prop::option::of(0.0..1e5_f64),
    ) {
        let all = all.into_iter().enumerate().map(|(id, (package, memory_request, need, untrusted, wall))| Summary {
            resources: Resources { memory_request: memory_request.map(Bytes), ..Resources::default() },
            need_peak: Bytes(need),
            wall: Millis(wall >> 8),
            opening: OpeningRecord { untrusted, ..OpeningRecord::default() },
            ..test_summary(&id.to_string(), &format!("p{package}"), "1", 1)
        });
        let (preset, known) = (Bytes(preset), history(all));
        let settings = Settings { memory_request: preset, memory_limit: preset, preset: true, failure_price: price, ..Settings::default() };
        let size = |known: &History| predict(known, &test_summary("q", "new", "1", 1).key, &settings).memory_request.value;
        let most = if price.is_some() { u64::MAX } else { size(&History::new(1)) };
        prop_assert!((1..=most).contains(&size(&known)));
    }
}
