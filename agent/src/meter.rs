//! Measures one build in the best way that the machine allows, and goes down one step when a way does not work: a cgroup of its
//! own, the cgroup that the agent is in, the process tree, nothing. A measurement that fails never fails the build.

use plimsoll_proto::v1::Source;

use crate::{
    cgroup::{self, Groups, Limits, MIN_LIMIT_BYTES, OwnGroup, Reader, Version},
    kernel::{Error, Kernel},
    proctree::{self, Tree},
};

/// What others may hold in the group that the agent shares with the build: the shells of a job's script and a `tee` do not matter.
const OTHERS_BYTES: u64 = 16 << 20;

/// What is measured at one moment. Counters are as the source counts them, which is not always since the start of the build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes charged now, page cache included.
    pub memory: u64,
    /// Bytes that cannot be reclaimed now; never more than `memory`.
    pub need: u64,
    /// High-water mark of `memory`, where something keeps one.
    pub memory_peak: Option<u64>,
    /// CPU time, microseconds.
    pub cpu_usec: u64,
    /// Processes killed for memory, in groups that the build made too.
    pub oom_kill: Option<u64>,
    /// Groups killed as a whole, v2 only.
    pub oom_group_kill: Option<u64>,
    /// Charges that failed without reclaim (v2 `max`, v1 `failcnt`), at the build's own limit and at the limit in force.
    pub reclaim_failures: Option<u64>,
    /// Those among them that failed at a limit above the build's group, if one is in force.
    pub failures_above: Option<u64>,
    /// Times that the build's own limit, or one below, may have made the kernel kill: v2 `oom`, v1 every failed charge.
    pub limit_hits: Option<u64>,
    /// The same for all limits above that can be read.
    pub limit_hits_above: Option<u64>,
    /// There is no limit that these two do not count.
    pub sees_all_limits: bool,
    /// Time in which all tasks stood still for memory, microseconds; v2 only.
    pub memory_stall_usec: Option<u64>,
    /// Pages that were dropped and wanted again.
    pub refaults: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Time for which the CPU limit held the build back, microseconds.
    pub throttled_usec: Option<u64>,
}

/// How large a build is at one moment, bytes; as in [`Reading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Charged, page cache included.
    pub memory: u64,
    /// Cannot be reclaimed.
    pub need: u64,
}

#[derive(Debug)]
enum Way {
    /// A cgroup; the tree gives the CPU time if no group of ours counts it.
    Group(Box<Reader>, Option<Tree>),
    Tree(Tree),
    Nothing,
}

/// Measures one build.
#[derive(Debug)]
pub struct Meter {
    way: Way,
    own: Option<OwnGroup>,
    limits: Limits,
    /// Why the wanted memory limit is not in force.
    no_limit: Option<String>,
    kernel: Kernel,
    /// What the agent is in.
    agent: Option<Groups>,
    /// The memory limit that was wanted.
    limit: Option<u64>,
    /// A failure was logged already: one line for a build, not one a second.
    failed: bool,
}

impl Meter {
    /// Finds the best way for a command that this process is about to start. `id` names its group, `limit` is the memory
    /// limit that it shall have.
    pub fn prepare(kernel: &Kernel, id: &str, limit: Option<u64>) -> Self {
        let agent = cgroup::find(kernel, "self").unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot find the agent's cgroup");
            None
        });
        let (way, own, limits, no_limit) = (Way::Nothing, None, Limits::default(), None);
        let kernel = kernel.clone();
        let mut meter = Self { way, own, limits, no_limit, kernel, agent, limit, failed: false };
        if let Err(error) = meter.use_own(id) {
            tracing::debug!(%error, "no cgroup of its own for the build");
            meter.step_down();
        }
        meter
    }

    /// Follows a build that somebody else has started: through `groups` where it has some, whose counters are since they were made,
    /// and through `tree` for what they do not count. `None` if neither measures anything.
    pub fn follow(
        kernel: &Kernel,
        groups: Option<&Groups>,
        tree: Option<Tree>,
    ) -> Result<Option<Self>, Error> {
        let limits = groups.map(Limits::read).unwrap_or_default();
        let reader = groups.map(|groups| Reader::open(groups, &limits)).transpose()?.flatten();
        let way = match (reader, tree) {
            (Some(reader), tree) => {
                let tree = tree.filter(|_tree| !reader.counts_cpu());
                Way::Group(Box::new(reader), tree)
            }
            (None, Some(tree)) => Way::Tree(tree),
            (None, None) => return Ok(None),
        };
        let (own, no_limit, agent, limit, failed) = (None, None, None, None, false);
        Ok(Some(Self { way, own, limits, no_limit, kernel: kernel.clone(), agent, limit, failed }))
    }

    fn use_own(&mut self, id: &str) -> Result<(), Error> {
        let absent = || Error::content(&self.kernel.path("/sys/fs/cgroup"), "memory accounting");
        let own = OwnGroup::make(self.agent.as_ref().ok_or_else(absent)?, id)?;
        let limited = match self.limit {
            Some(bytes) if bytes < MIN_LIMIT_BYTES => Err(format!("it is less than {MIN_LIMIT_BYTES} bytes")),
            Some(bytes) => own.set_memory_limit(bytes).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        let limits = Limits::read(own.groups());
        match open_way(&self.kernel, own.groups(), &limits) {
            Ok(Some(way)) => {
                (self.way, self.own, self.limits, self.no_limit) = (way, Some(own), limits, limited.err());
                Ok(())
            }
            other => {
                own.discard();
                Err(other.err().unwrap_or_else(absent))
            }
        }
    }

    /// Takes the next best way after a group of its own.
    fn step_down(&mut self) {
        if let Some(own) = self.own.take() {
            own.discard();
        }
        self.way = Way::Nothing;
        self.no_limit = self.limit.map(|_bytes| "the agent cannot give the build its own cgroup".to_owned());
        if let Some(groups) = self.agent.clone() {
            self.limits = Limits::read(&groups);
            self.use_shared(&groups);
        }
        if matches!(self.way, Way::Nothing) {
            match Tree::of_this_process(&self.kernel) {
                Ok(tree) => self.way = Way::Tree(tree),
                Err(error) => tracing::warn!(%error, "nothing can be measured here"),
            }
        }
    }

    /// The agent's group measures the build if it is not the whole machine.
    fn use_shared(&mut self, groups: &Groups) {
        if groups.memory.is_root() {
            return;
        }
        let others = proctree::resident_of_others(&self.kernel, &groups.memory.dir.join("cgroup.procs"));
        if others.is_none_or(|bytes| bytes > OTHERS_BYTES) {
            tracing::debug!(
                bytes = others,
                "others are in the agent's cgroup, so the process tree is measured"
            );
            return;
        }
        match open_way(&self.kernel, groups, &self.limits) {
            Ok(Some(way)) => self.way = way,
            Ok(None) => tracing::debug!("the agent's cgroup accounts no memory"),
            Err(error) => tracing::debug!(%error, "cannot read the agent's cgroup"),
        }
    }

    /// Where the numbers come from.
    pub fn source(&self) -> Source {
        match &self.way {
            Way::Group(reader, _cpu) if reader.version() == Version::V1 => Source::CgroupV1,
            Way::Group(..) => Source::CgroupV2,
            Way::Tree(_) | Way::Nothing => Source::ProcessTree,
        }
    }

    /// The limits in force for the build.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Why the memory limit that was wanted is not in force, if it is not.
    pub fn no_limit(&self) -> Option<&str> {
        self.no_limit.as_deref()
    }

    /// Runs `start` inside the build's own group, where there is one: what it starts stays there. Returns the counters of
    /// before as well. The way in and out is without any await, so that nothing else happens inside.
    pub fn inside<T>(&mut self, start: impl FnOnce() -> T) -> (Option<Reading>, T) {
        if let Some(Err(error)) = self.own.as_ref().map(OwnGroup::enter) {
            tracing::warn!(%error, "cannot enter the build's cgroup");
            self.step_down();
        }
        let before = self.read();
        let started = start();
        if let Some(own) = &self.own {
            own.leave();
        }
        (before, started)
    }

    /// Reads everything; `None` if that fails, which leaves a gap.
    pub fn read(&mut self) -> Option<Reading> {
        let reading = match &mut self.way {
            Way::Group(reader, None) => reader.read(),
            Way::Group(reader, Some(tree)) => reader.read().and_then(|reading| {
                let cpu_usec = tree.read()?.cpu_usec;
                Ok(Reading { cpu_usec, ..reading })
            }),
            Way::Tree(tree) => tree.read(),
            Way::Nothing => return None,
        };
        self.note(reading)
    }

    /// Reads the memory alone: a small part of what [`Self::read`] costs.
    pub fn read_size(&mut self) -> Option<Size> {
        let size = match &mut self.way {
            Way::Group(reader, _cpu) => reader.read_size(),
            Way::Tree(tree) => tree.read().map(|Reading { memory, need, .. }| Size { memory, need }),
            Way::Nothing => return None,
        };
        self.note(size)
    }

    /// Says whether a reading costs more the more processes run on the machine.
    pub fn looks_at_processes(&self) -> bool {
        matches!(&self.way, Way::Tree(_) | Way::Group(_, Some(_)))
    }

    /// Says whether the build has a group of its own.
    #[cfg(test)]
    pub(crate) fn has_own_group(&self) -> bool {
        self.own.is_some()
    }

    /// Kills everything in the build's own group, for tests that do not wait for its end.
    #[cfg(test)]
    pub(crate) fn kill_own_group(&self) {
        let Some(own) = &self.own else { return };
        let file = own.groups().memory.dir.join("cgroup.procs");
        // again and again: a shell starts the next command before it is killed
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

    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
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

    /// Takes the build's own group away, if there is one and nothing runs in it any more.
    pub async fn close(self) {
        if let Some(own) = self.own {
            own.remove().await;
        }
    }
}

fn open_way(kernel: &Kernel, groups: &Groups, limits: &Limits) -> Result<Option<Way>, Error> {
    let Some(reader) = Reader::open(groups, limits)? else { return Ok(None) };
    let tree = if reader.counts_cpu() { None } else { Some(Tree::of_this_process(kernel)?) };
    Ok(Some(Way::Group(Box::new(reader), tree)))
}

#[cfg(test)]
mod tests;
