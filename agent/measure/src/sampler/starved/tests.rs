//! Starved builds and healthy ones, from what was read of real ones.

use plimsoll_proto::counters::PageCounters;

use super::*;

const LIMIT: u64 = 280_000_000;

/// A build that grows its counters by these each second, with this need in percent of the limit. Returns the starved
/// milliseconds after each second.
fn run(seconds: &[(u64, u64, u64, u64)], stall_usec: u64) -> Vec<Option<u64>> {
    let start = Reading {
        reclaim_failures: Some(9_000_000),
        pages: PageCounters::all(Some(1_000_000)),
        major_faults: Some(70_000),
        memory_stall_usec: Some(1_000_000),
        ..Reading::default()
    };
    let mut watch = Starvation::new(start);
    let (mut reading, mut now, mut pages) = (start, Duration::ZERO, 1_000_000);
    let mut add = |&(failures, again, faults, need): &(u64, u64, u64, u64)| {
        now += Duration::from_secs(1);
        let grow = |count: &mut Option<u64>, by| *count = count.map(|count| count + by);
        grow(&mut reading.reclaim_failures, failures);
        pages += again;
        reading.pages = PageCounters::all(Some(pages));
        grow(&mut reading.major_faults, faults);
        grow(&mut reading.memory_stall_usec, stall_usec);
        (reading.memory, reading.need) = (LIMIT * 99 / 100, LIMIT * need / 100);
        watch.add(now, &reading, Some(LIMIT));
        watch.starved_ms()
    };
    seconds.iter().map(&mut add).collect()
}

#[test]
fn thrashing_counts_as_starved_from_the_second_row() {
    let seen = (117_000, 3_000, 235, 92);
    assert_eq!(run(&[seen; 4], 0), [Some(0), Some(2000), Some(3000), Some(4000)]);
    let quiet = (0, 0, 0, 92);
    let rows = run(&[seen, quiet, seen, quiet, seen], 0);
    assert_eq!(rows.last(), Some(&Some(0)), "one second is no starvation");
    assert_eq!(run(&[seen, seen, quiet, seen, seen], 0).last(), Some(&Some(4000)));
}

#[test]
fn a_build_held_at_memory_high_is_starved() {
    let at = |seconds: u64, stall_usec: Option<u64>| Reading {
        memory: LIMIT + 9_000_000,
        need: LIMIT + 4_000_000,
        reclaim_failures: Some(seconds * 30),
        memory_stall_usec: stall_usec.map(|usec| usec * seconds),
        ..Reading::default()
    };
    for (stall_usec, starved) in [(Some(970_000), 3000), (None, 3000), (Some(10_000), 0)] {
        let mut watch = Starvation::new(at(0, stall_usec));
        for seconds in 1..=3 {
            watch.add(Duration::from_secs(seconds), &at(seconds, stall_usec), Some(LIMIT));
        }
        assert_eq!(watch.starved_ms(), Some(starved), "{stall_usec:?}");
    }
}

#[test]
fn filling_the_limit_alone_is_not_starvation() {
    for healthy in [(110, 30, 2, 88), (37_000, 100_000, 0, 2), (69_000, 110_000, 0, 88), (0, 0, 900, 99)] {
        assert_eq!(run(&[healthy; 5], 10_000).last(), Some(&Some(0)), "{healthy:?}");
    }
    assert_eq!(run(&[(37_000, 100_000, 0, 10); 3], 900_000).last(), Some(&Some(0)), "cache alone is no need");
}

#[test]
fn costly_refaults_beside_large_need_are_starvation() {
    let seen = (1_400, 66_000, 0, 62);
    assert_eq!(run(&[seen; 4], 155_000).last(), Some(&Some(4000)));
    assert_eq!(run(&[(1_400, 66_000, 0, 45); 4], 250_000).last(), Some(&Some(0)), "files fill the limit");
    assert_eq!(run(&[seen; 4], 90_000).last(), Some(&Some(0)), "it hardly waits");
    assert_eq!(run(&[(1_400, 900, 0, 62); 4], 155_000).last(), Some(&Some(0)), "they do not come back");
}

#[test]
fn a_memory_stall_alone_is_starvation() {
    assert_eq!(run(&[(1, 0, 0, 93); 3], 250_000).last(), Some(&Some(3000)));
    assert_eq!(run(&[(1, 0, 0, 93); 3], 150_000).last(), Some(&Some(0)));
}

#[test]
fn short_rows_are_merged_and_uncounted_is_unknown() {
    let mut watch = Starvation::new(Reading::default());
    let reading = Reading { memory: LIMIT, need: LIMIT, ..Reading::default() };
    assert_eq!(watch.add(Duration::from_secs(1), &reading, Some(LIMIT)), None);
    assert_eq!(watch.starved_ms(), None);
    let reading = Reading { reclaim_failures: Some(7), ..reading };
    assert_eq!(watch.add(Duration::from_millis(1050), &reading, Some(LIMIT)), None);
    assert_eq!((watch.starved_ms(), watch.round.0), (Some(0), Duration::from_secs(1)));
}

#[test]
fn resetting_counters_and_missing_limits_are_no_starvation() {
    let mut watch = Starvation::new(Reading::default());
    let mut reading = Reading {
        memory: 9,
        need: 9,
        reclaim_failures: Some(1 << 40),
        major_faults: Some(1 << 40),
        ..Reading::default()
    };
    for second in 1..9 {
        reading.reclaim_failures = reading.reclaim_failures.map(|count| count / 2);
        let limit = (second > 1).then_some(9);
        assert_eq!(watch.add(Duration::from_secs(second), &reading, limit), None);
    }
    assert_eq!(watch.starved_ms(), Some(0));
}
