//! Needs that have moved, and those that have not.

use std::sync::Arc;

use super::*;
use crate::{
    domain::{Cause, Millis, Outcome, Summary, test_summary},
    stats::{Filter, PoolPrices, Question, Settings, Stats},
};

/// An hour of a build of which the `n`th attempt needs `need_mib`.
fn attempt(n: usize, package: &str, need_mib: u64) -> Summary {
    let mut summary = test_summary(&format!("{package}-{n}"), package, "1", need_mib);
    summary.started_unix_ms = 1_700_000_000_000 + 3_600_000 * n as u64;
    summary.wall = Millis(3_600_000);
    summary
}

/// 1 GiB, and 3 GiB from the tenth attempt on.
fn grown(package: &str) -> Vec<Summary> {
    (0..14).map(|n| attempt(n, package, if n < 10 { 1024 } else { 3072 })).collect()
}

fn kept(attempts: &[Summary]) -> Stats {
    let stats = Stats::new(Settings::default());
    for summary in attempts {
        stats.add(&summary.into(), &Arc::new(summary.into()));
    }
    stats
}

fn regressions(stats: &Stats, filter: &Filter) -> Vec<Regression> {
    let question = Question { filter: filter.clone(), ..Question::default() };
    stats.report(&question, &PoolPrices::default()).unwrap().regressions
}

fn found(attempts: &[Summary]) -> Vec<Regression> {
    regressions(&kept(attempts), &Filter::default())
}

#[test]
fn a_regression_names_its_start_factor_and_changes() {
    let mut attempts = grown("zlib");
    for attempt in &mut attempts[10..] {
        attempt.key.version = "2".to_owned();
        attempt.key.compiler = "gcc".to_owned();
    }
    let moved = found(&attempts);
    assert_eq!(moved.len(), 1);
    let regression = &moved[0];
    assert_eq!((regression.attempt.as_str(), regression.kind), ("zlib-10", ChangeKind::Step));
    assert_eq!((regression.attempts_before, regression.attempts_since), (10, 4));
    assert!((regression.factor - 3.0).abs() < 1e-3, "{}", regression.factor);
    assert_eq!((regression.before, regression.now), (Bytes(1 << 30), Bytes(3 << 30)));
    assert_eq!(regression.changed, "version 1 -> 2, compiler none -> gcc");
    assert!((regression.extra_gib_hours - 8.0).abs() < 1e-3, "{}", regression.extra_gib_hours);
    assert_eq!(found(&grown("zlib"))[0].changed, "", "nothing in the key changed");
}

#[test]
fn only_memory_failures_count_among_failed_attempts() {
    let mut stopped = grown("zlib");
    let mut broken = grown("zlib");
    for n in 10..14 {
        stopped[n] = Summary { outcome: Outcome::Failed, cause: Some(Cause::Oom), ..stopped[n].clone() };
        broken[n] =
            Summary { outcome: Outcome::Failed, cause: Some(Cause::Deterministic), ..broken[n].clone() };
    }
    assert_eq!((found(&stopped).len(), found(&broken).len()), (1, 0));
}

#[test]
fn job_variant_and_small_changes_are_no_regressions() {
    let mut jobs = grown("zlib");
    jobs[10..].iter_mut().for_each(|attempt| attempt.key.hints.build_jobs = Some(16));
    let mut variants = grown("zlib");
    variants[10..].iter_mut().for_each(|attempt| attempt.key.variants = "+all".to_owned());
    let small: Vec<Summary> = (0..14).map(|n| attempt(n, "zlib", if n < 10 { 10 } else { 50 })).collect();
    assert_eq!([found(&jobs), found(&variants), found(&small)].map(|found| found.len()), [0, 0, 0]);
}

#[test]
fn the_filter_applies_to_a_regressions_start() {
    let stats = kept(&[grown("zlib"), grown("hdf5")].concat());
    let began = attempt(10, "zlib", 1).ended_unix_ms();
    let count = |filter: Filter| regressions(&stats, &filter).len();
    assert_eq!(count(Filter { package: "zlib".into(), ..Filter::default() }), 1);
    assert_eq!(count(Filter { from_unix_ms: Some(began), ..Filter::default() }), 2);
    assert_eq!(count(Filter { from_unix_ms: Some(began + 1), ..Filter::default() }), 0);
    assert_eq!(count(Filter { to_unix_ms: Some(began), ..Filter::default() }), 0);
    assert_eq!(count(Filter { owner: "science".into(), ..Filter::default() }), 0);
}

#[test]
fn the_most_expensive_comes_first_and_savings_last() {
    let saved = (0..14).map(|n| attempt(n, "saved", if n < 10 { 3072 } else { 1024 }));
    let large = (0..14).map(|n| attempt(n, "large", if n < 10 { 10_240 } else { 30_720 }));
    let all: Vec<Summary> = grown("zlib").into_iter().chain(saved).chain(large).collect();
    let names: Vec<String> = found(&all).into_iter().map(|regression| regression.key.package).collect();
    assert_eq!(names, ["large", "zlib", "saved"]);
}
