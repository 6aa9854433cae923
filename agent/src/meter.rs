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
mod tests {
    use super::*;
    use crate::cgroup::fake::FakeKernel;

    #[test]
    fn a_group_that_cannot_be_split_is_shared_and_the_wanted_limit_is_not_claimed() {
        let fake = FakeKernel::v2("/pod/build");
        fake.write("/sys/fs/cgroup/pod/memory.max", "1000000\n");
        let mut meter = Meter::prepare(&fake.kernel(), "01", Some(64 << 20));
        assert_eq!(meter.source(), Source::CgroupV2);
        assert_eq!(meter.limits().memory, Some(1_000_000));
        assert!(meter.no_limit().is_some());
        assert_eq!(meter.read().unwrap().need, 1_600);
        assert!(!fake.kernel().path("/sys/fs/cgroup/pod/build/plimsoll-01").try_exists().unwrap());
    }

    #[test]
    fn what_others_hold_in_a_shared_group_is_not_taken_for_the_build() {
        let fake = FakeKernel::v2("/build");
        let source = |procs: &str, kib: u64| {
            fake.write("/sys/fs/cgroup/build/cgroup.procs", procs);
            fake.write("/proc/77/status", &format!("Name:\tx\nRssAnon:\t{kib} kB\nRssShmem:\t1 kB\n"));
            Meter::prepare(&fake.kernel(), "01", None).source()
        };
        let own = std::process::id();
        assert_eq!(source(&format!("{own}\n"), 0), Source::CgroupV2);
        assert_eq!(source(&format!("{own}\n77\n"), 2_000), Source::CgroupV2);
        assert_eq!(source(&format!("{own}\n77\n"), 20_000), Source::ProcessTree);
        assert_eq!(source("0\n", 0), Source::ProcessTree, "nobody knows what a hidden process holds");
    }

    #[test]
    fn v1_without_a_group_of_its_own_is_shared_as_well() {
        let fake = FakeKernel::hybrid("/build", "/build");
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        assert_eq!(meter.source(), Source::CgroupV1);
        assert_eq!(meter.read().unwrap().cpu_usec, 5_000);
        assert!(meter.no_limit().is_none());
        assert!(!fake.kernel().path("/sys/fs/cgroup/cpuacct/build/plimsoll-01").try_exists().unwrap());
    }

    #[test]
    fn the_counters_of_the_whole_machine_are_not_taken_for_the_build() {
        let fake = FakeKernel::hybrid("/build", "/build");
        fake.write("/sys/fs/cgroup/memory/build/release_agent", "\n");
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        assert_eq!(meter.source(), Source::ProcessTree);
        assert_eq!(meter.read(), None, "a folder without processes measures nothing, and does no harm");
    }

    /// Not a promise: says what a reading costs here.
    #[test]
    #[ignore = "prints the cost of a reading; run it alone, with --release"]
    fn cost_of_a_reading() {
        let mut meter = Meter::prepare(&Kernel::running(), &ulid::Ulid::new().to_string(), None);
        let clock = std::time::Instant::now;
        let start = clock();
        meter.inside(|| ());
        println!("in and out of the group: {:?}", start.elapsed());
        let mut tree = Tree::of(&Kernel::running(), 1).unwrap();
        let mut time = |name: &str, read: &mut dyn FnMut(&mut Meter)| {
            let start = clock();
            (0..10_000).for_each(|_round| read(&mut meter));
            println!("{name}: {:.2} us", start.elapsed().as_secs_f64() * 100.0);
        };
        time("sample", &mut |meter| assert!(meter.read().is_some()));
        time("size", &mut |meter| assert!(meter.read_size().is_some()));
        let start = clock();
        (0..100).for_each(|_round| assert!(tree.read().is_ok()));
        println!("tree of all processes: {:.0} us", start.elapsed().as_secs_f64() * 10_000.0);
        meter.own.unwrap().discard();
    }

    #[test]
    fn a_file_that_breaks_later_is_a_gap() {
        let fake = FakeKernel::v2("/build");
        let mut meter = Meter::prepare(&fake.kernel(), "01", None);
        fake.write("/sys/fs/cgroup/build/memory.current", "?\n");
        assert_eq!(meter.read(), None);
        assert_eq!(meter.read_size(), None);
        fake.write("/sys/fs/cgroup/build/memory.current", "1700\n");
        assert_eq!(meter.read_size().unwrap().need, 1_600);
    }
}
