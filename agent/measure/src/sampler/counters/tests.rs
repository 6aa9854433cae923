//! Counters that kernels show.

use super::*;

const SIZE: MemorySize = MemorySize { memory: 300, need: 200 };

#[test]
fn nothing_that_leaves_goes_back() {
    let before = Reading {
        cpu_usec: 1000,
        oom_kill: Some(4),
        memory_peak: Some(500),
        reclaim_failures: Some(10),
        pages: PageCounters::all(Some(70)),
        throttled_usec: Some(8),
        ..Reading::default()
    };
    let mut counters = AttemptCounters::new(before);
    let first = Reading {
        need: 200,
        cpu_usec: 1700,
        oom_kill: Some(5),
        reclaim_failures: Some(12),
        pages: PageCounters::all(Some(71)),
        throttled_usec: Some(9),
        ..before
    };
    assert!(counters.add(&first));
    let sample = counters.sample(50, SIZE, None, None);
    assert_eq!((sample.cpu_usec, sample.oom_kill, sample.reclaim_failures), (700, Some(1), Some(2)));
    assert_eq!((PageCounters::from(&sample), sample.throttled_usec), (PageCounters::all(Some(1)), Some(1)));
    assert_eq!(sample.memory_peak_bytes, None, "a mark from before the start says nothing");
    let back = Reading { memory_peak: Some(700), need: 100, oom_kill: Some(0), ..Reading::default() };
    assert!(!counters.add(&back));
    let again = counters.sample(51, SIZE, None, None);
    assert_eq!(again, Sample { elapsed_ms: 51, memory_peak_bytes: Some(700), ..sample });
    counters.add_need(900);
    assert_eq!(counters.totals(None).need_peak_bytes, Some(900));
}

/// Kills counted, hits of the own limit and of those above, and whether these are all.
fn reading(kills: u64, own: Option<u64>, above: Option<u64>, all: bool) -> Reading {
    Reading {
        oom_kill: Some(kills),
        limit_hits: own,
        limit_hits_above: above,
        sees_all_limits: all,
        ..Reading::default()
    }
}

#[test]
fn the_limit_hit_explains_the_kill() {
    use OomOrigin::{Host, LimitAbove, OwnLimit, Unspecified};
    let before = reading(7, Some(3), Some(40), true);
    for (after, expected) in [
        (reading(8, Some(4), Some(40), true), OwnLimit),
        (reading(8, Some(3), Some(41), true), LimitAbove),
        (reading(8, Some(3), Some(40), true), Host),
        (reading(8, Some(3), Some(40), false), Unspecified),
        (reading(8, Some(3), None, true), Unspecified),
        (reading(8, None, Some(40), true), Unspecified),
        (reading(7, Some(4), Some(41), true), Unspecified),
    ] {
        let mut counters = AttemptCounters::new(before);
        counters.add(&after);
        assert_eq!(counters.totals(None).oom_origin, i32::from(expected), "{after:?}");
    }
}

#[test]
fn only_own_limit_kills_bound_the_need() {
    let before = reading(0, Some(0), Some(0), true);
    let at = |mark, after| {
        let mut counters = AttemptCounters::new(before);
        counters.add(&Reading { memory_peak: mark, ..after });
        counters.need_at_kill(1000)
    };
    let own = reading(1, Some(1), Some(0), true);
    assert_eq!(at(Some(1000), own), Some(950));
    assert_eq!(at(Some(900), own), None, "the limit of a group below");
    assert_eq!(at(None, own), None);
    assert_eq!(at(Some(1000), Reading { failures_above: Some(1), ..own }), None, "others share the limit");
    assert_eq!(at(Some(1000), reading(1, Some(0), Some(1), true)), None);
    assert_eq!(at(Some(1000), reading(0, Some(1), Some(0), true)), None, "no process was killed");
}

#[test]
fn earlier_own_limit_failures_do_not_mask_ancestors() {
    let mut counters = AttemptCounters::new(reading(0, Some(0), Some(0), true));
    counters.add(&reading(0, Some(900), Some(0), true));
    counters.add(&reading(1, Some(900), Some(5), true));
    assert_eq!(counters.oom_origin(), OomOrigin::LimitAbove);
    counters.add(&reading(2, Some(950), Some(5), true));
    assert_eq!(counters.oom_origin(), OomOrigin::LimitAbove, "the first kill is what is asked for");
}
