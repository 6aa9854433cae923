//! Decides which compilers to pause so that those that go on have room, and when the paused ones go on.
//!
//! The rule was found by measuring real compilers, read ten times a second. If the need and what the running ones may add in a moment reach
//! [`STOP_PERCENT`] of the limit, all but the oldest are paused. The oldest paused one goes on when there is room for it and for what the
//! running ones still lack of the size that is expected of each ([`Sizes`]), or when nothing else runs. While one is paused, nothing younger
//! starts. As long as the need stays within what was expected then, only its growth leads to a new pause; else the two rules would undo each
//! other at each look.
//!
//! Bounds keep a build from ending worse than without a pause: one never waits for ever, the waiting takes a small part of the build's
//! time, and where the running ones do not work, all go on.

use std::{collections::BTreeMap, time::Duration};

use plimsoll_proto::v1::Rescue;

use super::Unit;
use crate::{clock::milliseconds, processes::ProcessId};

/// Expected need from which processes are paused, percent of the limit.
const STOP_PERCENT: u64 = 95;
/// Expected need up to which a paused process goes on, percent of the limit.
const GO_PERCENT: u64 = 90;
/// The running ones may add as much as this many times the largest of them, or what was added between the last two looks.
const MAY_ADD: u64 = 2;
/// Longest time in which something was paused: the larger of this and of [`ALL_PERCENT`] of the build's time.
const ALL_TIME: Duration = Duration::from_mins(15);
const ALL_PERCENT: u32 = 20;
/// A pause takes at most this part of the time that the job has left.
const PART_OF_REMAINING: u32 = 4;
/// With less time left than this, nothing is paused.
const MIN_REMAINING: Duration = Duration::from_mins(1);
/// Period in which the running ones must use [`WORKS_PERCENT`] of a core. If they do not, they may wait for a paused one.
const PROGRESS_PERIOD: Duration = Duration::from_secs(2);
/// Silence of the agent after which its guardian continues everything.
const STUCK: Duration = Duration::from_secs(5);
const WORKS_PERCENT: u128 = 5;
/// Shortest time between two readings from which growth is expected to go on: in a shorter one, a single allocation looks like a fast growth.
const SHORTEST_MS: u128 = 50;
/// How often the running ones may be found idle before nothing is paused any more.
const MAX_IDLE: u32 = 3;

/// The build at one look.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Time since the build started.
    pub now: Duration,
    /// Need of the build, bytes.
    pub need: u64,
    /// By how much the need may grow until the next reading, as [`growth_ahead`] expects it, bytes.
    pub grown: u64,
    /// Smallest memory limit at which the kernel kills, bytes.
    pub limit: Option<u64>,
    /// Time until the CI system ends the job, if that is known.
    pub remaining: Option<Duration>,
    /// Clock ticks in one second of CPU time.
    pub ticks_per_second: u64,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PauseActs {
    /// Processes to stop, youngest unit first.
    pub stop: Vec<ProcessId>,
    /// Processes to continue.
    pub go: Vec<ProcessId>,
}

/// A paused unit.
#[derive(Debug, Clone)]
struct Paused {
    since: Duration,
    members: Vec<ProcessId>,
}

/// The state of pausing one build.
#[derive(Debug, Default)]
pub struct PauseRule {
    /// Longest pause of one process.
    most: Duration,
    paused: BTreeMap<ProcessId, Paused>,
    last: Option<Duration>,
    sizes: Sizes,
    /// The need that was expected when a unit went on, and the youngest unit then.
    forecast: Option<(u64, ProcessId)>,
    progress: Progress,
    /// How often the running ones were found idle.
    idle_periods: u32,
    /// No pause begins before this time.
    not_before: Duration,
    totals: Rescue,
}

impl PauseRule {
    /// Pauses one process for at most `most`.
    pub fn new(most: Duration) -> Self {
        Self { most, ..Self::default() }
    }

    /// Whether a look may lead to an act: something is paused, or even the whole need in one process could reach the limit.
    pub fn needs_look(&self, need: u64, grown: u64, limit: Option<u64>) -> bool {
        !self.paused.is_empty()
            || self.totals.gave_up.is_empty()
                && limit.is_some_and(|limit| is_over(need, need.max(grown), limit))
    }

    /// The processes that are paused now.
    pub fn paused(&self) -> impl Iterator<Item = ProcessId> {
        self.paused.values().flat_map(|paused| paused.members.iter().copied())
    }

    /// What was done so far: pauses, their times, the sizes together, and why nothing is paused any more.
    pub fn totals(&self) -> &Rescue {
        &self.totals
    }

    /// Lets everything go on, and pauses nothing any more. `why`: in words for a log.
    pub fn give_up(&mut self, why: &'static str) -> PauseActs {
        if self.totals.gave_up.is_empty() {
            why.clone_into(&mut self.totals.gave_up);
        }
        self.go_on()
    }

    /// Lets everything go on, and pauses nothing in the next moments.
    pub fn let_go(&mut self, now: Duration) -> PauseActs {
        self.not_before = now + PROGRESS_PERIOD;
        self.go_on()
    }

    /// Forgets the unit of a process that could not be stopped, and returns all processes of the unit.
    pub fn not_stopped(&mut self, member: ProcessId) -> Vec<ProcessId> {
        let unit = self.paused.iter().find(|(_, paused)| paused.members.contains(&member)).map(|(id, _)| *id);
        let Some(paused) = unit.and_then(|id| self.paused.remove(&id)) else { return Vec::new() };
        self.totals.pauses = self.totals.pauses.saturating_sub(1);
        paused.members
    }

    /// Decides what to do. `units`: all that may be paused, oldest first; `may_stop` looks closer at one before it is paused.
    pub fn decide(
        &mut self,
        moment: &Moment,
        units: &[Unit],
        may_stop: impl FnMut(&Unit) -> bool,
    ) -> PauseActs {
        let before = self.last.replace(moment.now).unwrap_or(moment.now);
        if moment.now.saturating_sub(before) > STUCK {
            // the agent itself did not run: its guardian has continued everything
            self.count_time(milliseconds(STUCK));
            return self.let_go(moment.now);
        }
        self.count_time(milliseconds(moment.now).saturating_sub(milliseconds(before)));
        let left = self.take_vanished(units);
        let mut acts = self.decide_present(moment, units, may_stop);
        acts.go.extend(left);
        acts
    }

    /// Takes the processes of paused units that are no units any more: they have ended, or changed what they are, and then must go on.
    fn take_vanished(&mut self, units: &[Unit]) -> Vec<ProcessId> {
        let is_gone = |id: &ProcessId, _: &mut Paused| !units.iter().any(|unit| unit.id == *id);
        self.paused.extract_if(.., is_gone).flat_map(|(_id, paused)| paused.members).collect()
    }

    fn decide_present(
        &mut self,
        moment: &Moment,
        units: &[Unit],
        mut may_stop: impl FnMut(&Unit) -> bool,
    ) -> PauseActs {
        let together = self.sizes.add(moment.need, units, !self.paused.is_empty());
        self.totals.together_peak_bytes = self.totals.together_peak_bytes.max(together);
        if !self.totals.gave_up.is_empty() {
            return self.go_on();
        }
        if let Some(why) = self.bound_reached(moment) {
            return self.give_up(why);
        }
        // a limit that was taken away
        let Some(limit) = moment.limit.filter(|limit| *limit > 0) else { return self.go_on() };
        let runs = |unit: &&Unit| !unit.is_stopped && !self.paused.contains_key(&unit.id);
        let running: Vec<&Unit> = units.iter().filter(runs).collect();
        if !self.paused.is_empty() && self.progress.is_idle(moment, &running) {
            return self.go_on_for_progress(moment.now);
        }
        let go = self.next_to_go(moment.need, limit, &running, units);
        if !go.is_empty() {
            return PauseActs { stop: Vec::new(), go };
        }
        let due = self.due_to_stop(moment, limit, &running);
        PauseActs { stop: self.stop(moment.now, due.into_iter().filter(|unit| may_stop(unit))), go }
    }

    fn count_time(&mut self, passed_ms: u64) {
        if !self.paused.is_empty() {
            let processes = self.paused().count() as u64;
            self.totals.paused_ms += passed_ms;
            self.totals.paused_process_ms += passed_ms.saturating_mul(processes);
        }
    }

    /// The bound that ends all pauses, if one is reached.
    fn bound_reached(&self, moment: &Moment) -> Option<&'static str> {
        if self.paused.is_empty() {
            return None;
        }
        let longest = self.paused.values().map(|paused| moment.now.saturating_sub(paused.since)).max();
        let part = moment.remaining.map_or(Duration::MAX, |remaining| remaining / PART_OF_REMAINING);
        let all = ALL_TIME.max(moment.now * ALL_PERCENT / 100);
        if longest >= Some(self.most) {
            Some("a process was paused for as long as it may be")
        } else if longest >= Some(part) {
            Some("the job's time is nearly over")
        } else if Duration::from_millis(self.totals.paused_ms) >= all {
            Some("all pauses together took as long as they may")
        } else {
            None
        }
    }

    /// Continues the oldest paused unit if there is room for it, or if nothing else runs.
    fn next_to_go(&mut self, need: u64, limit: u64, running: &[&Unit], units: &[Unit]) -> Vec<ProcessId> {
        let Some(id) = self.paused.keys().next().copied() else { return Vec::new() };
        let bytes = units.iter().find(|unit| unit.id == id).map_or(0, |unit| unit.bytes);
        let size = self.sizes.expected();
        let lacks =
            running.iter().map(|unit| unit.bytes).chain([bytes]).map(|bytes| size.saturating_sub(bytes));
        let expected = lacks.fold(need, u64::saturating_add);
        if running.is_empty() || is_at_most(expected, GO_PERCENT, limit) {
            self.forecast = units.iter().map(|unit| unit.id).max().map(|youngest| (expected, youngest));
            self.progress = Progress::default();
            return self.paused.remove(&id).map(|paused| paused.members).unwrap_or_default();
        }
        Vec::new()
    }

    /// All but the oldest if memory is short, else those that are younger than a paused one; youngest first.
    fn due_to_stop<'u>(&self, moment: &Moment, limit: u64, running: &[&'u Unit]) -> Vec<&'u Unit> {
        let may_begin =
            moment.now >= self.not_before && moment.remaining.is_none_or(|left| left >= MIN_REMAINING);
        let Some((_oldest, others)) = running.split_first().filter(|_| may_begin) else { return Vec::new() };
        let largest = running.iter().map(|unit| unit.bytes).max().unwrap_or_default();
        let holds = |(expected, youngest): (u64, ProcessId)| {
            moment.need <= expected && running.iter().all(|unit| unit.id <= youngest)
        };
        let added = if self.forecast.is_some_and(holds) { moment.grown } else { largest.max(moment.grown) };
        let all = is_over(moment.need, added, limit);
        let first = self.paused.keys().next();
        let is_due = |unit: &&&Unit| all || first.is_some_and(|first| unit.id > *first);
        others.iter().rev().filter(is_due).copied().collect()
    }

    fn stop<'u>(&mut self, now: Duration, due: impl Iterator<Item = &'u Unit>) -> Vec<ProcessId> {
        if self.paused.is_empty() {
            self.progress = Progress::default();
        }
        let mut stop = Vec::new();
        for unit in due {
            self.paused.insert(unit.id, Paused { since: now, members: unit.members.clone() });
            self.totals.pauses = self.totals.pauses.saturating_add(1);
            stop.extend(&unit.members);
        }
        stop
    }

    fn go_on_for_progress(&mut self, now: Duration) -> PauseActs {
        self.idle_periods += 1;
        if self.idle_periods >= MAX_IDLE {
            return self.give_up("the running processes waited for the paused ones");
        }
        self.let_go(now)
    }

    fn go_on(&mut self) -> PauseActs {
        let go = self.paused().collect();
        self.paused.clear();
        PauseActs { stop: Vec::new(), go }
    }
}

/// The growth of the need until the next reading, bytes. It was `grown` in the time `passed` between the last two readings; the next one may
/// be as late as one of the last few was: `late`. What was not read counts up to half the need: where memory is 2.5 times the need, a late
/// reading pauses nothing.
pub fn growth_ahead(grown: u64, passed: Duration, late: Duration, need: u64) -> u64 {
    let ahead = u128::from(grown) * late.as_millis() / passed.as_millis().max(SHORTEST_MS);
    grown.max(u64::try_from(ahead).unwrap_or(u64::MAX).min(need / 2))
}

/// Whether the need with what may be added in a moment reaches [`STOP_PERCENT`] of the limit.
fn is_over(need: u64, largest: u64, limit: u64) -> bool {
    !is_at_most(need.saturating_add(largest.saturating_mul(MAY_ADD)).saturating_add(1), STOP_PERCENT, limit)
}

fn is_at_most(bytes: u64, percent: u64, limit: u64) -> bool {
    u128::from(bytes) * 100 <= u128::from(limit) * u128::from(percent)
}

/// The sizes of the build's units.
#[derive(Debug, Default)]
struct Sizes {
    /// The largest size of each unit that runs or is paused, bytes.
    peaks: BTreeMap<ProcessId, u64>,
    /// The largest size of a unit that has ended, bytes.
    ended: u64,
    /// The largest size since then of each unit that was there when the first one was paused, bytes; empty while none is. One that started
    /// later would not have run beside those that have ended since.
    together: BTreeMap<ProcessId, u64>,
    /// Highest need beside the units while something is paused, bytes.
    rest: u64,
}

impl Sizes {
    /// Adds a look. Returns the need of all that would have run together without pauses, so far; 0 if nothing is paused.
    fn add(&mut self, need: u64, units: &[Unit], is_paused: bool) -> u64 {
        for unit in units {
            let peak = self.peaks.entry(unit.id).or_default();
            *peak = (*peak).max(unit.bytes);
        }
        if !is_paused {
            (self.together, self.rest) = (BTreeMap::new(), 0);
        } else if self.together.is_empty() {
            self.together = units.iter().map(|unit| (unit.id, unit.bytes)).collect();
        }
        let ended = &mut self.ended;
        self.peaks.retain(|id, peak| {
            let is_alive = units.iter().any(|unit| unit.id == *id);
            *ended = if is_alive { *ended } else { (*ended).max(*peak) };
            is_alive
        });
        if !is_paused {
            return 0;
        }
        let of_units = units.iter().map(|unit| unit.bytes).fold(0, u64::saturating_add);
        self.rest = self.rest.max(need.saturating_sub(of_units));
        for unit in units {
            self.together.entry(unit.id).and_modify(|peak| *peak = (*peak).max(unit.bytes));
        }
        self.together.values().copied().fold(self.rest, u64::saturating_add)
    }

    /// The size to expect of each unit: that of the largest that has ended; but twice the largest now, if that already is clearly larger.
    fn expected(&self) -> u64 {
        let largest = self.peaks.values().copied().max().unwrap_or(0);
        if largest > self.ended.saturating_add(self.ended / 8) {
            largest.saturating_mul(2)
        } else {
            largest.max(self.ended)
        }
    }
}

/// Whether the running units work.
#[derive(Debug, Default)]
struct Progress {
    since: Option<Duration>,
    ticks: BTreeMap<ProcessId, u64>,
    used: u64,
}

impl Progress {
    /// Adds the CPU time of the running units; true if they used next to none in the last period.
    fn is_idle(&mut self, moment: &Moment, running: &[&Unit]) -> bool {
        for unit in running {
            let before = self.ticks.insert(unit.id, unit.cpu_ticks).unwrap_or(unit.cpu_ticks);
            self.used = self.used.saturating_add(unit.cpu_ticks.saturating_sub(before));
        }
        let since = *self.since.get_or_insert(moment.now);
        let period = moment.now.saturating_sub(since);
        if period < PROGRESS_PERIOD {
            return false;
        }
        let works = u128::from(self.used) * 100_000
            >= WORKS_PERCENT * u128::from(moment.ticks_per_second) * period.as_millis();
        let mut ticks = std::mem::take(&mut self.ticks);
        ticks.retain(|id, _| running.iter().any(|unit| unit.id == *id));
        *self = Self { since: Some(moment.now), ticks, used: 0 };
        !works
    }
}

#[cfg(test)]
mod tests;
