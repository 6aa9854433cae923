//! Summaries of measured attempts, and what they prove.

use super::*;
use crate::domain::{Sample, test_attempt};

fn attempt() -> Attempt {
    Attempt { source: MeasurementSource::CgroupV1, started_unix_ms: 1000, ..test_attempt("a") }
}

#[test]
fn the_limit_at_the_end_is_in_force() {
    let had = |memory_limit: Option<u64>, at_end: Option<u64>| {
        let resources = Resources { memory_limit: memory_limit.map(Bytes), ..Resources::default() };
        let attempt = Attempt { resources, ..attempt() };
        let totals = FinalTotals { memory_limit: at_end.map(Bytes), ..FinalTotals::default() };
        let summary = Summary::of(&attempt, &SampleAccumulator::default(), &totals, Millis(1), None);
        [summary.resources.memory_limit, summary.memory_limit_at_start]
            .map(|limit| limit.map(|bytes| bytes.0))
    };
    assert_eq!(had(Some(64), None), [Some(64), None]);
    assert_eq!(had(Some(64), Some(64)), [Some(64), None]);
    assert_eq!(had(Some(64), Some(128)), [Some(128), Some(64)]);
    assert_eq!(had(Some(64), Some(0)), [None, Some(64)], "there is none any more");
    assert_eq!(had(None, Some(64)), [Some(64), Some(0)], "there was none");
}

#[test]
fn a_changed_limit_proves_no_more_than_it_held() {
    let of = |limit: u64, at_start: Option<u64>, oom_kill: u64| Summary {
        resources: Resources { memory_limit: Some(Bytes(limit)), ..Resources::default() },
        memory_limit_at_start: at_start.map(Bytes),
        oom_kill: Some(oom_kill),
        ..Summary::recorded(attempt().id, attempt().key)
    };
    let held = |summary: &Summary| summary.holding_limit().map(|limit| limit.0);
    assert_eq!(held(&of(64, None, 0)), Some(64));
    assert_eq!(held(&of(128, Some(64), 1)), Some(128), "killed there");
    assert_eq!(held(&of(32, Some(64), 1)), Some(32), "killed there");
    assert_eq!(held(&of(128, Some(64), 0)), Some(64), "starved at either");
    assert_eq!(held(&of(32, Some(64), 0)), Some(32), "starved at either");
    assert_eq!(held(&of(64, Some(0), 0)), Some(64), "there was none at first");
    let at_start = |summary: &Summary| summary.resources_at_start().memory_limit.map(|limit| limit.0);
    assert_eq!([at_start(&of(128, Some(64), 0)), at_start(&of(128, Some(0), 0))], [Some(64), None]);
}

#[test]
fn counters_read_after_the_end_win() {
    let mut progress = SampleAccumulator::default();
    let sample = Sample { elapsed: Millis(500), need: Bytes(10), oom_kill: Some(0), ..Sample::default() };
    progress.add(&sample).unwrap();
    let totals = FinalTotals { oom_kill: Some(1), need_peak: Some(Bytes(30)), ..FinalTotals::default() };
    let summary = Summary::of(&attempt(), &progress, &totals, Millis(900), Some(Exit::Code(2)));
    assert_eq!((summary.oom_kill, summary.need_peak), (Some(1), Bytes(30)));
    assert_eq!(summary.measured_memory_peak(), None, "no mark was read");
    let totals = FinalTotals { memory_peak: Some(Bytes(20)), ..totals };
    let summary = Summary::of(&attempt(), &progress, &totals, Millis(900), Some(Exit::Code(2)));
    assert_eq!(summary.measured_memory_peak(), Some(Bytes(30)), "a mark is at least the need");
    assert_eq!((summary.outcome, summary.ended_unix_ms()), (Outcome::Failed, 1900));
}

#[test]
fn what_killed_is_shown_only_beside_a_kill() {
    let of = |oom_kill| {
        let totals = FinalTotals { oom_kill, oom_origin: Some(OomOrigin::Host), ..FinalTotals::default() };
        Summary::of(&attempt(), &SampleAccumulator::default(), &totals, Millis(1), None).oom_origin
    };
    assert_eq!((of(Some(1)), of(Some(0)), of(None)), (Some(OomOrigin::Host), None, None));
}

#[test]
fn phases_name_the_peak_and_lift_it() {
    let phase = |name: &str, need| Phase { name: name.into(), need_peak: Bytes(need), ..Phase::default() };
    let read = Some(Bytes(30));
    let totals = FinalTotals { need_peak: read, memory_peak: read, ..FinalTotals::default() };
    let plain = Summary::of(&attempt(), &SampleAccumulator::default(), &totals, Millis(900), None);
    assert_eq!(plain.peak_phase(), None);
    let summary = plain.with_phases(vec![phase("a", 20), phase("b", 40), phase("c", 40)]);
    assert_eq!((summary.need_peak, summary.memory_peak), (Bytes(40), Bytes(40)));
    assert_eq!(summary.peak_phase().map(|phase| phase.name.as_str()), Some("b"));
}

#[test]
fn a_summary_of_the_first_release_still_reads() {
    let old = r#"{"attempt":"a","key":{"package":"zlib"},"number":1,"source":"cgroup_v1","resources":{},
            "started_unix_ms":1000,"wall":900,"cpu":5,"cpu_peak":1.5,"samples":2,"need_peak":30,"need_mean":20,
            "memory_peak":40,"oom_kill":1,"outcome":"failed","exit":{"code":2},"cause":"oom","censored":true}"#;
    let summary: Summary = serde_json::from_str(old).unwrap();
    assert_eq!((summary.oom_origin, summary.starved, summary.phases.len()), (None, None, 0));
    let again = serde_json::to_string(&summary).unwrap();
    assert!(!again.contains("phases"), "what is not known takes no room: {again}");
    assert!(!again.contains("starved"), "what is not known takes no room: {again}");
}

#[test]
fn an_attempt_without_samples_still_has_a_summary() {
    let summary =
        Summary::of(&attempt(), &SampleAccumulator::default(), &FinalTotals::default(), Millis(0), None);
    assert_eq!((summary.outcome, summary.samples), (Outcome::Lost, 0));
    assert!(!summary.counts_for_memory());
}

#[test]
fn a_kill_proves_at_least_the_limit() {
    let at = |need, limit, oom_origin| {
        let resources = Resources { memory_limit: Some(Bytes(limit)), ..Resources::default() };
        let killed = Summary {
            censored: true,
            outcome: Outcome::Failed,
            ..crate::domain::test_summary("1", "zlib", "1", 1)
        };
        Summary { need_peak: Bytes(need), resources, oom_origin, ..killed }
    };
    for origin in [None, Some(OomOrigin::OwnLimit)] {
        assert_eq!(at(193, 200, origin).stopped_at(), Bytes(200), "the last burst is between two readings");
        assert_eq!(at(100, 64_000, origin).stopped_at(), Bytes(64_000), "the burst was larger than that");
        assert_eq!(at(300, 200, origin).stopped_at(), Bytes(300), "more was read");
        let unread = at(0, 200, origin);
        assert_eq!((unread.proven_need(), unread.counts_for_memory()), (Bytes(200), true));
        assert_eq!(at(100, 1 << 63, origin).stopped_at(), Bytes(100), "no machine has that");
    }
    let shared = Some(OomOrigin::LimitAbove);
    assert_eq!(at(100, 64_000, shared).stopped_at(), Bytes(100), "others in the group took the rest");
    assert_eq!(at(193, 200, shared).stopped_at(), Bytes(200));
}
