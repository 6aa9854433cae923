//! The build's own cgroup while the build runs: what its memory limit is, what it may become, and raising it.

use super::Meter;
use crate::{
    cgroup::{BuildCgroup, CgroupLimits, KillingLimit},
    kernel::{self, Error},
    rescue::raise::RoomAbove,
};

impl Meter {
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

    /// The build's own group, if the requested limit was set on it.
    fn limited_group(&self) -> Option<&BuildCgroup> {
        self.own_group.as_ref().filter(|_own| self.limit.is_some() && self.no_limit.is_none())
    }

    /// The memory limit of the build's own group, bytes; `None` if it has none.
    /// Errors: the agent set no limit, or the limit cannot be read.
    pub(crate) fn own_limit(&self) -> Result<Option<u64>, String> {
        let own = self.limited_group().ok_or("the agent set no limit")?;
        own.memory_limit().map_err(|error| error.to_string())
    }

    /// The need of the last reading that counts against the limit of the build's own group, bytes: without swap, huge pages and groups
    /// elsewhere. `None` if that reading failed, or was asked for already.
    pub(crate) fn take_charged_need(&mut self) -> Option<u64> {
        self.charged_need.take()
    }

    /// The smallest limit of the groups above the build's own at which the kernel kills, bytes.
    pub(crate) fn limit_above(&self) -> Option<u64> {
        self.agent.as_ref().and_then(|groups| CgroupLimits::read(groups).killing)
    }

    /// What the groups above the build's own and the machine leave to a build with the need `need`, bytes.
    /// Errors: the memory that the machine has left cannot be read.
    pub(crate) fn room_above(&self, need: u64) -> Result<RoomAbove, Error> {
        let limits = self.agent.iter().filter_map(|groups| CgroupLimits::read(groups).memory);
        let left = self.agent.iter().flat_map(KillingLimit::of).filter_map(|limit| limit.left);
        let groups = limits.chain(left.map(|left| need.saturating_add(left))).min();
        let path = self.kernel.path("/proc/meminfo");
        let text = kernel::read(&path)?.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        let machine = kib.ok_or_else(|| Error::content_error(&path, "MemAvailable"))?.saturating_mul(1024);
        Ok(RoomAbove { groups, machine })
    }

    /// Raises the memory limit of the build's own group from `from` to `to`, bytes.
    /// Errors: the kernel refuses; the limit is then as before.
    pub(crate) fn raise_own_limit(&mut self, from: u64, to: u64) -> Result<(), Error> {
        if let Some(own) = self.limited_group() {
            own.raise_memory_limit(from, to)?;
        }
        self.refresh_limits();
        Ok(())
    }
}
