//! What a row keeps of an attempt.

use super::*;
use crate::domain::{CpuMicros, PredictionSnapshot, Resources, Summary, test_summary};

fn row(change: impl FnOnce(&mut Summary)) -> AttemptRow {
    let mut summary = test_summary("a", "zlib", "1", 1024);
    change(&mut summary);
    AttemptRow::new(&Arc::new(AttemptBrief::from(&summary)), &(&summary).into(), 0)
}

#[test]
fn a_row_stays_within_its_memory_budget() {
    assert_eq!(size_of::<AttemptRow>(), 56);
}

#[test]
fn causes_and_outcomes_keep_their_numeric_positions() {
    for (place, cause) in Cause::ALL.into_iter().enumerate() {
        assert_eq!(cause as usize, place);
        assert_eq!(RetryMark::cause(RetryMark::of(RetryStatus::Cause(cause)).index()), Some(cause));
        let row = row(|summary| (summary.outcome, summary.cause) = (Outcome::Failed, Some(cause)));
        assert_eq!((row.cause(), row.outcome(), row.failed_for_memory()), (place + 1, 1, cause.is_memory()));
    }
}

#[test]
fn needs_censored_below_the_limit_judge_no_prediction() {
    let predicted = PredictionSnapshot {
        memory_request: Bytes(1 << 30),
        memory_limit: Bytes(2 << 30),
        wall_p95: Millis(60_000),
        ..PredictionSnapshot::default()
    };
    let foreseen = |need_mib: u64, limit_mib: u64, censored: bool| {
        row(|summary| {
            summary.opening.predicted = Some(predicted);
            summary.need_peak = Bytes(need_mib << 20);
            summary.resources =
                Resources { memory_limit: Some(Bytes(limit_mib << 20)), ..Resources::default() };
            summary.censored = censored;
        })
    };
    let flags = |row: AttemptRow| {
        [
            RowFlag::LimitJudged,
            RowFlag::WithinLimit,
            RowFlag::RequestJudged,
            RowFlag::WithinRequest,
            RowFlag::Timed,
        ]
        .map(|flag| row.has_flag(flag))
    };
    assert_eq!(flags(foreseen(1024, 4096, false)), [true; 5]);
    assert_eq!(flags(foreseen(2048, 4096, false)), [true, true, true, false, true]);
    assert_eq!(flags(foreseen(2049, 4096, false)), [true, false, true, false, true]);
    assert_eq!(flags(foreseen(900, 1000, true)), [false; 5]);
    let above_the_request = [false, false, true, false, false];
    assert_eq!(flags(foreseen(1000, 1024, true)), above_the_request, "stopped at the limit of 1 GiB");
    assert_eq!(flags(foreseen(2048, 2048, true)), [true, false, true, false, false]);
}

#[test]
fn an_unneeded_build_has_no_need_or_time() {
    let of = |unneeded| {
        row(|summary| {
            let predicted = PredictionSnapshot {
                memory_limit: Bytes(1),
                wall_p95: Millis(1),
                ..PredictionSnapshot::default()
            };
            (summary.opening.predicted, summary.unneeded) = (Some(predicted), unneeded);
        })
    };
    let flags = |row: &AttemptRow| {
        (row.proven_gib().is_some(), row.brief.proven_need().is_some(), row.has_flag(RowFlag::Timed))
    };
    assert_eq!((flags(&of(false)), flags(&of(true))), ((true, true, true), (false, false, false)));
}

#[test]
fn what_a_failed_attempt_held_is_wasted_whole() {
    let resources =
        Resources { memory_limit: Some(Bytes(4 << 30)), cpu_limit: Some(Cores(4.0)), ..Resources::default() };
    let good = row(|summary| summary.resources = resources);
    let bad = row(|summary| (summary.resources, summary.outcome) = (resources, Outcome::Lost));
    let silent = row(|summary| summary.outcome = Outcome::Failed);
    // a minute with half a GiB and two cores in use
    let minutes =
        |row: &AttemptRow| [row.memory_use(), row.cpu_use()].map(|part| part.unwrap().wasted * 60.0);
    for (flags, expected) in minutes(&good).into_iter().chain(minutes(&bad)).zip([3.5, 2.0, 4.0, 4.0]) {
        assert!((flags - expected).abs() < 1e-5, "{flags} {expected}");
    }
    assert_eq!((silent.memory_use(), silent.cpu_use()), (None, None));
}
#[test]
fn unmeasured_usage_is_neither_used_nor_wasted() {
    let resources = Resources {
        memory_request: Some(Bytes(4 << 30)),
        cpu_request: Some(Cores(4.0)),
        ..Resources::default()
    };
    let imported = row(|summary| {
        (summary.resources, summary.need_mean, summary.cpu) = (resources, Bytes(0), CpuMicros(0));
    });
    assert_eq!((imported.memory_use(), imported.cpu_use(), imported.wasted()), (None, None, 0.0));
}
