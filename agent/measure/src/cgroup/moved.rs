//! Measures processes of the build that moved to cgroups outside of the group that was created for the build.
//!
//! mock builds in `systemd-nspawn`, which puts its container into `machine.slice/machine-ID.scope`; `systemd-run --scope` and container
//! tools do the same. The counters of such a group are added to those of the build as long as all processes in it are of the build: they
//! descend from the agent, or from a process that did at an earlier search. Otherwise other programs use the group too, and a notice says
//! that this part of the build is not measured.
//!
//! | group | from when its counters count |
//! |---|---|
//! | a scope of systemd (`*.scope`), with all groups below it | from its creation: systemd creates it for the processes that move there |
//! | any other group | from the reading that finds it |
//!
//! Failed charges at limits above such a group are left out of its failures: the build's own reading has those of the groups that both
//! share, and others are not of this build alone. To find the limit at which the kernel killed, they count from the reading that finds the
//! group.
//!
//! The last counters of a group still count after it is removed. A group that is created and removed between two searches is missed.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

use super::{
    find::{Cgroup, Cgroups, find},
    folder::members,
    limits::CgroupLimits,
    own::GROUP_PREFIX,
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
/// Most groups that are measured at the same time. Each holds up to 30 files open, most of them of the groups above it.
const MAX_RUNNING: usize = 32;
const SHARED_GROUP_NOTICE: &str = "other processes use it too";

/// The groups outside of the build's own group in which processes of the build run.
#[derive(Debug)]
pub struct MovedGroups {
    kernel: Kernel,
    /// Process id of the agent, from which all processes of the build descend.
    top: i32,
    /// The running descendants of the agent at the last search, so that the members of a group need not be read one by one.
    descendants: BTreeSet<i32>,
    agent_groups: Cgroups,
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
    groups: Cgroups,
    reader: CgroupReader,
    /// Counters from before the build's processes moved to the group; 0 for a scope, which is new, except for the limits above it.
    before: Reading,
    last: Reading,
    /// Ids of the processes in the group at the last search.
    members: BTreeSet<i32>,
}

impl MovedGroups {
    /// Follows the descendants of this process out of the groups `agent_groups`.
    pub fn of_this_process(kernel: &Kernel, agent_groups: &Cgroups) -> Self {
        Self {
            kernel: kernel.clone(),
            top: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            descendants: BTreeSet::new(),
            agent_groups: agent_groups.clone(),
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
            let is_new = is_scope(&group.groups.memory.dir);
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

    /// Gives up groups that the build left, or that other programs use by now.
    fn look_again(&mut self) {
        for mut group in std::mem::take(&mut self.running) {
            let memory = self.members_of_build(&group.groups.memory, &group.members);
            let cpu = group.groups.cpu.as_ref().map(|cpu| self.members_of_build(cpu, &group.members));
            let members = memory.filter(|_| cpu.is_none_or(|cpu| cpu.is_some()));
            match members {
                Some(members) if !members.is_empty() || is_scope(&group.groups.memory.dir) => {
                    group.members = members;
                    self.running.push(group);
                    continue;
                }
                Some(_left) => {}
                None => self.note(&group.groups.memory, SHARED_GROUP_NOTICE),
            }
            add_counters(&mut self.ended, &group.last);
            self.known.clear();
        }
    }

    /// Looks for processes of the build in groups that are not known yet.
    fn look(&mut self) {
        let descendants = proctree::below(&self.kernel.path("/proc"), self.top);
        self.descendants.clone_from(&descendants);
        self.look_again();
        let before = std::mem::take(&mut self.in_root);
        for pid in descendants {
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
            let Some(groups) = groups else { continue };
            self.take_in(&groups);
            // another group may be created under the name of one that was removed meanwhile
            if groups.memory.dir.is_dir() {
                self.known.insert(text);
            }
        }
    }

    fn take_in(&mut self, groups: &Cgroups) {
        // processes in a group of another run were left behind by an earlier attempt, and are not of this build
        let is_of_run = |dir: &Path| {
            let names = dir.strip_prefix(&groups.memory.mount).into_iter().flat_map(Path::components);
            names.filter_map(|part| part.as_os_str().to_str()).any(|name| name.starts_with(GROUP_PREFIX))
        };
        if groups.memory.dir.starts_with(&self.agent_groups.memory.dir) || is_of_run(&groups.memory.dir) {
            return;
        }
        let memory = self.whole_scope(&groups.memory);
        if self.running.iter().any(|known| memory.dir.starts_with(&known.groups.memory.dir)) {
            return;
        }
        let Some(members) = self.members_of_build(&memory, &BTreeSet::new()) else {
            self.note(&memory, SHARED_GROUP_NOTICE);
            return;
        };
        // on v1, CPU time is counted in a hierarchy of its own, where the process may still be in the build's own group
        let is_elsewhere = |cpu: &Cgroup| {
            let own = self.agent_groups.cpu.as_ref().is_some_and(|own| cpu.dir.starts_with(&own.dir));
            !own && self.members_of_build(cpu, &BTreeSet::new()).is_some()
        };
        let cpu = groups.cpu.as_ref().map(|cpu| self.whole_scope(cpu)).filter(is_elsewhere);
        let groups = Cgroups { memory, cpu, ..groups.clone() };
        let is_below = |known: &MovedGroup| known.groups.memory.dir.starts_with(&groups.memory.dir);
        if self.running.iter().filter(|known| !is_below(known)).count() >= MAX_RUNNING {
            self.note(&groups.memory, "too many such groups are in use");
            return;
        }
        let opened = CgroupReader::open(&groups, &CgroupLimits::read(&groups)).ok().flatten();
        let Some((first, reader)) = opened.and_then(|mut reader| Some((reader.read().ok()?, reader))) else {
            self.note(&groups.memory, "it cannot be read");
            return;
        };
        let is_new = is_scope(&groups.memory.dir);
        // the kernel adds groups below to this one: in a scope from their creation, elsewhere from now on
        for below in self.running.extract_if(.., |known| is_below(known)) {
            if !is_new {
                add_counters(&mut self.ended, &below.last);
            }
        }
        let before = if is_new { before_creation(&first) } else { first };
        tracing::debug!(group = %groups.memory.dir.display(), "part of the build moved to another cgroup");
        let last = since(first, &before);
        self.running.push(MovedGroup { groups, reader, before, last, members });
    }

    /// The scope of systemd that contains `group`, unless it also contains the build's own group; otherwise `group` itself.
    fn whole_scope(&self, group: &Cgroup) -> Cgroup {
        let agent_dirs = [Some(&self.agent_groups.memory), self.agent_groups.cpu.as_ref()];
        let has_home = |dir: &Path| agent_dirs.into_iter().flatten().any(|own| own.dir.starts_with(dir));
        let scope = group.and_ancestors().find(|dir| is_scope(dir)).filter(|dir| !has_home(dir));
        Cgroup { dir: scope.map_or_else(|| group.dir.clone(), Path::to_path_buf), ..group.clone() }
    }

    /// Ids of the processes in the group, if all are of the build. `known`: processes of the build that may have lost their parent. Only
    /// processes that are neither known nor were running at the search are read, which stops at the first one of others.
    fn members_of_build(&self, group: &Cgroup, known: &BTreeSet<i32>) -> Option<BTreeSet<i32>> {
        if group.is_root() {
            return None;
        }
        let (proc, members) = (self.kernel.path("/proc"), members(&group.dir));
        let is_of_build = |pid: &i32| {
            let is_known = self.descendants.contains(pid) || known.contains(pid);
            is_known || proctree::is_below_or_ended(&proc, *pid, self.top, known)
        };
        members.iter().all(is_of_build).then(|| members.into_iter().collect())
    }

    /// Sets the notice, unless the group was removed meanwhile.
    fn note(&mut self, group: &Cgroup, why: &str) {
        if !group.dir.is_dir() {
            return;
        }
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

/// What a new scope counted before its creation: nothing, but the groups above it are older. `first`: its first reading.
fn before_creation(first: &Reading) -> Reading {
    Reading {
        limit_hits_above: first.limit_hits_above,
        // the limit of a kill before that reading may be above the scope
        sees_all_limits: first.oom_kill.unwrap_or(0) == 0,
        ..Reading::default()
    }
}

/// The reading `now` with counters that count from `before` on; its sizes are unchanged.
fn since(now: Reading, before: &Reading) -> Reading {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    Reading {
        cpu_usec: now.cpu_usec.saturating_sub(before.cpu_usec),
        oom_kill: less(now.oom_kill, before.oom_kill),
        oom_group_kill: less(now.oom_group_kill, before.oom_group_kill),
        reclaim_failures: less(own_failures(&now), own_failures(before)),
        failures_above: None,
        sees_all_limits: now.sees_all_limits && before.sees_all_limits,
        limit_hits: less(now.limit_hits, before.limit_hits),
        limit_hits_above: less(now.limit_hits_above, before.limit_hits_above),
        ..now
    }
}

/// Number of charges that failed at the group's own limit, without those at a limit above it.
fn own_failures(reading: &Reading) -> Option<u64> {
    Some(reading.reclaim_failures?.saturating_sub(reading.failures_above.unwrap_or(0)))
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
