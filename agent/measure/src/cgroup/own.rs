//! Creates a cgroup for one run, so that its counters are of this build alone, and a limit can be set on it.
//!
//! The agent enters the new group, starts the command there and leaves it again. So the command and all its processes are in the group from
//! their start, and no code runs between fork and exec. On v1 only the calling thread is moved, by a write to `tasks`, which takes 0.05 ms;
//! moving a process through `cgroup.procs` first waits for an RCU grace period (measured: 4 to 22 ms). v2 has no such way for memory.
//! Processes of others are never moved or killed: a group with a process that outlives the command is left behind, and a later run removes
//! it once it is empty. Groups that the build created below its own are removed with it.
//!
//! On v2 a new group has a memory controller only if the group above passes it on. The kernel allows that only to the root and to groups
//! without processes of their own. Otherwise creating the group fails, and the caller measures the build in the agent's own group.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::fcntl::OFlag;

use super::{
    find::{Cgroup, CgroupVersion, Cgroups},
    limits::limit_file,
    parse::parse_memory_limit,
};
use crate::{
    clock,
    kernel::{self, Error},
};

/// Least memory limit in bytes. With less, the kernel could kill the agent, which is the largest process in the group while it starts the
/// command.
pub const MIN_LIMIT_BYTES: u64 = 16 << 20;

/// Swap in bytes that a v1 group may use: more than one huge page. Without any swap, the limit of memory with swap would be reached first,
/// and Linux 6.18 counts failures at that limit in neither `memory.failcnt` nor `memory.memsw.failcnt`.
const SWAP_BYTES: u64 = 4 << 20;
/// Start of the name of every group that an agent creates.
pub(super) const GROUP_PREFIX: &str = "plimsoll-";
/// An empty group that is older than this was left behind by an earlier run; a group is entered within milliseconds of its creation.
const LEFT_BEHIND_MS: u64 = 10 * 60 * 1000;
/// How often the removal of a group is tried: the group stays busy for a moment after its last process was reaped.
const REMOVE_TRIES: u32 = 5;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);
/// Most groups below one that are removed with it, and their greatest depth. The rest is left to a later run.
const REMOVE_GROUPS: usize = 1000;
const REMOVE_DEPTH: usize = 16;

/// The cgroups of one run.
#[derive(Debug)]
pub struct BuildCgroup {
    groups: Cgroups,
    folders: Vec<BuildFolder>,
}

/// One new group, and the group that the agent was in before.
#[derive(Debug)]
struct BuildFolder {
    build_group: PathBuf,
    agent_group: PathBuf,
    version: CgroupVersion,
}

impl BuildCgroup {
    /// Creates groups for the run `id` (a ULID) below those of the agent.
    pub fn make(agent: &Cgroups, id: &str) -> Result<Self, Error> {
        let mut own = Self { groups: agent.clone(), folders: Vec::new() };
        let made = own.make_folders(agent, &format!("{GROUP_PREFIX}{id}"));
        if made.is_err() {
            own.remove_now();
        }
        made.map(|()| own)
    }

    fn make_folders(&mut self, agent: &Cgroups, name: &str) -> Result<(), Error> {
        check_hierarchy(&agent.memory)?;
        remove_leftovers(&agent.memory.dir);
        self.groups.memory = self.make_folder(&agent.memory, name)?;
        pass_memory_on(&agent.memory, &self.groups.memory)?;
        self.groups.cpu = match &agent.cpu {
            Some(cpu) if cpu.dir == agent.memory.dir => Some(self.groups.memory.clone()),
            Some(cpu) => {
                remove_leftovers(&cpu.dir);
                Some(self.make_folder(cpu, name)?)
            }
            None => None,
        };
        if agent.huge_pages.as_ref().is_some_and(|group| group.dir == agent.memory.dir) {
            self.groups.huge_pages = Some(self.groups.memory.clone());
        }
        Ok(())
    }

    fn make_folder(&mut self, home: &Cgroup, name: &str) -> Result<Cgroup, Error> {
        let dir = home.dir.join(name);
        fs::create_dir(&dir).map_err(|problem| Error::new(&dir, problem))?;
        self.folders.push(BuildFolder {
            build_group: dir.clone(),
            agent_group: home.dir.clone(),
            version: home.version,
        });
        Ok(Cgroup { dir, ..home.clone() })
    }

    /// The groups that were created.
    pub fn groups(&self) -> &Cgroups {
        &self.groups
    }

    /// Sets the memory limit, and allows almost no swap, because a build that swaps is starved.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), Error> {
        write(&self.limit_path(), &bytes.to_string())?;
        self.set_swap_limit(bytes)
    }

    /// Raises the memory limit from `from` to `to`, bytes; as little swap is allowed as before.
    /// Errors: the kernel refuses; the limits are then as before.
    pub fn raise_memory_limit(&self, from: u64, to: u64) -> Result<(), Error> {
        // on v1, the limit of memory with swap may never be below that of memory
        self.set_swap_limit(to)?;
        write(&self.limit_path(), &to.to_string()).inspect_err(|_error| drop(self.set_swap_limit(from)))
    }

    /// The memory limit of the group, bytes; `None` for no limit.
    pub fn memory_limit(&self) -> Result<Option<u64>, Error> {
        let path = self.limit_path();
        let text = kernel::read(&path)?.ok_or_else(|| Error::content_error(&path, "a memory limit"))?;
        Ok(parse_memory_limit(&text))
    }

    fn limit_path(&self) -> PathBuf {
        self.groups.memory.dir.join(limit_file(self.groups.memory.version))
    }

    /// Limits swap for a build with the memory limit `memory`, bytes.
    fn set_swap_limit(&self, memory: u64) -> Result<(), Error> {
        let (name, bytes) = match self.groups.memory.version {
            CgroupVersion::V1 => ("memory.memsw.limit_in_bytes", memory.saturating_add(SWAP_BYTES)),
            CgroupVersion::V2 => ("memory.swap.max", 0),
        };
        match write(&self.groups.memory.dir.join(name), &bytes.to_string()) {
            // a kernel without swap accounting lacks this file
            Err(error) if error.problem.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Moves the calling thread (v2: this process) into the groups. If that fails, it stays in its group. The thread that entered must also
    /// leave.
    pub fn enter(&self) -> Result<(), Error> {
        let entered =
            self.folders.iter().try_for_each(|place| enter_group(&place.build_group, place.version));
        if entered.is_err() {
            self.leave();
        }
        entered
    }

    /// Moves the thread or the process back. A failure is only logged: the agent's own use is then measured with the build's.
    pub fn leave(&self) {
        for place in &self.folders {
            if let Err(error) = enter_group(&place.agent_group, place.version) {
                tracing::warn!(%error, "the agent stays in the group of the build");
            }
        }
    }

    /// Removes the groups, unless a process still runs in them.
    pub async fn remove(mut self) {
        for _try in 1..REMOVE_TRIES {
            self.remove_now();
            if self.folders.is_empty() {
                return;
            }
            tokio::time::sleep(REMOVE_PAUSE).await;
        }
        self.remove_now();
        for place in &self.folders {
            tracing::debug!(group = %place.build_group.display(), "processes outlive the command, their group stays");
        }
    }

    /// Removes the groups at once; used if nothing was started in them.
    pub fn discard(mut self) {
        self.remove_now();
    }

    /// Removes every group that can be removed from the disk, and forgets it.
    fn remove_now(&mut self) {
        self.folders.retain(|place| match remove_tree(&place.build_group) {
            Ok(()) => false,
            Err(problem) => problem.kind() != io::ErrorKind::NotFound,
        });
    }
}

/// Refuses v1 groups without `use_hierarchy`: their memory does not count in the group above, so the build would escape the agent's own
/// limit.
fn check_hierarchy(memory: &Cgroup) -> Result<(), Error> {
    let path = memory.dir.join("memory.use_hierarchy");
    match kernel::read(&path)? {
        Some(text) if memory.version == CgroupVersion::V1 && text.trim() == "0" => {
            Err(Error::content_error(&path, "a hierarchy"))
        }
        _other => Ok(()),
    }
}

/// Enables the memory controller for the new v2 group. This works if the group above has no processes of its own, or is the root.
fn pass_memory_on(home: &Cgroup, own: &Cgroup) -> Result<(), Error> {
    let current = own.dir.join("memory.current");
    let has = || current.try_exists().map_err(|problem| Error::new(&current, problem));
    if own.version == CgroupVersion::V1 || has()? {
        return Ok(());
    }
    write(&home.dir.join("cgroup.subtree_control"), "+memory")?;
    if has()? { Ok(()) } else { Err(Error::content_error(&current, "a memory controller")) }
}

/// Moves the calling thread (v1), or this process with all its threads (v2), to the group `dir`. 0 means the caller to the kernel; the
/// caller's own number would cost the long wait even in `tasks`.
fn enter_group(dir: &Path, version: CgroupVersion) -> Result<(), Error> {
    let name = match version {
        CgroupVersion::V1 => "tasks",
        CgroupVersion::V2 => "cgroup.procs",
    };
    write(&dir.join(name), "0")
}

/// Writes to an existing file with one `write`, as the kernel requires. Symbolic links are not followed, because no file of the kernel is
/// one.
fn write(path: &Path, value: &str) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path);
    let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|problem| Error::new(path, problem))
}

/// Removes a group and the groups below it, deepest first. The kernel refuses to remove groups that are in use.
fn remove_tree(dir: &Path) -> io::Result<()> {
    let mut groups = REMOVE_GROUPS;
    remove_below(dir, REMOVE_DEPTH, &mut groups);
    fs::remove_dir(dir)
}

fn remove_below(dir: &Path, depth: usize, groups: &mut usize) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if depth == 0 || *groups == 0 {
            return;
        }
        *groups -= 1;
        remove_below(&entry.path(), depth - 1, groups);
        if let Err(error) = fs::remove_dir(entry.path()) {
            tracing::debug!(group = %entry.path().display(), %error, "a group that the build made stays");
        }
    }
}

/// Removes groups in `parent` that earlier runs left behind. The kernel refuses to remove groups that are in use.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| is_left_behind(name, clock::unix_ms())) {
            let removed = remove_tree(&entry.path());
            tracing::debug!(group = %entry.path().display(), ?removed, "found the group of an earlier run");
        }
    }
}

/// Whether a group is old enough to have been left behind. Its name contains the time of its creation.
fn is_left_behind(name: &str, now_ms: u64) -> bool {
    let made = name.strip_prefix(GROUP_PREFIX).and_then(|id| ulid::Ulid::from_string(id).ok());
    made.is_some_and(|id| id.timestamp_ms().saturating_add(LEFT_BEHIND_MS) < now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cgroup::find, fake_kernel::FakeKernel};

    #[test]
    fn only_old_groups_of_our_own_are_swept() {
        let old = format!("{GROUP_PREFIX}{}", ulid::Ulid::from_parts(1_000, 7));
        assert!(is_left_behind(&old, 1_001 + LEFT_BEHIND_MS));
        assert!(!is_left_behind(&old, 1_000 + LEFT_BEHIND_MS));
        assert!(!is_left_behind("plimsoll-probe", u64::MAX));
        assert!(!is_left_behind("docker", u64::MAX));
    }

    #[test]
    fn nested_groups_are_removed_unless_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let place = |path: &str| dir.path().join(path);
        for path in ["own/a/b/c", "own/d", "used/a/b", "used/d"] {
            fs::create_dir_all(place(path)).unwrap();
        }
        remove_tree(&place("own")).unwrap();
        let exists = |path: &str| place(path).try_exists().unwrap();
        assert!(!exists("own"));
        // a folder with a file in it cannot be removed, like a group with a process
        fs::write(place("used/a/b/process"), "").unwrap();
        assert!(remove_tree(&place("used")).is_err());
        assert!(exists("used/a/b/process") && !exists("used/d"));
        let deep = format!("deep{}", "/x".repeat(REMOVE_DEPTH + 1));
        fs::create_dir_all(place(&deep)).unwrap();
        assert!(remove_tree(&place("deep")).is_err(), "the walk is bounded");
    }

    #[test]
    fn v2_groups_without_a_memory_controller_are_removed() {
        let fake = FakeKernel::v2("/build");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert!(BuildCgroup::make(&groups, "01").is_err());
        assert!(!groups.memory.dir.join("plimsoll-01").try_exists().unwrap());
    }

    #[test]
    fn groups_escaping_the_agents_limit_are_not_made() {
        let fake = FakeKernel::hybrid("/build", "/build");
        fake.write("/sys/fs/cgroup/memory/build/memory.use_hierarchy", "0\n");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        let error = BuildCgroup::make(&groups, "01").unwrap_err().to_string();
        assert!(error.contains("memory.use_hierarchy"), "{error}");
    }

    #[test]
    fn a_failed_entry_leaves_the_agent_in_place() {
        let fake = FakeKernel::hybrid("/build", "/build");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        let own = BuildCgroup::make(&groups, "01").unwrap();
        // a folder has no `tasks` of its own
        assert!(own.enter().is_err());
        let home = fs::read_to_string(groups.memory.dir.join("tasks")).unwrap();
        assert!(home.starts_with('0'), "{home}");
        own.discard();
    }

    #[test]
    fn a_refused_raise_leaves_both_limits() {
        let fake = FakeKernel::hybrid("/build", "/build");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        let own = BuildCgroup::make(&groups, "01").unwrap();
        let place = |name: &str| format!("/sys/fs/cgroup/memory/build/plimsoll-01/memory.{name}");
        let read = |name: &str| fs::read_to_string(fake.kernel().path(place(name))).unwrap();
        let (limit, with_swap) = ("limit_in_bytes", "memsw.limit_in_bytes");
        fake.write(&place(with_swap), "64000000");
        assert!(own.raise_memory_limit(60_000_000, 90_000_000).is_err(), "there is no file for the limit");
        assert_eq!(read(with_swap), "64194304");
        fake.write(&place(limit), "60000000");
        assert_eq!(own.memory_limit().unwrap(), Some(60_000_000));
        own.raise_memory_limit(60_000_000, 90_000_000).unwrap();
        assert_eq!((read(limit).as_str(), read(with_swap).as_str()), ("90000000", "94194304"));
    }

    #[test]
    fn a_refusing_hierarchy_leaves_no_partial_group() {
        let fake = FakeKernel::hybrid("/build", "/build");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        fake.write("/sys/fs/cgroup/cpuacct/build/plimsoll-01", "in the way");
        assert!(BuildCgroup::make(&groups, "01").is_err());
        assert!(!groups.memory.dir.join("plimsoll-01").try_exists().unwrap());
    }
}
