//! Measures one build. Of these ways, the first one that works on the machine is used: a cgroup of the build's own, the cgroup that the
//! agent is in, the process tree. If none works, nothing is measured. A measurement that fails never fails the build.

mod own_group;
mod shared;

use std::path::{Path, PathBuf};

use plimsoll_proto::{figures, measured::PartlyMeasured, v1::Source};

use self::shared::SharedGroup;
use crate::{
    cgroup::{
        self, BuildCgroup, CgroupLimits, CgroupReader, CgroupVersion, Cgroups, MIN_LIMIT_BYTES, MovedGroups,
    },
    huge_pages::HugePages,
    kernel::{Error, Kernel},
    proctree::{self, OTHER_PROCESSES_BYTES, OwnEntry, ProcessTree},
    reading::{MemorySize, Reading},
};

/// Why nothing can be paused where the build's processes are in a pid namespace that is not the agent's, in words for a log.
pub(crate) const HIDDEN_PROCESSES: &str = "the processes of the build are not visible here";

/// The error for a memory limit that is too low for the agent itself.
fn too_small(bytes: u64) -> String {
    let (bytes, least) = (figures::bytes(bytes), figures::bytes(MIN_LIMIT_BYTES));
    format!("--limit-memory is {bytes}, and the least that can be set is {least}")
}

#[derive(Debug)]
enum MeterSource {
    /// Measures with a cgroup. The process tree gives the CPU time if no cgroup of the build counts it.
    Group(Box<CgroupReader>, Option<ProcessTree>),
    Tree(ProcessTree),
    Nothing,
}

impl MeterSource {
    /// Ids in `/proc` of the build's processes. On v2, the id is 0 for a process that the agent's pid namespace does not show.
    /// `own_entry`: the agent in `/proc`.
    fn visible_pids(&self, own_entry: OwnEntry) -> Vec<i32> {
        match self {
            // the ids in a group's files are of the agent's own pid namespace
            Self::Group(..) if own_entry != OwnEntry::Same => Vec::new(),
            Self::Group(reader, _cpu) => reader.members(),
            Self::Tree(tree) => tree.pids().to_vec(),
            Self::Nothing => Vec::new(),
        }
    }
}

/// Measures one build.
#[derive(Debug)]
pub struct Meter {
    source: MeterSource,
    own_group: Option<BuildCgroup>,
    /// Groups to which processes of the build moved; `None` before the build starts, and if the process tree measures the build.
    moved: Option<Box<MovedGroups>>,
    huge_pages: HugePages,
    /// Watches the group that the build is measured by, if others may use it.
    shared: Option<Box<SharedGroup>>,
    limits: CgroupLimits,
    /// The groups whose limits are in force for the build.
    limited_by: Option<Cgroups>,
    /// Why the requested memory limit is not in force; `None` if it is, or none was requested.
    no_limit: Option<String>,
    kernel: Kernel,
    own_entry: OwnEntry,
    /// The cgroups of the agent.
    agent: Option<Cgroups>,
    /// The memory limit that was requested, bytes.
    limit: Option<u64>,
    /// Need of the last reading that counts against the limit of the build's own group, bytes.
    charged_need: Option<u64>,
    /// Whether a failed reading was logged already, so that each build has one such line in the log, not one for each second.
    failed: bool,
}

impl Meter {
    /// Finds the best way to measure a command that this process is about to start. `id` becomes part of the name of its cgroup; `limit` is
    /// the memory limit to set, in bytes.
    pub fn prepare(kernel: &Kernel, id: &str, limit: Option<u64>) -> Self {
        let agent = cgroup::find(kernel, "self").unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot find the agent's cgroup");
            None
        });
        let huge_pages = HugePages::of(kernel.path("/proc"), None);
        let meter = Self::by(kernel, MeterSource::Nothing, CgroupLimits::default(), huge_pages);
        let mut meter = Self { agent, limit, ..meter };
        if let Err(error) = meter.use_own(id) {
            tracing::debug!(%error, "no cgroup of its own for the build");
            meter.use_next_source();
        }
        meter
    }

    /// Measures a build that the agent did not start: with `groups` if it has cgroups, which count from their creation on, and with `tree`
    /// for numbers that they do not count. `None` if neither can measure anything.
    pub fn follow(
        kernel: &Kernel,
        groups: Option<&Cgroups>,
        tree: Option<ProcessTree>,
    ) -> Result<Option<Self>, Error> {
        let limits = groups.map(CgroupLimits::read).unwrap_or_default();
        let reader = groups.map(|groups| CgroupReader::open(groups, &limits)).transpose()?.flatten();
        // the tree may be that of the host's `/proc`; the ids in a group's files are of the agent's
        let tree_proc = tree.as_ref().filter(|_tree| reader.is_none()).map(|tree| tree.proc().to_owned());
        let proc = tree_proc.unwrap_or_else(|| kernel.path("/proc"));
        let way = match (reader, tree) {
            (Some(reader), tree) => {
                let tree = tree.filter(|_tree| !reader.counts_cpu());
                MeterSource::Group(Box::new(reader), tree)
            }
            (None, Some(tree)) => MeterSource::Tree(tree),
            (None, None) => return Ok(None),
        };
        let huge_pages = HugePages::of(proc, groups.and_then(|groups| groups.huge_pages.as_ref()));
        Ok(Some(Self { limited_by: groups.cloned(), ..Self::by(kernel, way, limits, huge_pages) }))
    }

    fn by(kernel: &Kernel, source: MeterSource, limits: CgroupLimits, huge_pages: HugePages) -> Self {
        Self {
            source,
            own_group: None,
            moved: None,
            huge_pages,
            shared: None,
            limits,
            limited_by: None,
            no_limit: None,
            kernel: kernel.clone(),
            own_entry: OwnEntry::find(&kernel.path("/proc")),
            agent: None,
            limit: None,
            charged_need: None,
            failed: false,
        }
    }

    fn use_own(&mut self, id: &str) -> Result<(), Error> {
        let absent = || Error::content_error(&self.kernel.path("/sys/fs/cgroup"), "memory accounting");
        let own = BuildCgroup::make(self.agent.as_ref().ok_or_else(absent)?, id)?;
        let limited = match self.limit {
            Some(bytes) if bytes < MIN_LIMIT_BYTES => Err(too_small(bytes)),
            Some(bytes) => own.set_memory_limit(bytes).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        let limits = CgroupLimits::read(own.groups());
        match open_source(&self.kernel, own.groups(), &limits) {
            Ok(Some(way)) => {
                // on v1, the huge pages are those of the agent's group
                self.huge_pages = HugePages::of(self.kernel.path("/proc"), own.groups().huge_pages.as_ref())
                    .counted_from_now();
                self.limited_by = Some(own.groups().clone());
                (self.source, self.own_group, self.limits, self.no_limit) =
                    (way, Some(own), limits, limited.err());
                Ok(())
            }
            other => {
                own.discard();
                Err(other.err().unwrap_or_else(absent))
            }
        }
    }

    /// Switches to the next way of measuring, after the build's own group did not work.
    fn use_next_source(&mut self) {
        if let Some(own) = self.own_group.take() {
            own.discard();
        }
        self.source = MeterSource::Nothing;
        self.huge_pages = HugePages::of(self.kernel.path("/proc"), None);
        self.no_limit = self.limit.map(|_bytes| "the agent cannot give the build its own cgroup".to_owned());
        if let Some(groups) = self.agent.clone() {
            self.limits = CgroupLimits::read(&groups);
            self.use_shared(&groups);
            self.limited_by = Some(groups);
        }
        if matches!(self.source, MeterSource::Nothing) {
            match ProcessTree::of_this_process(&self.kernel) {
                Ok(tree) => self.source = MeterSource::Tree(tree),
                Err(error) => tracing::warn!(%error, "nothing can be measured here"),
            }
        }
    }

    /// Measures the build by the agent's group, unless that group is the whole machine.
    fn use_shared(&mut self, groups: &Cgroups) {
        if groups.memory.is_root() {
            return;
        }
        let others = proctree::resident_of_others(&self.kernel, &groups.memory.dir.join("cgroup.procs"));
        if others.is_none_or(|bytes| bytes > OTHER_PROCESSES_BYTES) {
            tracing::debug!(
                bytes = others,
                "others are in the agent's cgroup, so the process tree is measured"
            );
            return;
        }
        match open_source(&self.kernel, groups, &self.limits) {
            Ok(Some(way)) => {
                self.huge_pages = HugePages::of(self.kernel.path("/proc"), groups.huge_pages.as_ref());
                self.source = way;
                if let Ok(tree) = ProcessTree::of_this_process(&self.kernel) {
                    self.watch_for_others(groups, tree);
                }
            }
            Ok(None) => tracing::debug!("the agent's cgroup accounts no memory"),
            Err(error) => tracing::debug!(%error, "cannot read the agent's cgroup"),
        }
    }

    /// Watches the group of the build for other processes. `tree`: the build's own processes.
    pub fn watch_for_others(&mut self, groups: &Cgroups, tree: ProcessTree) {
        let watch = SharedGroup::new(&self.kernel, groups.memory.dir.clone(), tree);
        self.shared = Some(Box::new(watch));
    }

    /// Makes the next reading, which is the last one, look at the processes of a shared group.
    pub(crate) fn look_at_end(&mut self) {
        self.shared.iter_mut().for_each(|shared| shared.look_next());
    }

    /// Where the numbers come from.
    pub fn source(&self) -> Source {
        match &self.source {
            MeterSource::Group(reader, _cpu) if reader.version() == CgroupVersion::V1 => Source::CgroupV1,
            MeterSource::Group(..) => Source::CgroupV2,
            MeterSource::Tree(_) | MeterSource::Nothing => Source::ProcessTree,
        }
    }

    /// The limits in force for the build.
    pub fn limits(&self) -> &CgroupLimits {
        &self.limits
    }

    /// Reads the memory limits again: others may change them while the build runs.
    pub(crate) fn refresh_limits(&mut self) {
        if let Some(groups) = &self.limited_by {
            self.limits.refresh(groups);
        }
    }

    /// Why the requested memory limit is not in force; `None` if it is, or none was requested.
    pub fn no_limit(&self) -> Option<&str> {
        self.no_limit.as_deref()
    }

    /// Runs `start` inside the build's own group, if there is one, so that the processes that it starts are in the group. Also returns the
    /// counters from before. There is no await between entering and leaving, so no other code runs inside.
    pub fn run_inside<T>(&mut self, start: impl FnOnce() -> T) -> (Option<Reading>, T) {
        if let Some(Err(error)) = self.own_group.as_ref().map(BuildCgroup::enter) {
            tracing::warn!(%error, "cannot enter the build's cgroup");
            self.use_next_source();
        }
        let before = self.read();
        let started = start();
        if let Some(own) = &self.own_group {
            own.leave();
        }
        let home = self.own_group.as_ref().map(BuildCgroup::groups).or(self.agent.as_ref());
        let sees_ids = self.own_entry == OwnEntry::Same;
        let home = home.filter(|_| matches!(self.source, MeterSource::Group(..)) && sees_ids);
        self.moved = home.map(|home| Box::new(MovedGroups::of_this_process(&self.kernel, home)));
        (before, started)
    }

    /// What keeps the numbers from being exact, and a text about it for the job's log; `None` if the build alone is measured, and all of it.
    pub fn unmeasured(&self) -> Option<(PartlyMeasured, &str)> {
        let lost = if let MeterSource::Tree(tree) = &self.source { tree.notice() } else { None };
        let shared = self.shared.as_ref().and_then(|shared| shared.notice());
        let moved = self.moved.as_ref().and_then(|moved| moved.notice());
        let moved = moved.map(|text| (PartlyMeasured::AnotherCgroup, text));
        let shared = shared.map(|text| (PartlyMeasured::SharedCgroup, text));
        moved.or(shared).or_else(|| Some((PartlyMeasured::LostDaemon, lost?)))
    }

    /// Reads all counters; `None` if that fails, which leaves a gap in the series.
    pub fn read(&mut self) -> Option<Reading> {
        let (moved, shared) = (&mut self.moved, &mut self.shared);
        let reading = match &mut self.source {
            MeterSource::Group(reader, tree) => reader.read().and_then(|mut reading| {
                self.charged_need = Some(reading.need.min(reading.memory));
                if let Some(moved) = moved {
                    moved.add_to(&mut reading);
                }
                if let Some(tree) = tree {
                    reading.cpu_usec = tree.read()?.cpu_usec;
                }
                if let Some(shared) = shared {
                    shared.restrict(&mut reading);
                }
                Ok(reading)
            }),
            MeterSource::Tree(tree) => tree.read(),
            MeterSource::Nothing => return None,
        };
        let source = &self.source;
        let own_entry = self.own_entry;
        let build = self.shared.as_ref().and_then(|shared| shared.build_if_shared());
        if build.is_some() {
            self.huge_pages.leave_group();
        }
        let huge_pages = self.huge_pages.read(|| build.unwrap_or_else(|| source.visible_pids(own_entry)));
        let reading =
            reading.map(|reading| Reading { need: reading.need.saturating_add(huge_pages), ..reading });
        self.log_failure(reading)
    }

    /// Reads the memory alone, which costs a small part of what [`Self::read`] costs.
    pub fn read_size(&mut self) -> Option<MemorySize> {
        let size = match &mut self.source {
            MeterSource::Group(reader, _cpu) => reader.read_size().map(|mut size| {
                self.charged_need = Some(size.need.min(size.memory));
                if let Some(moved) = &mut self.moved {
                    moved.add_size_to(&mut size);
                }
                if let Some(shared) = &mut self.shared {
                    shared.restrict_size(&mut size);
                }
                size
            }),
            MeterSource::Tree(tree) => {
                tree.read().map(|Reading { memory, need, .. }| MemorySize { memory, need })
            }
            MeterSource::Nothing => return None,
        };
        let huge_pages = self.huge_pages.last;
        self.log_failure(size.map(|size| MemorySize { need: size.need.saturating_add(huge_pages), ..size }))
    }

    /// Ids of the build's processes at the last reading, and the folder that shows them.
    pub fn processes(&self) -> (PathBuf, Vec<i32>) {
        let of_tree =
            if let MeterSource::Tree(tree) = &self.source { Some(tree.proc().to_owned()) } else { None };
        let proc = of_tree.unwrap_or_else(|| self.kernel.path("/proc"));
        (proc, self.source.visible_pids(self.own_entry))
    }

    /// The cgroup that measures the build alone, and whether the agent made it.
    /// Errors: there is none, or the agent's `/proc` does not show the processes in it; in words for a log.
    pub(crate) fn group_seen(&self) -> Result<(&Path, bool), &'static str> {
        let is_alone = self.shared.as_ref().is_none_or(|shared| shared.notice().is_none());
        match &self.source {
            MeterSource::Group(reader, _cpu) if is_alone && self.own_entry == OwnEntry::Same => {
                Ok((reader.folder(), self.own_group.is_some()))
            }
            MeterSource::Group(..) if is_alone => Err(HIDDEN_PROCESSES),
            _not_alone => Err("no cgroup measures the build alone"),
        }
    }

    /// Whether a reading costs more if more processes run on the machine.
    pub fn looks_at_processes(&self) -> bool {
        matches!(&self.source, MeterSource::Tree(_) | MeterSource::Group(_, Some(_)))
            || self.shared.as_ref().is_some_and(|shared| shared.notice().is_some())
            || self.huge_pages.reads_processes()
    }

    fn log_failure<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!(%error, "a measurement failed");
                }
                None
            }
        }
    }

    /// Removes the build's own group, if there is one and no process runs in it.
    pub async fn close(self) {
        if let Some(own) = self.own_group {
            own.remove().await;
        }
    }
}

fn open_source(
    kernel: &Kernel,
    groups: &Cgroups,
    limits: &CgroupLimits,
) -> Result<Option<MeterSource>, Error> {
    let Some(reader) = CgroupReader::open(groups, limits)? else { return Ok(None) };
    let tree = if reader.counts_cpu() { None } else { Some(ProcessTree::of_this_process(kernel)?) };
    Ok(Some(MeterSource::Group(Box::new(reader), tree)))
}

#[cfg(test)]
mod tests;
