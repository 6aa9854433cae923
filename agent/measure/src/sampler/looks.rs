//! Looks at the processes of the build: once a second for the largest one, and up to ten times a second near a memory limit if rescue is on.

use std::{collections::HashSet, time::Duration};

use plimsoll_proto::{
    figures, limits,
    v1::{ActsNow, LargestProcess, Rescue},
};
use tokio::time::Instant;

use super::{Sampler, notices::OneTimeNotice};
use crate::{
    clock::{milliseconds, thread_cpu_time},
    meter::Meter,
    processes::{
        ProcessId, ProcessTable, ProcessView, anonymous, largest::LargestSoFar, stoppable::may_be_stopped,
    },
    rescue::{
        RescueSettings, Unit,
        hang::{HANGS_AFTER, Hang},
        pausable_units,
        pause::{Moment, PauseActs, PauseRule, growth_ahead},
    },
};

/// Time between two looks if nothing else asks for one.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks near a memory limit.
const NEAR_INTERVAL: Duration = Duration::from_millis(95);
/// After a look the agent pauses for this many times the CPU time that it took: 0.1 % of a core.
const REST: u32 = 999;
/// The same near a memory limit: 2 % of a core.
const NEAR_REST: u32 = 49;
/// Need from which a look reads no command line, percent of the limit.
const TIGHT_PERCENT: u128 = 85;
/// Most by which a reading counts as late.
const MOST_LATE: Duration = Duration::from_secs(1);

/// What rescue wants to be done with the build's processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RescueActs {
    /// What to stop and to continue.
    pub pause: PauseActs,
    /// The build hangs at its memory limit and should be ended.
    pub end: bool,
}

/// What the meter read last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Near {
    pub(super) now: Duration,
    pub(super) need: u64,
    /// Smallest limit at which the kernel kills, bytes.
    pub(super) limit: Option<u64>,
}

/// The looks at the processes of one build.
#[derive(Debug, Default)]
pub(super) struct ProcessLooks {
    settings: RescueSettings,
    /// When the last need was read, and that need, bytes.
    read: Option<(Duration, u64)>,
    /// Longest time between two of the last few readings.
    late: Duration,
    last: Option<Duration>,
    /// Whether something may have to be paused or continued soon.
    is_near: bool,
    /// CPU time of the last look.
    cost: Duration,
    largest: LargestSoFar,
    pause: PauseRule,
    hang: Hang,
    /// Processes that were found to be no compiler, of another user, or traced.
    excluded: HashSet<ProcessId>,
    report: Rescue,
    acts: RescueActs,
    hang_notice: OneTimeNotice,
    refusal_notice: OneTimeNotice,
    watch_notice: OneTimeNotice,
}

impl ProcessLooks {
    /// Looks at a build for which rescue may do what `settings` allow.
    pub(super) fn new(settings: RescueSettings) -> Self {
        Self { pause: PauseRule::new(settings.most), settings, ..Self::default() }
    }

    /// Whether no reading may be left out, because something may have to be paused or continued soon.
    pub(super) fn needs_readings(&self) -> bool {
        self.is_near
    }

    /// Looks at the processes if it is time to. `is_starved`: set if all counters were just read.
    pub(super) fn look(&mut self, meter: &Meter, near: Near, is_starved: Option<bool>) {
        let grown = self.growth_ahead(near);
        let decides = meter.group_seen().is_ok() && self.decides_pauses();
        if !decides && self.pause.paused().next().is_some() {
            let acts = self.pause.give_up("others began to use the build's cgroup");
            self.note_acts(near.now, acts);
        }
        let is_near = decides && self.pause.needs_look(near.need, grown, near.limit);
        self.is_near = is_near;
        if is_starved == Some(false) {
            self.hang = Hang::default();
        }
        let is_urgent = is_near || is_starved == Some(true);
        if !self.is_due(near.now, is_urgent) {
            return;
        }
        let before = thread_cpu_time();
        let (proc, pids) = meter.processes();
        let table = ProcessTable::read(proc, &pids);
        let is_tight =
            near.limit.is_some_and(|limit| u128::from(near.need) * 100 >= u128::from(limit) * TIGHT_PERCENT);
        self.largest.add(near.now, &table, is_tight);
        if decides {
            self.decide(near, grown, &table);
        }
        if is_starved == Some(true) && self.hang.add(near.now, &table) {
            self.name_hang();
        }
        self.cost = thread_cpu_time().saturating_sub(before);
        self.last = Some(near.now);
    }

    /// Adds a reading. Returns the growth that is expected until the next one.
    fn growth_ahead(&mut self, near: Near) -> u64 {
        let (read, need) = self.read.replace((near.now, near.need)).unwrap_or((near.now, near.need));
        let passed = near.now.saturating_sub(read);
        // a late reading counts less with each that follows; in a longer time the agent itself did not run
        self.late = passed.min(MOST_LATE).max(self.late * 3 / 4);
        growth_ahead(near.need.saturating_sub(need), passed, self.late, near.need)
    }

    fn is_due(&self, now: Duration, is_urgent: bool) -> bool {
        let (interval, rest) = if is_urgent { (NEAR_INTERVAL, NEAR_REST) } else { (INTERVAL, REST) };
        let passed = self.last.map_or(Duration::MAX, |last| now.saturating_sub(last));
        passed >= interval.max(self.cost.saturating_mul(rest))
    }

    /// Whether compilers are paused, or would be. After the one report of a watching agent, only an agent that pauses goes on.
    fn decides_pauses(&self) -> bool {
        self.settings.pause || self.settings.watches() && self.report.would_pause_ms.is_none()
    }

    fn decide(&mut self, near: Near, grown: u64, table: &ProcessTable) {
        if table.is_partial {
            let acts = self.pause.give_up("the build has too many processes");
            self.note_acts(near.now, acts);
            return;
        }
        self.excluded.retain(|id| table.processes.get(&id.pid).is_some_and(|process| process.id == *id));
        let bytes = |process: &ProcessView| anonymous(&table.proc, process.id.pid).unwrap_or(0);
        let mut units = pausable_units(table, |name| is_one_of(&self.settings.programs, name), bytes);
        units.retain(|unit| !unit.members.iter().any(|id| self.excluded.contains(id)));
        let moment = Moment {
            now: near.now,
            need: near.need,
            grown,
            limit: near.limit,
            remaining: self.settings.ends_at.map(|end| end.saturating_duration_since(Instant::now())),
            ticks_per_second: procfs::ticks_per_second().max(1),
        };
        let Self { settings, excluded, refusal_notice, .. } = self;
        let may_stop = |unit: &Unit| {
            let may = unit.members.iter().all(|id| may_be_stopped(table, *id, &settings.programs));
            if !may {
                excluded.extend(&unit.members);
            }
            if !may && settings.pause {
                refusal_notice.put_notice(|| refusal_text(unit.id.pid));
            }
            may
        };
        let acts = self.pause.decide(&moment, &units, may_stop);
        self.note_acts(near.now, acts);
    }

    fn note_acts(&mut self, now: Duration, acts: PauseActs) {
        if self.settings.pause {
            self.acts.pause.stop.extend(acts.stop);
            self.acts.pause.go.extend(acts.go);
        } else if !acts.stop.is_empty() {
            let count = u32::try_from(acts.stop.len()).unwrap_or(u32::MAX);
            self.report.would_pause_ms = Some(milliseconds(now));
            self.report.would_pause_processes = count;
            let processes = figures::counted_as(count.into(), "process", "processes");
            self.watch_notice.put_notice(|| {
                format!("the build is near its memory limit: --rescue pause would have paused {processes} of it now")
            });
        }
    }

    fn name_hang(&mut self) {
        let seconds = HANGS_AFTER.as_secs();
        let how = if self.settings.end { "" } else { "; --rescue end would end it" };
        let is_first = self.hang_notice.put_notice(|| {
            format!("the build hangs at its memory limit: for {seconds} s it got nothing done, and the kernel kills nothing{how}")
        });
        self.acts.end |= is_first && self.settings.end;
    }

    /// Keeps the problem for which the limit is raised no more.
    pub(super) fn note_raising_ended(&mut self, problem: &str) {
        let mut reason = format!("the memory limit is raised no more: {problem}");
        reason.truncate(reason.floor_char_boundary(limits::GAVE_UP_BYTES));
        self.report.gave_up = reason;
    }

    /// What pausing has done so far.
    pub(super) fn pauses_so_far(&self) -> ActsNow {
        let Rescue { pauses, paused_ms, .. } = *self.pause.totals();
        if !self.settings.pause || pauses == 0 {
            return ActsNow::default();
        }
        let paused = u32::try_from(self.pause.paused().count()).unwrap_or(u32::MAX);
        ActsNow { paused, pauses, paused_ms, ..ActsNow::default() }
    }

    /// A line for the job's log.
    pub(super) fn take_notice(&mut self) -> Option<String> {
        let notices = [&mut self.refusal_notice, &mut self.watch_notice, &mut self.hang_notice];
        notices.into_iter().find_map(OneTimeNotice::take_line)
    }

    /// The largest process, the most compilers at once, and what rescue did, if it did anything; `raises`: how often the limit was raised, and
    /// `raised_byte_seconds`: how much more memory that allowed.
    pub(super) fn finish(
        self,
        raises: u32,
        raised_byte_seconds: u64,
    ) -> (Option<LargestProcess>, Option<u32>, Option<Rescue>) {
        let Rescue { would_pause_ms, would_pause_processes, ended_ms, gave_up, .. } = self.report;
        // an agent that only watches has not done what the rule decided
        let done = self.pause.totals().clone();
        let done = if self.settings.pause { done } else { Rescue::default() };
        let gave_up = if done.gave_up.is_empty() || done.pauses == 0 { gave_up } else { done.gave_up };
        let report = Rescue {
            would_pause_ms,
            would_pause_processes,
            raises,
            raised_byte_seconds,
            ended_ms,
            gave_up,
            ..done
        };
        let (largest, compilers) = self.largest.finish();
        (largest, compilers, (report != Rescue::default()).then_some(report))
    }
}

impl Sampler {
    /// What rescue wants to be done with the build's processes since the last call.
    pub fn take_rescue_acts(&mut self) -> RescueActs {
        std::mem::take(&mut self.looks.acts)
    }

    /// Keeps that rescue has asked the build to end, because it hangs.
    pub fn note_ended(&mut self) {
        let now = milliseconds(self.start.elapsed());
        self.looks.report.ended_ms.get_or_insert(now);
    }

    /// Forgets a process that could not be paused. Returns what was paused with it, to be continued.
    pub fn not_paused(&mut self, id: ProcessId) -> Vec<ProcessId> {
        let members = self.looks.pause.not_stopped(id);
        self.looks.excluded.extend(&members);
        members.into_iter().filter(|member| *member != id).collect()
    }

    /// Pauses nothing, and only reports when something would have been paused.
    pub fn watch_only(&mut self) {
        (self.looks.settings.pause, self.looks.settings.watch) = (false, true);
    }

    /// Forgets what rescue has paused, because its caller continues everything. With a reason, in words for a log, nothing is paused any more.
    pub fn release_paused(&mut self, for_good: Option<&'static str>) {
        self.looks.acts.pause = PauseActs::default();
        let _released = match for_good {
            Some(why) => self.looks.pause.give_up(why),
            None => self.looks.pause.let_go(self.start.elapsed()),
        };
    }
}

/// Whether a name is one of these programs'; the kernel keeps 15 bytes of it.
fn is_one_of(programs: &[String], name: &str) -> bool {
    programs.iter().any(|program| program == name || name.len() == 15 && program.starts_with(name))
}

fn refusal_text(pid: i32) -> String {
    format!(
        "rescue may not pause process {pid}: it is of another user, traced, watched, or no compiler by its file"
    )
}
