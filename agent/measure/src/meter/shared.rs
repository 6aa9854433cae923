//! Watches a cgroup that the build does not have for itself. Other processes may come into it, or grow, at any time: a second run in the same
//! container, a server in the background. From then on, the group's numbers are an upper bound, and so are those of the build's own
//! processes; the smaller one is reported, and kills and failed charges are not, because they may be of the others.

use std::{collections::BTreeSet, path::PathBuf};

use crate::{
    cgroup::folder::members,
    clock::thread_cpu_time,
    kernel::Kernel,
    proctree::{self, OTHER_PROCESSES_BYTES, ProcessTree},
    reading::{MemorySize, Reading},
};

/// Readings between two looks at the processes of the group. As for processes that moved, a look costs some 8 us for each process that
/// `/proc` shows, and after a long one follows a longer pause: at most 0.1 % of a core at one reading a second.
const READINGS_PER_LOOK: u32 = 3;
/// A text for the job's log when other processes are found.
const NOTICE: &str = "other processes run in the cgroup of the build: from now on, memory and CPU time are those of its own processes";

/// A cgroup that others may use too.
#[derive(Debug)]
pub(super) struct SharedGroup {
    kernel: Kernel,
    folder: PathBuf,
    /// The build's own processes.
    tree: ProcessTree,
    /// CPU time of the group and of the build's processes at the first reading, microseconds.
    first_cpu: Option<(u64, u64)>,
    /// Highest need at a look that found no others, bytes.
    checked_need: u64,
    until_look: u32,
    /// Whether the last look found others. The next one decides, as the first one does: at a memory limit the agent cannot read each
    /// process of the build.
    is_suspected: bool,
    is_shared: bool,
}

impl SharedGroup {
    pub(super) fn new(kernel: &Kernel, folder: PathBuf, tree: ProcessTree) -> Self {
        Self {
            kernel: kernel.clone(),
            folder,
            tree,
            first_cpu: None,
            checked_need: 0,
            until_look: 0,
            is_suspected: true,
            is_shared: false,
        }
    }

    /// A text for the job's log if other processes were found.
    pub(super) fn notice(&self) -> Option<&'static str> {
        self.is_shared.then_some(NOTICE)
    }

    /// Ids of the build's processes at the last reading, if others use the group too.
    pub(super) fn build_if_shared(&self) -> Option<Vec<i32>> {
        self.is_shared.then(|| self.tree.pids().to_vec())
    }

    /// Makes the next reading look at the processes, and decide.
    pub(super) fn look_next(&mut self) {
        self.until_look = 0;
        self.is_suspected = true;
    }

    /// Replaces numbers of the group by those of the build's own processes, if others use the group.
    pub(super) fn restrict(&mut self, reading: &mut Reading) {
        if self.first_cpu.is_none() {
            self.first_cpu = self.tree.read().ok().map(|own| (reading.cpu_usec, own.cpu_usec));
        }
        self.until_look = self.until_look.saturating_sub(1);
        self.look(reading.need, self.until_look == 0);
        if !(self.is_shared || self.is_suspected) {
            return;
        }
        let Ok(own) = self.tree.read() else { return };
        if !self.is_shared {
            (reading.memory, reading.need) = (reading.memory.min(own.memory), reading.need.min(own.need));
            return;
        }
        let (group, before) = self.first_cpu.unwrap_or((reading.cpu_usec, own.cpu_usec));
        *reading = Reading {
            memory: reading.memory.min(own.memory),
            need: reading.need.min(own.need),
            cpu_usec: reading.cpu_usec.min(group.saturating_add(own.cpu_usec.saturating_sub(before))),
            throttled_usec: reading.throttled_usec,
            ..Reading::default()
        };
    }

    /// [`Self::restrict`] for the memory alone.
    pub(super) fn restrict_size(&mut self, size: &mut MemorySize) {
        self.look(size.need, false);
        if (self.is_shared || self.is_suspected)
            && let Ok(own) = self.tree.read()
        {
            *size = MemorySize { memory: size.memory.min(own.memory), need: size.need.min(own.need) };
        }
    }

    /// Looks for other processes if it is time, or if the need has grown by as much as others may have, or by an eighth.
    fn look(&mut self, need: u64, is_due: bool) {
        // steps of an eighth: however long a look takes, a build of any size causes some tens of them
        let step = OTHER_PROCESSES_BYTES.max(self.checked_need / 8);
        let has_grown = need > self.checked_need.saturating_add(step);
        if self.is_shared || !(is_due || has_grown) {
            return;
        }
        let before = thread_cpu_time();
        let has_others = self.others().is_none_or(|bytes| bytes > OTHER_PROCESSES_BYTES);
        self.is_shared = has_others && self.is_suspected;
        self.is_suspected = has_others;
        let cost_ms = thread_cpu_time().saturating_sub(before).as_millis();
        self.until_look = 1;
        if !has_others {
            self.checked_need = self.checked_need.max(need);
            self.until_look = READINGS_PER_LOOK.max(u32::try_from(cost_ms).unwrap_or(u32::MAX));
        }
    }

    /// Bytes of the processes in the group that are neither the agent nor of the build; `None` if one of them is hidden.
    fn others(&mut self) -> Option<u64> {
        // a machine that is short of memory or open files for a moment says nothing of others
        let Ok(build) = self.tree.find() else { return Some(0) };
        let build: BTreeSet<i32> = build.into_iter().collect();
        let (proc, top) = (self.kernel.path("/proc"), self.tree.root());
        let own = std::process::id().cast_signed();
        let members = members(&self.folder).into_iter().filter(|pid| *pid != own && !build.contains(pid));
        // a process that started after the tree was read has its parents in the tree
        let others = members.filter(|&pid| !proctree::is_below_or_ended(&proc, pid, top, &build));
        proctree::sum_resident(&self.kernel, others)
    }
}
