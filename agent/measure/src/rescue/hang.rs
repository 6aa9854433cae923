//! Whether a build hangs: it is starved at its memory limit, nothing is killed, and nothing goes on.

use std::time::Duration;

use crate::processes::{ProcessId, ProcessTable};

/// How long a build must be starved without progress. A kernel that can help does so within seconds; a job's time-out is an hour away.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(20);
/// CPU time outside the kernel that a working build uses at least, percent of one core. Starved compiles use it only for the kernel's search
/// for memory.
const WORKS_PERCENT: u128 = 5;
/// Longest time between two looks: in a longer one the build, or the agent, was stopped.
const LONGEST_GAP: Duration = Duration::from_secs(10);

/// Detects that a build hangs.
#[derive(Debug, Default)]
pub(crate) struct Hang {
    since: Option<Beginning>,
}

/// The build when it began to be starved.
#[derive(Debug)]
struct Beginning {
    at: Duration,
    /// When it was seen last.
    last: Duration,
    processes: Vec<ProcessId>,
    user_ticks: u64,
}

impl Hang {
    /// Adds the processes at `now`, when the build looks starved; returns whether it hangs. A build that no longer looks starved begins anew.
    pub(crate) fn add(&mut self, now: Duration, table: &ProcessTable) -> bool {
        if table.is_partial || table.processes.is_empty() {
            self.since = None;
            return false;
        }
        let processes: Vec<ProcessId> = table.processes.values().map(|process| process.id).collect();
        let user_ticks = table.processes.values().map(|process| process.user_ticks);
        let user_ticks = user_ticks.fold(0, u64::saturating_add);
        let ticks_per_second = u128::from(procfs::ticks_per_second().max(1));
        let Some(since) = self.since.as_mut().filter(|since| {
            let elapsed_ms = now.saturating_sub(since.at).as_millis();
            let used = u128::from(user_ticks.saturating_sub(since.user_ticks));
            // both sides in thousandths of a tick's hundredth
            let works = used * 100_000 > WORKS_PERCENT * ticks_per_second * elapsed_ms.max(2_000);
            let is_seen = now.saturating_sub(since.last) <= LONGEST_GAP;
            is_seen && since.processes == processes && !works
        }) else {
            self.since = Some(Beginning { at: now, last: now, processes, user_ticks });
            return false;
        };
        since.last = now;
        now.saturating_sub(since.at) >= HANGS_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::{ProcessView, tests::process};

    fn table(user_ticks: u64, pids: &[i32]) -> ProcessTable {
        let of = |pid: &i32| ProcessView { user_ticks, ..process(*pid, 1, "cc1plus", 100) };
        ProcessTable::of("/proc".into(), pids.iter().map(of), false)
    }

    /// The second in which a build is found to hang, if it is found within two minutes.
    fn found(at: impl Fn(u64) -> (bool, ProcessTable)) -> Option<u64> {
        let mut hang = Hang::default();
        (0..120).find(|second| {
            let (is_starved, table) = at(*second);
            if !is_starved {
                hang = Hang::default();
            }
            is_starved && hang.add(Duration::from_secs(*second), &table)
        })
    }

    #[test]
    fn starved_builds_without_progress_hang() {
        assert_eq!(found(|_| (true, table(7, &[2, 3]))), Some(20));
        assert_eq!(found(|second| (second > 30, table(7, &[2]))), Some(51));
        assert_eq!(found(|second| (true, table(second * 2, &[2]))), Some(20), "2 % of a core");
    }

    #[test]
    fn builds_that_go_on_do_not_hang() {
        assert_eq!(found(|_| (false, table(7, &[2]))), None);
        assert_eq!(found(|second| (second % 15 != 0, table(7, &[2]))), None, "they recover");
        assert_eq!(found(|second| (true, table(second * 20, &[2]))), None, "they compute");
        assert_eq!(found(|second| (true, table(7, &[2, 3 + i32::try_from(second / 10).unwrap()]))), None);
        assert_eq!(found(|_| (true, table(7, &[]))), None, "they are not visible");
        assert_eq!(found(|_| (true, ProcessTable { is_partial: true, ..table(7, &[2]) })), None);
    }
}
