//! Measures one build. Of these ways, the first one that works on the machine is used: a cgroup of the build's own, the cgroup that the
//! agent is in, the process tree. If none works, nothing is measured. A measurement that fails never fails the build.

use std::path::PathBuf;

use plimsoll_proto::{figures, v1::Source};

use crate::{
    cgroup::{
        self, BuildCgroup, CgroupLimits, CgroupReader, CgroupVersion, Cgroups, MIN_LIMIT_BYTES, MovedGroups,
    },
    kernel::{Error, Kernel},
    proctree::{self, ProcessTree},
    reading::{MemorySize, Reading},
};

/// Most bytes of other processes in the agent's cgroup with which that cgroup is still used to measure the build: the shells of a job's
/// script and a `tee` use less.
pub const OTHER_PROCESSES_BYTES: u64 = 16 << 20;

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

/// Measures one build.
#[derive(Debug)]
pub struct Meter {
    source: MeterSource,
    own_group: Option<BuildCgroup>,
    /// Groups to which processes of the build moved; `None` before the build starts, and if the process tree measures the build.
    moved: Option<Box<MovedGroups>>,
    limits: CgroupLimits,
    /// Why the requested memory limit is not in force; `None` if it is, or none was requested.
    no_limit: Option<String>,
    kernel: Kernel,
    /// The cgroups of the agent.
    agent: Option<Cgroups>,
    /// The memory limit that was requested, bytes.
    limit: Option<u64>,
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
        let (way, own, limits, no_limit) = (MeterSource::Nothing, None, CgroupLimits::default(), None);
        let kernel = kernel.clone();
        let mut meter = Self {
            source: way,
            own_group: own,
            moved: None,
            limits,
            no_limit,
            kernel,
            agent,
            limit,
            failed: false,
        };
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
        let way = match (reader, tree) {
            (Some(reader), tree) => {
                let tree = tree.filter(|_tree| !reader.counts_cpu());
                MeterSource::Group(Box::new(reader), tree)
            }
            (None, Some(tree)) => MeterSource::Tree(tree),
            (None, None) => return Ok(None),
        };
        let (own, no_limit, agent, limit, failed) = (None, None, None, None, false);
        Ok(Some(Self {
            source: way,
            own_group: own,
            moved: None,
            limits,
            no_limit,
            kernel: kernel.clone(),
            agent,
            limit,
            failed,
        }))
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
        self.no_limit = self.limit.map(|_bytes| "the agent cannot give the build its own cgroup".to_owned());
        if let Some(groups) = self.agent.clone() {
            self.limits = CgroupLimits::read(&groups);
            self.use_shared(&groups);
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
            Ok(Some(way)) => self.source = way,
            Ok(None) => tracing::debug!("the agent's cgroup accounts no memory"),
            Err(error) => tracing::debug!(%error, "cannot read the agent's cgroup"),
        }
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
        let home = home.filter(|_| matches!(self.source, MeterSource::Group(..)));
        self.moved = home.map(|home| Box::new(MovedGroups::of_this_process(&self.kernel, home)));
        (before, started)
    }

    /// A text for the job's log if a part of the build is not measured; `None` if all of it is.
    pub fn unmeasured(&self) -> Option<&str> {
        self.moved.as_ref()?.notice()
    }

    /// Reads all counters; `None` if that fails, which leaves a gap in the series.
    pub fn read(&mut self) -> Option<Reading> {
        let moved = &mut self.moved;
        let mut with_moved = |mut reading: Reading| {
            if let Some(moved) = moved {
                moved.add_to(&mut reading);
            }
            reading
        };
        let reading = match &mut self.source {
            MeterSource::Group(reader, None) => reader.read().map(with_moved),
            MeterSource::Group(reader, Some(tree)) => reader.read().and_then(|reading| {
                let cpu_usec = tree.read()?.cpu_usec;
                Ok(Reading { cpu_usec, ..with_moved(reading) })
            }),
            MeterSource::Tree(tree) => tree.read(),
            MeterSource::Nothing => return None,
        };
        self.log_failure(reading)
    }

    /// Reads the memory alone, which costs a small part of what [`Self::read`] costs.
    pub fn read_size(&mut self) -> Option<MemorySize> {
        let size = match &mut self.source {
            MeterSource::Group(reader, _cpu) => reader.read_size().map(|mut size| {
                if let Some(moved) = &mut self.moved {
                    moved.add_size_to(&mut size);
                }
                size
            }),
            MeterSource::Tree(tree) => {
                tree.read().map(|Reading { memory, need, .. }| MemorySize { memory, need })
            }
            MeterSource::Nothing => return None,
        };
        self.log_failure(size)
    }

    /// Ids of the build's processes at the last reading, and the folder that shows them.
    pub fn processes(&self) -> (PathBuf, Vec<i32>) {
        match &self.source {
            MeterSource::Group(reader, _cpu) => (self.kernel.path("/proc"), reader.members()),
            MeterSource::Tree(tree) => tree.processes(),
            MeterSource::Nothing => Default::default(),
        }
    }

    /// Whether a reading costs more if more processes run on the machine.
    pub fn looks_at_processes(&self) -> bool {
        matches!(&self.source, MeterSource::Tree(_) | MeterSource::Group(_, Some(_)))
    }

    /// Whether the build has a group of its own.
    pub fn has_own_group(&self) -> bool {
        self.own_group.is_some()
    }

    /// Kills all processes in the build's own group, for tests that do not wait for its end.
    #[cfg(test)]
    pub(crate) fn kill_own_group(&self) {
        let Some(own) = &self.own_group else { return };
        let file = own.groups().memory.dir.join("cgroup.procs");
        // this is repeated, because a shell may start the next command before it is killed
        while let Ok(pids) = std::fs::read_to_string(&file)
            && !pids.is_empty()
        {
            for pid in pids.lines().filter_map(|pid| pid.parse().ok()).filter(|&pid| pid > 1) {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
                    .ok();
            }
            std::thread::yield_now();
        }
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
