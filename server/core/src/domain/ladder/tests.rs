//! Who stands where, what is shared, and what is left.

use std::collections::VecDeque;

use super::*;
use crate::domain::test_summary;

fn oldest_first(ladder: &Ladder, rung: Rung, key: &Key) -> Vec<Arc<AttemptBrief>> {
    ladder.on_rung(rung, key).rev().map(|observation| Arc::clone(&observation.brief)).collect()
}

fn all(ladder: &Ladder) -> Vec<Arc<AttemptBrief>> {
    oldest_first(ladder, Rung::Fleet, &Key { package: "none".into(), ..Key::default() })
}

fn observation(n: usize, key: &Key) -> RungObservation {
    let mut summary = test_summary(&n.to_string(), "", "", 10);
    summary.key = key.clone();
    summary.into()
}

/// Attempts that are kept of those that come.
const NEWEST: usize = 40;

/// Keys that share some rungs and not others.
fn key(n: usize) -> Key {
    let text = |what: &str, of: usize| format!("{what}{}", n / of % 2);
    Key {
        project: "a".into(),
        version: text("v", 1),
        compiler: text("c", 2),
        variants: text("x", 4),
        package: text("p", 8),
        build_system: text("b", 16),
        ..Key::default()
    }
}

/// The newest of them on the ladder, oldest first.
fn one_by_one(ladder: &mut Ladder, come: Vec<RungObservation>) -> VecDeque<Arc<AttemptBrief>> {
    let mut here = VecDeque::new();
    for observation in come {
        here.push_back(ladder.push(observation));
        if here.len() > NEWEST {
            ladder.remove_oldest(&here.pop_front().unwrap());
        }
    }
    here
}

/// The same, filled with them.
fn at_once(ladder: &mut Ladder, mut come: Vec<RungObservation>) -> VecDeque<Arc<AttemptBrief>> {
    let newest = come.split_off(come.len() - NEWEST);
    let (mut bulk, mut here) = (ladder.begin_load(newest.iter()), VecDeque::new());
    for observation in newest.into_iter().rev() {
        here.push_front(ladder.push_older(&mut bulk, observation));
    }
    ladder.finish_load(bulk);
    here
}

#[test]
fn rungs_sharing_a_list_answer_as_if_separate() {
    // all orders in which keys may come are too many: some, whose steps have no common divisor with the number of keys
    for (step, filling) in [(1, false), (7, false), (19, true), (31, false), (5, true)] {
        let mut ladder = Ladder::default();
        let come: Vec<RungObservation> = (0..200).map(|n| observation(n, &key(n * step % 32))).collect();
        let here = if filling { at_once(&mut ladder, come) } else { one_by_one(&mut ladder, come) };
        for (key, rung) in (0..32).flat_map(|n| Rung::LADDER.map(|rung| (key(n), rung))) {
            let mark = ladder.rungs.hasher.rung_key(rung, &key);
            let has =
                |brief: &&Arc<AttemptBrief>| ladder.rungs.hasher.rung_keys(&brief.key).any(|own| own == mark);
            let expected: Vec<_> = here.iter().filter(has).map(Arc::clone).collect();
            assert_eq!(oldest_first(&ladder, rung, &key), expected, "{rung:?} of {key:?}, step {step}");
        }
    }
}

#[test]
fn equal_rungs_share_one_list_until_keys_diverge() {
    let mut ladder = Ladder::default();
    let one = Key { package: "zlib".into(), version: "1".into(), ..Key::default() };
    for n in 0..10 {
        ladder.push(observation(n, &one));
    }
    assert_eq!(ladder.rungs.lists.lists_in_use().count(), 1, "one key, one list");
    let other = Key { version: "2".into(), ..one.clone() };
    let brief = ladder.push(observation(10, &other));
    let lists: Vec<usize> = ladder.rungs.lists.lists_in_use().map(VecDeque::len).collect();
    assert_eq!(lists, [10, 11, 1], "the exact keys, and what they have in common");
    let settled = observation(10, &other);
    ladder.replace(&brief, &settled);
    let count = |rung, key| ladder.on_rung(rung, key).count();
    assert_eq!((count(Rung::Exact, &one), count(Rung::Package, &one)), (10, 11));
    let last = ladder.on_rung(Rung::NoVersion, &one).next().unwrap();
    assert!(Arc::ptr_eq(&last.brief, &settled.brief));
}

#[test]
fn an_emptied_ladder_leaves_nothing_and_reuses_lists() {
    let mut ladder = Ladder::default();
    let mut most = None;
    for round in 0..5 {
        for n in 0..100 {
            ladder.push(test_summary(&n.to_string(), &format!("p{}", (n + round) % 7), "1", 10).into());
        }
        assert_eq!((ladder.keys.len(), ladder.rungs.on.len()), (7, 7 * 4 + 1));
        assert_eq!(ladder.rungs.lists.lists_in_use().count(), 7 + 1);
        let bytes = ladder.bytes();
        assert_eq!(*most.get_or_insert(bytes), bytes, "round {round}");
        for brief in all(&ladder) {
            ladder.remove_oldest(&brief);
        }
        assert_eq!((ladder.keys.len(), ladder.rungs.on.len()), (0, 0));
        assert_eq!((ladder.rungs.lists.lists_in_use().count(), ladder.bytes), (0, 0));
    }
}

#[test]
fn a_list_emptied_midway_stays_with_its_keys() {
    let mut ladder = Ladder::default();
    let push =
        |ladder: &mut Ladder, id: &str, package: &str| ladder.push(test_summary(id, package, "1", 10).into());
    let (old, other) = (push(&mut ladder, "old", "a"), push(&mut ladder, "other", "b"));
    let newer: Vec<Arc<AttemptBrief>> =
        (1..=ATTEMPTS_PER_RUNG).map(|n| push(&mut ladder, &n.to_string(), "c")).collect();
    // the list of all has only these, and is empty without them
    for brief in &newer {
        ladder.remove(brief);
    }
    assert!(all(&ladder).is_empty());
    ladder.remove_oldest(&old);
    let last = push(&mut ladder, "last", "b");
    push(&mut ladder, "x", "d");
    assert_eq!(all(&ladder).len(), 2);
    let of_b = |ladder: &Ladder| ladder.on_rung(Rung::Package, &last.key).count();
    assert_eq!(of_b(&ladder), 2);
    ladder.remove(&last);
    assert_eq!(of_b(&ladder), 1);
    ladder.remove_oldest(&other);
    let left = all(&ladder);
    ladder.remove(&left[0]);
    assert_eq!(ladder.keys.len(), 0);
    assert_eq!(ladder.rungs.on.len(), 0);
    assert_eq!(ladder.rungs.lists.lists_in_use().count(), 0);
    assert_eq!(ladder.bytes, 0);
}

#[test]
fn expected_lists_are_allocated_at_full_length() {
    let mut ladder = Ladder::default();
    let observation =
        |n: usize| RungObservation::from(test_summary(&n.to_string(), &format!("p{}", n % 10), "1", 10));
    let observations: Vec<RungObservation> = (0..500).map(observation).collect();
    let mut bulk = ladder.begin_load(observations.iter());
    ladder.push_older(&mut bulk, observation(0));
    let room: Vec<usize> = ladder.rungs.lists.lists_in_use().map(VecDeque::capacity).collect();
    assert_eq!(room, [50, ATTEMPTS_PER_RUNG]);
    for observation in observations {
        ladder.push_older(&mut bulk, observation);
    }
    ladder.finish_load(bulk);
    assert!(ladder.rungs.expected.is_empty(), "{:?}", ladder.rungs.expected);
}

#[test]
fn a_list_keeps_the_newest_in_bounded_memory() {
    let mut ladder = Ladder::default();
    for n in 0..1000 {
        ladder.push(test_summary(&n.to_string(), "zlib", "1", 10).into());
    }
    let newest: Vec<String> = all(&ladder).iter().map(|brief| brief.attempt.to_string()).collect();
    assert_eq!(newest, (1000 - ATTEMPTS_PER_RUNG..1000).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(ladder.rungs.lists.lists_in_use().all(|list| list.capacity() == ATTEMPTS_PER_RUNG));
}
