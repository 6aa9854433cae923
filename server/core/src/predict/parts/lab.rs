//! Surplus of requests for configurations that were never built before, with and without what parts add, on builds measured in the lab:
//! `cargo test -p plimsoll-core --lib predict::parts::lab -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::*;
use crate::{
    domain::{History, Summary, float, test_history, test_summary},
    predict::{
        Settings, curve, jobs, memory,
        plan::step_above,
        similar::{SimilarAttempts, TrustScope},
    },
};

const BUILDS: &str = include_str!("lab.csv");
/// The lab's builds need tens of MiB: as many GiB are far above every floor.
const SCALE: u64 = 64;

fn builds() -> Vec<Summary> {
    let summary = |(n, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').collect();
        let mut summary = test_summary(&n.to_string(), fields[0], fields[1], 0);
        summary.need_peak = Bytes(fields[6].parse::<u64>().unwrap() * SCALE);
        let key = &mut summary.key;
        [key.variants, key.compiler, key.compiler_version] = [2, 3, 4].map(|at| fields[at].to_owned());
        key.hints.build_jobs = fields[5].parse().ok();
        summary
    };
    BUILDS.lines().skip(1).enumerate().map(summary).collect()
}

/// A configuration with the history that has all others, and what its own attempts needed.
struct Case {
    history: History,
    key: Key,
    needs: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let builds = builds();
    let mut cases: Vec<Case> = Vec::new();
    for asked in &builds {
        if cases.iter().any(|case| case.key == asked.key) {
            continue;
        }
        let (own, others): (Vec<_>, Vec<_>) = builds.iter().partition(|build| build.key == asked.key);
        let history = test_history(others.into_iter().cloned());
        let needs = own.iter().map(|build| build.need_peak.as_f64()).collect();
        cases.push(Case { history, key: asked.key.clone(), needs });
    }
    cases
}

/// The request for a case, and what is held and not needed, as shares of the mean need; and the share of its builds that fail.
fn scored(case: &Case, price: f64, by_parts: bool) -> (f64, f64) {
    let settings = Settings::default();
    let mut similar = SimilarAttempts::gather(&case.history, &case.key, &settings, TrustScope::Trusted, &[]);
    let jobs = jobs::choose_jobs(&similar, &case.key, &settings).value;
    let lines = curve::lines(&similar);
    jobs::adjust_to_jobs(&mut similar, lines.memory, jobs);
    if by_parts {
        adjust_to_parts(&mut similar, &case.key);
    }
    let first = Bytes(memory::memory_sizes(&similar, &settings, price, false).request.value);
    let (mut surplus, mut failed) = (0.0, 0.0);
    for need in &case.needs {
        let mut size = first;
        failed += f64::from(u8::from(size.as_f64() < *need));
        while size.as_f64() < *need {
            surplus += size.as_f64();
            size = step_above(size);
        }
        surplus += size.as_f64() - need;
    }
    (surplus / case.needs.iter().sum::<f64>(), failed / float(case.needs.len()))
}

/// Surplus of each case at the lowest price at which at most `failing` of the builds fail.
fn at_failures(cases: &[Case], failing: f64, by_parts: bool) -> (Vec<f64>, f64) {
    let prices = (-16..40).map(|n| (f64::from(n) / 2.0).exp2());
    let all = prices.map(|price| {
        let (surplus, failed): (Vec<f64>, Vec<f64>) =
            cases.iter().map(|case| scored(case, price, by_parts)).unzip();
        let failed = failed.iter().sum::<f64>() / float(cases.len());
        (surplus, failed)
    });
    all.reduce(|best, other| if best.1 <= failing { best } else { other }).unwrap()
}

/// The middle 90 % of the ratio of two sums over paired cases that are drawn again (bootstrap, Efron 1979).
fn ratio_interval(pairs: &[(f64, f64)]) -> [f64; 2] {
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pairs[usize::try_from(state >> 33).unwrap() % pairs.len()]
    };
    let mut ratios: Vec<f64> = (0..2000)
        .map(|_| {
            let sums = pairs.iter().map(|_| draw()).fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
            sums.0 / sums.1
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    [ratios[100], ratios[1899]]
}

#[test]
#[ignore = "a measurement: prints figures, and takes some seconds"]
fn parts_save_memory_for_new_configurations() {
    let cases = cases();
    println!("{} configurations, {} builds", cases.len(), builds().len());
    println!("{:>9} {:>16} {:>16} {:>7}  90 %", "failures", "ladder", "parts", "ratio");
    for failing in [0.2, 0.1, 0.05] {
        let [(ladder, ladder_failed), (parts, parts_failed)] =
            [false, true].map(|by_parts| at_failures(&cases, failing, by_parts));
        let mean = |surplus: &[f64]| surplus.iter().sum::<f64>() / float(surplus.len());
        let pairs: Vec<(f64, f64)> = parts.iter().copied().zip(ladder.iter().copied()).collect();
        let [low, high] = ratio_interval(&pairs);
        println!(
            "{failing:>9} {:>9.3} {ladder_failed:>5.3}  {:>9.3} {parts_failed:>5.3}  {:>6.3}  {low:.3} to {high:.3}",
            mean(&ladder),
            mean(&parts),
            mean(&parts) / mean(&ladder),
        );
        assert!(failing > 0.15 || mean(&parts) <= 0.75 * mean(&ladder), "a quarter is saved");
    }
}

/// Median and 99th percentile of some times, in microseconds.
fn micros(mut times: Vec<Duration>) -> [u128; 2] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|at| times[at].as_micros())
}

#[test]
#[ignore = "a measurement: prints times"]
fn parts_cost_little_of_a_prediction() {
    let settings = Settings::default();
    let variants = |n: usize, more: usize| {
        let flag = |bit: usize| format!("{}v{bit}", if n >> bit & 1 == 1 { '+' } else { '~' });
        let long = (0..more).map(|at| format!(" more{at}={}", n >> (at % 8) & 3));
        (0..12).map(flag).chain(long).collect::<String>()
    };
    for (name, more) in [("40 combinations of 12 variants", 0), ("2,000 letters of variants", 180)] {
        let built = |n: usize| {
            let mib = 1000 + 500 * ((n as u64 * 37 % 40 * 11) >> 1 & 1) + n as u64 % 7;
            let mut summary = test_summary(&n.to_string(), "zlib", "1", mib);
            summary.key.variants = variants(n * 37 % 40 * 11, more);
            summary
        };
        let history = test_history((0..200).map(built));
        let (mut all, mut of_parts) = (Vec::new(), Vec::new());
        for n in 0..2000 {
            let key = Key { variants: variants(2048 + n, more), ..built(0).key };
            let start = Instant::now();
            drop(crate::predict::predict(&history, &key, &settings));
            all.push(start.elapsed());
            let mut similar = SimilarAttempts::gather(&history, &key, &settings, TrustScope::Trusted, &[]);
            let start = Instant::now();
            adjust_to_parts(&mut similar, &key);
            of_parts.push(start.elapsed());
        }
        println!(
            "{name}: [median, 99 %] of a prediction {:?} us, of its parts {:?} us",
            micros(all),
            micros(of_parts)
        );
    }
}
