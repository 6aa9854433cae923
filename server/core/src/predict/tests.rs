//! The promises of a prediction, on small and on arbitrary histories.

mod cold;
mod current;
mod decrease;
mod drift;
mod first;
mod held_back;
mod incomplete;
mod lowering;
mod odd;
mod parts;
mod presets;
mod rescue;
mod times;
mod trust;

use plimsoll_proto::reasons::SizeBound;
use proptest::prelude::*;

use super::*;
use crate::domain::{
    Cores, CpuMicros, Millis, Outcome, Quantity, Rung, Summary, test_history as history, test_summary,
};

const MIB: u64 = Bytes::MIB.0;

fn key(package: &str, version: &str) -> Key {
    test_summary("k", package, version, 0).key
}

/// A finished attempt at `jobs` build jobs (0: not known).
fn built(id: usize, version: &str, need_mib: u64, jobs: u32) -> Summary {
    let mut summary = test_summary(&id.to_string(), "zlib", version, need_mib);
    summary.key.hints.build_jobs = (jobs > 0).then_some(jobs);
    summary
}

/// An attempt that memory stopped at `need_mib`.
fn stopped(id: usize, version: &str, need_mib: u64) -> Summary {
    Summary { outcome: Outcome::Failed, censored: true, ..built(id, version, need_mib, 0) }
}

fn ask(history: &History, key: &Key) -> Prediction {
    predict(history, key, &Settings::default())
}

#[test]
fn a_basis_marks_evidence_from_one_rung_only() {
    let of = |known: &History, asked: &Key| {
        let basis = ask(known, asked).memory_request.basis;
        (basis.rung, basis.attempts, basis.all_of_rung)
    };
    let alike = history((0..4).map(|n| built(n, "1", 300, 2)));
    assert_eq!(of(&alike, &key("zlib", "1")), (Rung::Exact, 4, true));
    assert_eq!(of(&alike, &key("zlib", "2")), (Rung::NoVersion, 4, true));
    let mixed = history((0..5).map(|n| built(n, if n == 0 { "2" } else { "1" }, 300, 2)));
    assert_eq!(of(&mixed, &key("zlib", "1")), (Rung::Exact, 5, false));
    assert_eq!(of(&alike, &key("unknown", "1")), (Rung::Default, 0, false));
    let package = history((0..5).map(|n| {
        let mut summary = built(n, "1", 300, 2);
        (summary.key.compiler, summary.key.variants) = (format!("c{n}"), format!("+v{n}"));
        summary
    }));
    assert_eq!(of(&package, &key("zlib", "1")), (Rung::Package, 5, true));
    // one of the key itself, which memory stopped, is among those of its package
    let inside = history((0..9).map(|n| {
        if n == 0 {
            return stopped(n, "1", 300);
        }
        let mut summary = built(n, "1", 300, 2);
        (summary.key.compiler, summary.key.variants) = (format!("c{n}"), format!("+v{n}"));
        summary
    }));
    let (rung, attempts, all_of_rung) = of(&inside, &key("zlib", "1"));
    assert_eq!((rung, all_of_rung), (Rung::Package, true), "of {attempts} attempts");
}

#[test]
fn an_unknown_key_gets_the_default() {
    let prediction = ask(&history([]), &key("zlib", "1"));
    let values = [
        &prediction.memory_request,
        &prediction.memory_limit,
        &prediction.cpu_request,
        &prediction.cpu_limit,
    ];
    assert_eq!(values.map(|q| q.value), [2048 * MIB, 4096 * MIB, 1000, 2000]);
    assert_eq!([&prediction.wall_p50, &prediction.wall_p95].map(|q| q.value), [600_000, 3_600_000]);
    assert_eq!((prediction.build_jobs.value, prediction.attempts), (2, 0));
    assert!(prediction.confidence < 1e-9);
    assert_eq!(
        (prediction.memory_limit.basis.rung, &prediction.memory_limit.basis.bound),
        (Rung::Default, &SizeBound::Default)
    );
    assert_eq!(prediction.reason, "nothing is known about zlib@1 yet, so this is the configured default");
}

#[test]
fn a_repeated_key_gets_slightly_above_its_need() {
    let needs = [281, 290, 288, 300, 285, 292, 287, 291];
    let history = history((0..8).map(|n| built(n, "1.3", needs[n], 2)));
    let prediction = ask(&history, &key("zlib", "1.3"));
    let (request, limit) = (prediction.memory_request.value / MIB, prediction.memory_limit.value / MIB);
    assert!((300..400).contains(&request), "{request} MiB requested");
    assert!((364..560).contains(&limit), "limit of {limit} MiB");
    assert_eq!((prediction.memory_request.basis.rung, prediction.attempts), (Rung::Exact, 8));
    assert!(prediction.confidence > 0.5, "{}", prediction.confidence);
    let reason = &prediction.reason;
    let start = "8 attempts of this key needed 281 MiB to 300 MiB (median 290 MiB) at -j2; memory limit: covers 99 % of similar builds, with 93 MiB more than the request, 64 MiB of it for file pages";
    assert!(reason.starts_with(start), "{reason}");
    assert!((1900..2200).contains(&prediction.cpu_request.value), "{:?}", prediction.cpu_request);
    assert!((3800..4300).contains(&prediction.cpu_limit.value), "{:?}", prediction.cpu_limit);
    assert!((59_000..66_000).contains(&prediction.wall_p50.value), "{:?}", prediction.wall_p50);
}

#[test]
fn a_new_version_starts_near_the_old_one() {
    let zlib = (0..10).map(|n| built(n, "1.2", 300, 2));
    let giants = (10..60).map(|n| test_summary(&n.to_string(), "llvm", "1", 20_000));
    let prediction = ask(&history(giants.chain(zlib)), &key("zlib", "1.3"));
    assert_eq!(prediction.memory_limit.basis.rung, Rung::NoVersion);
    assert!(prediction.memory_limit.value < 1200 * MIB, "{}", prediction.reason);
}

#[test]
fn unreported_build_jobs_are_omitted_from_the_reason() {
    let history = history((0..8).map(|n| built(n, "1.3", 280, 0)));
    let reason = ask(&history, &key("zlib", "1.3")).reason;
    assert!(!reason.contains("at -j"), "{reason}");
}

#[test]
fn job_independent_needs_are_not_adjusted() {
    let history = history((0..8).map(|n| built(n, "1", 300, if n == 0 { 4 } else { 2 })));
    let reason =
        ask(&history, &Key { hints: Hints { build_jobs: Some(2), ..Hints::default() }, ..key("zlib", "1") })
            .reason;
    assert!(reason.contains("needed 300 MiB at -j2 (7 of them ran at -j2); "), "{reason}");
}

#[test]
fn more_build_jobs_than_seen_need_more_memory() {
    let seen = [(1, 323), (2, 603), (1, 320), (2, 600)];
    // often enough that the default limit is left behind
    let seen = seen.iter().cycle().take(16).enumerate();
    let history = history(seen.map(|(n, (jobs, need))| built(n, "1", *need, *jobs)));
    let at = |jobs| {
        let mut key = key("zlib", "1");
        key.hints.build_jobs = Some(jobs);
        ask(&history, &key)
    };
    let limits = [1, 2, 4].map(|jobs| at(jobs).memory_limit.value / MIB);
    assert!(limits[0] < limits[1] && limits[1] < limits[2], "{limits:?}");
    assert!((1180..2400).contains(&limits[2]), "four jobs need about 1160 MiB: {limits:?}");
    for (jobs, words) in
        [(2, "adjusted to -j2 (8 of them ran at -j2; each"), (4, "adjusted to -j4 (none ran at -j4; each")]
    {
        assert!(at(jobs).reason.contains(words), "{}", at(jobs).reason);
    }
    assert_eq!((at(4).build_jobs.value, at(4).build_jobs.basis.bound), (4, SizeBound::AskedFor));
}

#[test]
fn wall_time_is_scaled_to_requested_build_jobs() {
    // a minute, and ten that the jobs share
    let at = |n: usize, jobs: u32| Summary {
        wall: Millis(60_000 + 600_000 / u64::from(jobs)),
        ..built(n, "1", 300, jobs)
    };
    let history = history((0..16).map(|n| at(n, if n % 2 == 0 { 2 } else { 4 })));
    for (jobs, wall_ms) in [(1, 660_000), (2, 360_000), (4, 210_000), (8, 135_000)] {
        let mut key = key("zlib", "1");
        key.hints.build_jobs = Some(jobs);
        let half = ask(&history, &key).wall_p50.value;
        assert!(half.abs_diff(wall_ms) <= wall_ms / 100, "-j{jobs} takes {wall_ms} ms, not {half}");
    }
}

/// An hour of one package, `large` GiB every `every`th time and else 2.
fn two_modes(every: usize, large: u64) -> History {
    history((0..60).map(|n| {
        let need = if n % every == every - 1 { large << 10 } else { 2 << 10 };
        Summary { wall: Millis(3_600_000), ..built(n, "1", need, 2) }
    }))
}

#[test]
fn bimodal_requests_cover_the_cheaper_choice() {
    let free = Settings { failure_price: Some(0.0), ..Settings::default() };
    let request = |history: &History| predict(history, &key("zlib", "1"), &free).memory_request.value / MIB;
    let rare = request(&two_modes(20, 20));
    assert!((2048..3000).contains(&rare), "one in twenty is tried again: {rare}");
    let near = request(&two_modes(2, 3));
    assert!((3072..4096).contains(&near), "half of them would be lost for a third of the size: {near}");
}

#[test]
fn a_failure_above_one_mode_covers_the_other() {
    let history = two_modes(20, 20);
    let next = predict_above(&history, &key("zlib", "1"), &Settings::default(), Bytes(6 << 30));
    assert!((20 << 10..26 << 10).contains(&(next.0 / MIB)), "{next}");
    let cap = Settings { memory_cap: Some(Bytes(8 << 30)), ..Settings::default() };
    assert_eq!(predict_above(&history, &key("zlib", "1"), &cap, Bytes(6 << 30)), Bytes(8 << 30));
    let unknown = predict_above(&history, &key("zlib", "1"), &Settings::default(), Bytes(900 << 30));
    assert!(unknown >= Bytes(1100 << 30), "a real step above all that is known: {unknown}");
}

#[test]
fn input_dependent_needs_are_sized_for_the_input() {
    let fed = |n: u64, input: u64| {
        let mut summary = built(usize::try_from(n).unwrap(), "1", input >> 20, 2);
        summary.key.hints.input_bytes = Some(input);
        summary
    };
    let history = history((0..40).map(|n| fed(n, (200 + n * 20) << 20)));
    let request = |input: u64| {
        let mut key = key("zlib", "1");
        key.hints.input_bytes = Some(input << 20);
        ask(&history, &key).memory_request.value / MIB
    };
    // the last one lies beyond all that was seen
    let requests = [300, 600, 900, 1500].map(request);
    for (request, need) in requests.into_iter().zip([300, 600, 900, 1500]) {
        assert!((need..need * 13 / 10).contains(&request), "{requests:?}");
    }
}

#[test]
fn a_preset_limit_holds_until_enough_is_known() {
    let preset = Bytes(16 << 30);
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    let limit = |count| {
        let history = history((0..count).map(|n| built(n, "1", 300, 2)));
        predict(&history, &key("zlib", "1"), &settings).memory_limit
    };
    assert!(limit(3).value >= preset.0, "{:?}", limit(3));
    assert_eq!((limit(40).value, limit(40).basis.bound), (preset.0, SizeBound::Preset));
    assert!(limit(200).value < 1 << 30, "{:?}", limit(200));
}

#[test]
fn a_request_keeps_a_preset_that_always_sufficed() {
    let preset = Bytes(8 << 30);
    let settings =
        Settings { memory_request: preset, memory_limit: preset, preset: true, ..Settings::default() };
    let request = |known| predict(&history([known]), &key("zlib", "1"), &settings).memory_request;
    let within = request(built(1, "1", 8100, 2));
    assert_eq!((within.value, within.basis.bound), (preset.0, SizeBound::Preset));
    for above in [built(1, "1", 9000, 2), stopped(1, "1", 8 << 10)] {
        assert!(request(above).value > preset.0);
    }
}

#[test]
fn cap_and_floor_apply_and_are_named() {
    let history = history([built(1, "1", 9000, 0), built(2, "1", 9000, 0)]);
    let cap =
        Settings { memory_cap: Some(Bytes(1000 * MIB)), cpu_cap: Some(Cores(1.0)), ..Settings::default() };
    let prediction = predict(&history, &key("zlib", "1"), &cap);
    assert_eq!((prediction.memory_request.value, prediction.memory_limit.value), (1000 * MIB, 1000 * MIB));
    assert_eq!(
        (prediction.memory_limit.basis.bound.to_string().as_str(), prediction.cpu_limit.value),
        ("cap of 1000 MiB", 1000)
    );
    let expected = "memory limit: cut to the cap of 1000 MiB, so it may not be enough";
    assert!(
        prediction.reason.ends_with(expected),
        "no build fits, so no share is named: {}",
        prediction.reason
    );
    let floor = Settings { memory_floor: Bytes(50 << 30), ..Settings::default() };
    let prediction = predict(&history, &key("zlib", "1"), &floor);
    assert_eq!(prediction.memory_request.basis.bound.to_string(), "floor of 50.00 GiB");
}

#[test]
fn millisecond_commands_do_not_get_many_cores() {
    let echo = |n| {
        let (wall, cpu) = (Millis(3), CpuMicros(5_700));
        Summary { wall, cpu, cpu_peak: Cores(0.0), ..built(n, "1", 2, 0) }
    };
    let cpu = |count| {
        let prediction = predict(&history((0..count).map(echo)), &key("zlib", "1"), &Settings::default());
        [prediction.cpu_request.value, prediction.cpu_limit.value]
    };
    let [request, limit] = cpu(1);
    assert!(request == 100 && limit < 2100, "the floor, and about the default: {request}, {limit}");
    assert_eq!(cpu(40)[0], 100, "the floor");
}

#[test]
fn a_dearer_failure_never_makes_the_request_smaller() {
    let needs = [300, 310, 290, 2000, 305, 295, 320, 300, 310, 290];
    let history = history((0..10).map(|n| built(n, "1", needs[n], 2)));
    let request = |price| {
        let settings = Settings { failure_price: Some(price), ..Settings::default() };
        predict(&history, &key("zlib", "1"), &settings).memory_request.value / MIB
    };
    let requests = [0.0, 0.001, 0.01, 0.1, 1.0, 10.0].map(request);
    assert!(requests.is_sorted(), "{requests:?}");
    assert!(requests[0] < requests[5], "{requests:?}");
}

#[test]
fn explain_lists_the_attempts_behind_the_same_prediction() {
    let all = (0..400).map(|n| built(n, if n % 2 == 0 { "1" } else { "2" }, 100 + n as u64, 2));
    let history = history(all);
    let (prediction, used) = explain(&history, &key("zlib", "1"), &Settings::default());
    assert_eq!(prediction, ask(&history, &key("zlib", "1")));
    assert!(used.len() <= 200 && used.is_sorted_by(|a, b| a.weight >= b.weight));
    assert_eq!((used[0].attempt.as_str(), used[0].rung), ("398", Rung::Exact));
    assert!(used.iter().map(|used| used.weight).sum::<f64>() <= 1.0 + 1e-9);
}

/// `(version, need in MiB, jobs, stopped by memory)`.
fn attempts() -> impl Strategy<Value = Vec<(u8, u64, u32, bool)>> {
    prop::collection::vec((0..3_u8, 1..20_000_u64, 0..5_u32, prop::bool::weighted(0.2)), 0..40)
}

fn learnt(attempts: &[(u8, u64, u32, bool)]) -> Vec<Summary> {
    let all = attempts.iter().enumerate();
    all.map(|(n, (version, need, jobs, censored))| {
        let summary = built(n, &version.to_string(), *need, *jobs);
        let outcome = if *censored { Outcome::Failed } else { Outcome::Succeeded };
        Summary { censored: *censored, outcome, ..summary }
    })
    .collect()
}

#[test]
fn two_attempts_are_hardly_less_sure_than_one() {
    for second in [50, 70, 100, 130, 200] {
        let one = ask(&history([built(1, "1", 100, 0)]), &key("zlib", "1")).confidence;
        let two =
            ask(&history([built(1, "1", 100, 0), built(2, "1", second, 0)]), &key("zlib", "1")).confidence;
        assert!(two >= one - 0.01, "{second} MiB: {two} after {one}");
    }
    let many = ask(&history((0..20).map(|id| built(id, "1", 100, 0))), &key("zlib", "1")).confidence;
    assert!(many > 0.9, "{many}");
}

proptest! {
    #[test]
    fn sizes_are_in_order_and_never_nothing(attempts in attempts(), jobs in 0..9_u32, price in 0.0..1e6_f64) {
        let mut key = key("zlib", "1");
        key.hints.build_jobs = (jobs > 0).then_some(jobs);
        let settings = Settings { failure_price: Some(price), ..Settings::default() };
        let p = predict(&history(learnt(&attempts)), &key, &settings);
        let all: [&Quantity; 7] = [&p.memory_request, &p.memory_limit, &p.cpu_request, &p.cpu_limit, &p.build_jobs, &p.wall_p50, &p.wall_p95];
        for quantity in all {
            prop_assert!(quantity.value > 0 && quantity.value < 1 << 50, "{quantity:?}");
            prop_assert!((0.0..=1.0 + 1e-9).contains(&quantity.basis.quantile) && quantity.basis.margin >= 1.0);
        }
        prop_assert!(p.memory_request.value <= p.memory_limit.value);
        prop_assert!(p.cpu_request.value <= p.cpu_limit.value && p.wall_p50.value <= p.wall_p95.value);
        prop_assert!((0.0..=1.0).contains(&p.confidence));
    }

    #[test]
    fn one_more_kill_never_lowers_the_limit(attempts in attempts(), size in 1..30_000_u64) {
        let mut summaries = learnt(&attempts);
        let before = ask(&history(summaries.clone()), &key("zlib", "1")).memory_limit;
        // a default, and what other packages need, give way to the first kill
        let is_own = before.basis.rung >= Rung::Package;
        let before = if is_own { before.value } else { 0 };
        summaries.push(stopped(1000, "1", size));
        let after = ask(&history(summaries), &key("zlib", "1")).memory_limit.value;
        prop_assert!(after >= before, "{} MiB to {} MiB", before / MIB, after / MIB);
        prop_assert!(after > size * MIB, "{} MiB after {size} MiB did not fit", after / MIB);
    }

    #[test]
    fn equal_attempts_count_the_same_in_any_order(need in 1..9000_u64, ids in Just((0..12).collect::<Vec<usize>>()).prop_shuffle()) {
        let of = |ids: &[usize]| ask(&history(ids.iter().map(|id| built(*id, "1", need, 2))), &key("zlib", "1"));
        let mut ordered = ids.clone();
        ordered.sort_unstable();
        prop_assert_eq!(of(&ids), of(&ordered));
    }

    #[test]
    fn absurd_attempts_and_settings_do_not_break_it(need in any::<u64>(), wall in any::<u64>(), cpu in any::<u64>(), price in any::<f64>(), ceiling in any::<f64>(), jobs in any::<u32>()) {
        let mut summary = built(1, "1", 1, jobs);
        (summary.need_peak, summary.wall, summary.cpu, summary.cpu_peak) = (Bytes(need), Millis(wall), CpuMicros(cpu), Cores(price));
        let settings = Settings { failure_price: Some(price), failure_ceiling: ceiling, ..Settings::default() };
        let mut key = key("zlib", "1");
        key.hints.build_jobs = Some(jobs.wrapping_add(7));
        let p = predict(&history([summary, built(2, "1", 100, 3)]), &key, &settings);
        prop_assert!(p.memory_request.value > 0 && p.memory_request.value <= p.memory_limit.value);
        prop_assert!(p.confidence.is_finite());
    }
}
