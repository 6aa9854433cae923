//! Runs one policy over the recorded attempts, in order of time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

use plimsoll_core::{domain::Bytes, predict::Settings};

use super::{
    kind::PolicyKind,
    policy::{FinishedBuild, MemorySizes, PolicyQuestion, SizingPolicy},
    tally::{PolicyTally, ScoredBuild},
    tape::ReplayTape,
};

/// A build is given up after this many tries. Doubling from 64 KiB reaches 64 TiB after 30.
const MAX_TRIES: u64 = 60;

#[derive(Debug, Clone, Copy)]
pub(super) struct PolicySetting {
    pub(super) kind: PolicyKind,
    pub(super) knob: Option<f64>,
}

/// Runs one policy over the tape, and returns its costs. From the first `warmup` share of the rows the policy
/// only learns; they do not count.
pub(super) fn walk(
    tape: &ReplayTape,
    setting: PolicySetting,
    settings: &Settings,
    warmup: f64,
    mut on_progress: impl FnMut(f64),
) -> PolicyTally {
    let PolicySetting { kind, knob } = setting;
    let mut policy = kind.make(knob, settings);
    let mut tally = PolicyTally { knob, ..PolicyTally::default() };
    let rows = Bytes(u64::try_from(tape.rows.len()).unwrap_or(0)).as_f64();
    // attempts that are running, by the time of their end
    let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (number, row) in tape.rows.iter().enumerate() {
        let place = Bytes(u64::try_from(number).unwrap_or(0)).as_f64() / rows;
        if number.is_multiple_of(1000) {
            on_progress(place);
        }
        while running.peek().is_some_and(|Reverse((end, _))| *end <= row.start_ms) {
            let Some(Reverse((_, slot))) = running.pop() else { break };
            // computed again, because keeping it would take ten times the memory of the row
            if let Some(row) = tape.rows.get(slot) {
                let (ask, done) = tape.ask(slot, row);
                policy.learn(&ask, &done);
            }
        }
        let (mut ask, done) = tape.ask(number, row);
        let mut tries = 1;
        // the need of a stopped attempt is unknown, so it does not count; the policy only learns from it
        if !row.stopped {
            if kind.foresees() {
                ask.need = done.peak;
            }
            let count = place >= warmup;
            tries += attempt(policy.as_mut(), &ask, &done, count.then_some(&mut tally));
        }
        if tape.timed {
            running.push(Reverse((row.start_ms.saturating_add(row.wall.0.saturating_mul(tries)), number)));
        } else {
            policy.learn(&ask, &done);
        }
    }
    tally
}

/// Tries sizes until one is enough; returns how many were not.
fn attempt(
    policy: &mut dyn SizingPolicy,
    ask: &PolicyQuestion,
    done: &FinishedBuild,
    tally: Option<&mut PolicyTally>,
) -> u64 {
    let before = Instant::now();
    let first = policy.sizes(ask);
    let nanos = before.elapsed().as_nanos();
    let mut sizes =
        MemorySizes { request: first.request.max(1.0), limit: first.limit.max(1.0), promise: None };
    let (mut lost, mut failures) = (0.0, 0);
    while sizes.limit < done.peak && failures < MAX_TRIES {
        // the build was stopped when it used all of its limit
        lost += sizes.limit;
        failures += 1;
        let next = policy.size_after_failure(ask, sizes.limit);
        sizes = MemorySizes::of(if next > sizes.limit { next } else { sizes.limit * 2.0 });
    }
    if let Some(tally) = tally {
        tally.nanos += nanos;
        tally.predictions += 1;
        if let Some(promise) = first.promise {
            tally.check(promise, done);
        }
        let build = ScoredBuild {
            peak: done.peak,
            wall_ms: done.wall_ms,
            held: sizes.request.max(done.peak),
            lost,
            failures,
        };
        tally.all_builds.add(build);
        match tally.packages.get_mut(&ask.key.package) {
            Some(cost) => cost.add(build),
            None => {
                tally.packages.entry(ask.key.package.clone()).or_default().add(build);
            }
        }
    }
    failures
}
