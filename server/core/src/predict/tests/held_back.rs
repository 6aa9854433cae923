//! Builds that their CPU limit held back get more, until it helps no more.

use std::collections::HashSet;

use super::super::*;
use crate::domain::{
    Cores, CpuMicros, Micros, Millis, OpeningRecord, Summary, test_history as history, test_summary,
};

/// Part of a build's work that no second job shares.
const SERIAL: f64 = 0.2;

/// A build of `cpu_s` seconds of work with `jobs` jobs at a limit of `cores`: it takes its critical time by Amdahl's law, or longer if the
/// cores do not suffice for its work. Returns it with its critical time, milliseconds.
fn run(id: usize, key: Key, cpu_s: f64, cores: f64) -> (Summary, f64) {
    let jobs = f64::from(key.hints.build_jobs.unwrap_or(1));
    let critical = cpu_s * (SERIAL + (1.0 - SERIAL) / jobs);
    let wanted = cpu_s / critical;
    let wall = critical.max(cpu_s / cores);
    let lost = (wanted - cores).max(0.0) * wall;
    let summary = test_summary(&(id + 1_000_000).to_string(), "", "", 300);
    let mut summary = Summary {
        key,
        started_unix_ms: summary.started_unix_ms + 86_400_000 * u64::try_from(id).unwrap(),
        wall: Millis::from_f64(wall * 1000.0),
        cpu: CpuMicros::from_f64(cpu_s * 1e6),
        cpu_peak: Cores(jobs.min(cores)),
        throttled: Some(Micros::from_f64(lost * 1e6)),
        ..summary
    };
    summary.resources.cpu_limit = Some(Cores(cores));
    (summary, critical * 1000.0)
}

fn key(package: &str, jobs: u32) -> Key {
    let mut key = test_summary("k", package, "1", 0).key;
    key.hints.build_jobs = Some(jobs);
    key
}

fn cores_of(quantity: &Quantity) -> f64 {
    Millis(quantity.value).as_f64() / 1000.0
}

#[test]
fn throttled_builds_climb_until_they_run_free() {
    for jobs in [2, 4, 8, 16] {
        let (mut known, mut over) = (History::new(100), 0.0);
        for id in 0..6 {
            let asked = predict(&known, &key("zlib", jobs), &Settings::default());
            let (summary, critical) = run(id, key("zlib", jobs), 600.0, cores_of(&asked.cpu_limit));
            over = summary.wall.as_f64() / critical;
            known.learn(summary);
        }
        assert!(over <= 1.05, "{jobs} jobs: {over} times as long as unlimited");
    }
}

#[test]
fn a_step_is_one_and_is_named() {
    let ask = |known: &History| predict(known, &key("zlib", 8), &Settings::default());
    let (first, _) = run(0, key("zlib", 8), 600.0, 2.0);
    let held = ask(&history([first.clone()]));
    assert!((held.cpu_limit.value, held.cpu_request.value) == (4000, 2000), "{held:?}");
    assert_eq!(held.cpu_limit.basis.bound.to_string(), "step above 2 cores, where it was held back");
    assert!(
        held.reason.contains("CPU: throttled for 15 % or more of what it could have used at 2"),
        "{}",
        held.reason
    );
    let untrusted = OpeningRecord { untrusted: true, ..first.opening.clone() };
    let calm = Summary { throttled: None, ..first.clone() };
    let plain = ask(&history([calm.clone()]));
    let of_fork = Summary { attempt: AttemptId::parse("fork").unwrap(), opening: untrusted, ..first };
    assert_eq!(ask(&history([calm, of_fork])).cpu_limit.value, plain.cpu_limit.value);
}

#[test]
fn cpu_that_shortens_nothing_climbs_one_step() {
    let mut known = History::new(100);
    for id in 0..30 {
        let asked = predict(&known, &key("zlib", 64), &Settings::default());
        let cores = cores_of(&asked.cpu_limit);
        assert!(cores <= 4.0, "{cores} after {id}");
        // it spins on all cores that it gets
        let (spins, _) = run(id, key("zlib", 64), 600.0, cores);
        let wall = Millis(300_000);
        known.learn(Summary {
            wall,
            cpu: CpuMicros::from_f64(3e8 * cores),
            throttled: Some(Micros(900_000_000)),
            ..spins
        });
    }
    let reason = predict(&known, &key("zlib", 64), &Settings::default()).reason;
    assert!(reason.contains("the last step made it no faster"), "{reason}");
}

/// Replays the measured builds, each held at its predicted limit: the time divided by that without a limit, of builds of packages that
/// ran with the same number of jobs before, and of all.
fn slowdown(learns: bool) -> [f64; 2] {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/lab_builds.csv");
    let text = std::fs::read_to_string(file).unwrap();
    let (mut known, mut sums, mut seen) = (History::new(1000), [[0.0; 2]; 2], HashSet::new());
    for (id, row) in text.lines().skip(1).enumerate() {
        let fields: Vec<&str> = row.split(',').collect();
        let mut asked = key(fields[1], fields[8].parse().unwrap());
        (asked.version, asked.variants, asked.compiler) =
            (fields[2].into(), fields[3].into(), fields[4].into());
        asked.build_system = fields[7].into();
        let Ok(cpu_usec) = fields[13].parse::<f64>() else { continue };
        let prediction = predict(&known, &asked, &Settings::default());
        let (mut summary, critical) = run(id, asked, cpu_usec / 1e6, cores_of(&prediction.cpu_limit));
        for [time, unlimited] in sums.iter_mut().skip(usize::from(seen.insert((fields[1], fields[8])))) {
            (*time, *unlimited) = (*time + summary.wall.as_f64(), *unlimited + critical);
        }
        summary.throttled = summary.throttled.filter(|_| learns);
        known.learn(summary);
    }
    sums.map(|[time, unlimited]| time / unlimited)
}

#[test]
fn measured_builds_run_as_fast_as_unlimited() {
    let [before, after] = [slowdown(false), slowdown(true)];
    assert!(after[0] <= 1.05 && after[0] < before[0], "{before:?} {after:?}");
}
