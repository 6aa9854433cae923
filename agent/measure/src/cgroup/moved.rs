//! Measures processes of the build that moved to cgroups outside of the group that was created for the build.
//!
//! mock builds in `systemd-nspawn`, which puts its container into `machine.slice/machine-ID.scope`; `systemd-run --scope` and container
//! tools do the same. The counters of such a group are added to those of the build if all processes in it descend from the agent. Otherwise
//! other programs use the group too, and a notice says that this part of the build is not measured.
//!
//! | group | from when its counters count |
//! |---|---|
//! | a scope of systemd (`*.scope`), with all groups below it | from its creation: systemd creates it for the processes that move there |
//! | any other group | from the reading that finds it |
//!
//! The last counters of a group still count after it is removed. A group that is created and removed between two searches is missed.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use super::{
    find::{Cgroup, Cgroups, find},
    folder::members,
    limits::CgroupLimits,
    own::PREFIX,
    reader::CgroupReader,
};
use crate::{
    clock::thread_cpu_time,
    kernel::{self, Kernel},
    proctree,
    reading::{MemorySize, Reading},
};

/// Processes that moved are searched once in this many readings. A search reads the state of every process of the machine, about 8 us
/// each. If a search takes more milliseconds of CPU time than this number, the next one follows after that many readings: 0.1 % of a
/// core, with one reading a second.
const READINGS_PER_LOOK: u32 = 3;
/// Most groups that are looked up in one build. mock enters its container some 40 times.
const MAX_LOOKED_UP: usize = 1000;

/// The groups outside of the build's own group in which processes of the build run.
#[derive(Debug)]
pub struct MovedGroups {
    kernel: Kernel,
    /// Process id of the agent, from which all processes of the build descend.
    top: i32,
    home: Cgroups,
    /// Texts of `/proc/PID/cgroup` whose groups were looked up already.
    known: HashSet<String>,
    running: Vec<MovedGroup>,
    /// Sums of the last counters of groups that were removed.
    ended: Reading,
    /// Highest memory that was read of all groups together, bytes.
    peak: u64,
    /// Number of readings before the next search for processes that moved.
    until_look: u32,
    notice: Option<String>,
    /// Processes that the last look found in the root group for the first time. v1 shows a process there while it ends.
    in_root: Vec<i32>,
}

#[derive(Debug)]
struct MovedGroup {
    dir: PathBuf,
    reader: CgroupReader,
    /// Counters from before the build's processes moved to the group; 0 for a scope, which is new.
    before: Reading,
    last: Reading,
}

impl MovedGroups {
    /// Follows the descendants of this process out of the groups `home`.
    pub fn of_this_process(kernel: &Kernel, home: &Cgroups) -> Self {
        Self {
            kernel: kernel.clone(),
            top: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            home: home.clone(),
            known: HashSet::new(),
            running: Vec::new(),
            ended: Reading::default(),
            peak: 0,
            until_look: 0,
            notice: None,
            in_root: Vec::new(),
        }
    }

    /// Adds the numbers of these groups to a reading of the build's own group.
    pub fn add_to(&mut self, reading: &mut Reading) {
        if self.until_look == 0 {
            let before = thread_cpu_time();
            self.look();
            let cost_ms = thread_cpu_time().saturating_sub(before).as_millis();
            self.until_look = READINGS_PER_LOOK.max(u32::try_from(cost_ms).unwrap_or(u32::MAX));
        }
        self.until_look -= 1;
        let count = self.running.len();
        let ended = &mut self.ended;
        self.running.retain_mut(|group| match group.reader.read() {
            Ok(now) => {
                group.last = since(now, &group.before);
                true
            }
            Err(_removed) => {
                add_counters(ended, &group.last);
                false
            }
        });
        if self.running.len() < count {
            // another group may be created under the name of the removed one
            self.known.clear();
        }
        if self.running.is_empty() && self.ended == Reading::default() {
            return;
        }
        for group in &self.running {
            add_counters(reading, &group.last);
            reading.memory = reading.memory.saturating_add(group.last.memory);
            reading.need = reading.need.saturating_add(group.last.need);
            reading.sees_all_limits &= group.last.sees_all_limits;
            let is_new = group.before == Reading::default();
            self.peak = self.peak.max(group.last.memory_peak.filter(|_| is_new).unwrap_or(0));
        }
        add_counters(reading, &self.ended);
        self.peak = self.peak.max(reading.memory).max(reading.memory_peak.unwrap_or(0));
        reading.memory_peak = reading.memory_peak.map(|_own| self.peak);
    }

    /// Adds the memory of these groups to that of the build's own group.
    pub fn add_size_to(&mut self, size: &mut MemorySize) {
        // a group that was removed is skipped here; the next reading of all counters removes it from the list
        for more in self.running.iter_mut().filter_map(|group| group.reader.read_size().ok()) {
            size.memory = size.memory.saturating_add(more.memory);
            size.need = size.need.saturating_add(more.need);
        }
        self.peak = self.peak.max(if self.running.is_empty() { 0 } else { size.memory });
    }

    /// A text for the job's log if a part of the build is not measured.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Looks for processes of the build in groups that are not known yet.
    fn look(&mut self) {
        let before = std::mem::take(&mut self.in_root);
        for pid in proctree::below(&self.kernel.path("/proc"), self.top) {
            let text = kernel::read(&self.kernel.path(format!("/proc/{pid}/cgroup"))).ok().flatten();
            let Some(text) = text.filter(|_| self.known.len() < MAX_LOOKED_UP) else { continue };
            if self.known.contains(&text) {
                continue;
            }
            // a process that has ended meanwhile has no groups
            let groups = find(&self.kernel, &pid.to_string()).ok().flatten();
            let is_in_root = groups.as_ref().is_some_and(|groups| groups.memory.is_root());
            if is_in_root && !before.contains(&pid) {
                self.in_root.push(pid);
                continue;
            }
            if let Some(groups) = groups {
                self.take_in(&groups);
            }
            self.known.insert(text);
        }
    }

    fn take_in(&mut self, groups: &Cgroups) {
        // processes in a group of another run were left behind by an earlier attempt, and are not of this build
        let is_of_run = |dir: &Path| {
            let names = dir.strip_prefix(&groups.memory.mount).into_iter().flat_map(Path::components);
            names.filter_map(|part| part.as_os_str().to_str()).any(|name| name.starts_with(PREFIX))
        };
        if groups.memory.dir.starts_with(&self.home.memory.dir) || is_of_run(&groups.memory.dir) {
            return;
        }
        let memory = self.whole_scope(&groups.memory);
        if self.running.iter().any(|known| memory.dir.starts_with(&known.dir)) {
            return;
        }
        if !self.is_of_build_alone(&memory) {
            self.note(&memory, "other processes use it too");
            return;
        }
        // on v1, CPU time is counted in a hierarchy of its own, where the process may still be in the build's own group
        let is_elsewhere = |cpu: &Cgroup| {
            let own = self.home.cpu.as_ref().is_some_and(|home| cpu.dir.starts_with(&home.dir));
            !own && self.is_of_build_alone(cpu)
        };
        let cpu = groups.cpu.as_ref().map(|cpu| self.whole_scope(cpu)).filter(is_elsewhere);
        let is_scope = is_scope(&memory.dir);
        let groups = Cgroups { memory, cpu, quota: groups.quota.clone() };
        let opened = CgroupReader::open(&groups, &CgroupLimits::read(&groups));
        let Ok(Some(mut reader)) = opened else {
            self.note(&groups.memory, "it cannot be read");
            return;
        };
        let Ok(first) = reader.read() else { return };
        let before = if is_scope { Reading::default() } else { first };
        tracing::debug!(group = %groups.memory.dir.display(), "part of the build moved to another cgroup");
        // the kernel adds groups below to this one
        self.running.retain(|known| !known.dir.starts_with(&groups.memory.dir));
        let (dir, last) = (groups.memory.dir, since(first, &before));
        self.running.push(MovedGroup { dir, reader, before, last });
    }

    /// The scope of systemd that contains `group`, unless it also contains the build's own group; otherwise `group` itself.
    fn whole_scope(&self, group: &Cgroup) -> Cgroup {
        let homes = [Some(&self.home.memory), self.home.cpu.as_ref()];
        let has_home = |dir: &Path| homes.into_iter().flatten().any(|home| home.dir.starts_with(dir));
        let scope = group.and_ancestors().find(|dir| is_scope(dir)).filter(|dir| !has_home(dir));
        Cgroup { dir: scope.map_or_else(|| group.dir.clone(), Path::to_path_buf), ..group.clone() }
    }

    fn is_of_build_alone(&self, group: &Cgroup) -> bool {
        let proc = self.kernel.path("/proc");
        !group.is_root()
            && members(&group.dir).into_iter().all(|pid| proctree::is_below_or_ended(&proc, pid, self.top))
    }

    fn note(&mut self, group: &Cgroup, why: &str) {
        let path = Path::new("/").join(group.dir.strip_prefix(&group.mount).unwrap_or(&group.dir));
        self.notice.get_or_insert_with(|| {
            format!(
                "part of the build runs in the cgroup {}, and {why}: its memory and CPU time are not measured",
                path.display()
            )
        });
    }
}

fn is_scope(dir: &Path) -> bool {
    dir.extension().is_some_and(|end| end == "scope")
}

/// The reading `now` with counters that count from `before` on; its sizes are unchanged.
fn since(now: Reading, before: &Reading) -> Reading {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    Reading {
        cpu_usec: now.cpu_usec.saturating_sub(before.cpu_usec),
        oom_kill: less(now.oom_kill, before.oom_kill),
        oom_group_kill: less(now.oom_group_kill, before.oom_group_kill),
        reclaim_failures: less(now.reclaim_failures, before.reclaim_failures),
        limit_hits: less(now.limit_hits, before.limit_hits),
        limit_hits_above: less(now.limit_hits_above, before.limit_hits_above),
        ..now
    }
}

/// Adds the counters of `more` to `sum`, except those of pages, pressure and throttling, which are reported for the build's own group only.
fn add_counters(sum: &mut Reading, more: &Reading) {
    let add = |sum: &mut Option<u64>, more: Option<u64>| {
        if let Some(more) = more.filter(|more| *more > 0) {
            *sum = Some(sum.unwrap_or(0).saturating_add(more));
        }
    };
    sum.cpu_usec = sum.cpu_usec.saturating_add(more.cpu_usec);
    add(&mut sum.oom_kill, more.oom_kill);
    add(&mut sum.oom_group_kill, more.oom_group_kill);
    add(&mut sum.reclaim_failures, more.reclaim_failures);
    add(&mut sum.limit_hits, more.limit_hits);
    add(&mut sum.limit_hits_above, more.limit_hits_above);
}

#[cfg(test)]
mod tests;
