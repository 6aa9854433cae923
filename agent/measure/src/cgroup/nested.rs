//! Reads the v1 groups that the build creates below its own, as test suites and container tools do. v1 counts a kill or a failed charge
//! only in the group where it happened, so all groups are read; v2 adds them up itself.
//!
//! The last counters of a group still count after the group is removed. A group that is created and removed between two readings is missed.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::parse::parse_field;
use crate::kernel;

/// Most groups in one reading. If a build creates more, only the first ones are read.
const MAX_GROUPS: usize = 256;

/// Sums of the counters of the groups below the build's, since their creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NestedCounts {
    pub(super) oom_kills: u64,
    pub(super) failures: u64,
    /// Number of threads in these groups at the last reading.
    pub(super) tasks: u64,
}

impl NestedCounts {
    /// Combines the counters of a group with a new reading. Kills and failures keep the larger value, because the files of a group that is
    /// being removed read as empty.
    fn with_reading(self, now: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.max(now.oom_kills),
            failures: self.failures.max(now.failures),
            tasks: now.tasks,
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.saturating_add(other.oom_kills),
            failures: self.failures.saturating_add(other.failures),
            tasks: self.tasks.saturating_add(other.tasks),
        }
    }
}

/// The v1 groups below one group.
#[derive(Debug)]
pub(super) struct NestedGroups {
    dir: PathBuf,
    /// Last counters of each group by its inode number, which the kernel does not reuse for another group.
    known: HashMap<u64, NestedCounts>,
    removed_counts: NestedCounts,
}

impl NestedGroups {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, known: HashMap::new(), removed_counts: NestedCounts::default() }
    }

    /// The sums over all groups below, including removed ones. If there is no such group, this costs one `stat`.
    pub(super) fn read(&mut self) -> NestedCounts {
        // the link count of a folder is 2, plus one for each folder in it
        let none = fs::metadata(&self.dir).is_ok_and(|dir| dir.nlink() == 2);
        if !(none && self.known.is_empty()) {
            self.find_groups();
        }
        self.known.values().fold(self.removed_counts, |sum, &counts| sum.add(counts))
    }

    fn find_groups(&mut self) {
        let (mut found, mut complete) = (HashMap::new(), true);
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for (group, path) in groups_in(&folder).take(MAX_GROUPS + 1 - found.len()) {
                found.insert(group, read_counts(&path));
                folders.push(path);
            }
            if found.len() > MAX_GROUPS {
                complete = false;
                break;
            }
        }
        self.add_found(found, complete);
    }

    fn add_found(&mut self, found: HashMap<u64, Option<NestedCounts>>, complete: bool) {
        let (known, gone) = (&mut self.known, &mut self.removed_counts);
        known.retain(|group, counts| {
            counts.tasks = 0;
            let stays = !complete || found.contains_key(group);
            if !stays {
                *gone = gone.add(*counts);
            }
            stays
        });
        for (group, counts) in found {
            if known.len() >= MAX_GROUPS && !known.contains_key(&group) {
                continue;
            }
            // if the group was removed while it was read, the earlier counters stay; the next reading does not find the group
            let before = known.entry(group).or_default();
            *before = counts.map_or(*before, |now| before.with_reading(now));
        }
    }
}

/// Inode number and path of each group directly below `folder`.
fn groups_in(folder: &Path) -> impl Iterator<Item = (u64, PathBuf)> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| {
        let is_group = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_group { Some((entry.metadata().ok()?.ino(), entry.path())) } else { None }
    })
}

/// The counters of one group; `None` if it has none, or is being removed.
fn read_counts(dir: &Path) -> Option<NestedCounts> {
    let text = |name| kernel::read(&dir.join(name)).ok().flatten();
    let kills = parse_field(&text("memory.oom_control")?, "oom_kill").unwrap_or(0);
    let failures = text("memory.failcnt").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let tasks = text("tasks").map_or(0, |text| text.lines().count());
    Some(NestedCounts { oom_kills: kills, failures, tasks: u64::try_from(tasks).unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    fn group(fake: &FakeKernel, path: &str, kills: u64) {
        fake.write(&format!("/g/{path}/memory.oom_control"), &format!("under_oom 0\noom_kill {kills}\n"));
        fake.write(&format!("/g/{path}/memory.failcnt"), "10\n");
        fake.write(&format!("/g/{path}/tasks"), "1\n2\n");
    }

    #[test]
    fn kills_in_nested_groups_outlive_the_groups() {
        let fake = FakeKernel::new();
        fake.write("/g/memory.failcnt", "0\n");
        let mut nested = NestedGroups::new(fake.kernel().path("/g"));
        assert_eq!(nested.read(), NestedCounts::default());
        group(&fake, "a b", 1);
        group(&fake, "a b/c", 2);
        assert_eq!(nested.read(), NestedCounts { oom_kills: 3, failures: 20, tasks: 4 });
        fs::remove_dir_all(fake.kernel().path("/g/a b")).unwrap();
        assert_eq!(nested.read(), NestedCounts { oom_kills: 3, failures: 20, tasks: 0 });
        group(&fake, "new", 5);
        assert_eq!(nested.read(), NestedCounts { oom_kills: 8, failures: 30, tasks: 2 });
    }

    #[test]
    fn a_group_being_removed_keeps_its_counts() {
        let fake = FakeKernel::new();
        fake.write("/g/memory.failcnt", "0\n");
        let mut nested = NestedGroups::new(fake.kernel().path("/g"));
        group(&fake, "a", 2);
        assert_eq!(nested.read(), NestedCounts { oom_kills: 2, failures: 10, tasks: 2 });
        // the kernel takes the files away one by one
        fs::remove_file(fake.kernel().path("/g/a/memory.failcnt")).unwrap();
        assert_eq!(nested.read(), NestedCounts { oom_kills: 2, failures: 10, tasks: 2 });
        fs::remove_dir_all(fake.kernel().path("/g/a")).unwrap();
        assert_eq!(nested.read(), NestedCounts { oom_kills: 2, failures: 10, tasks: 0 });
    }

    #[test]
    fn the_number_of_nested_groups_is_bounded() {
        let fake = FakeKernel::new();
        for number in 0..MAX_GROUPS + 50 {
            group(&fake, &number.to_string(), 1);
        }
        let mut nested = NestedGroups::new(fake.kernel().path("/g"));
        let limit = u64::try_from(MAX_GROUPS).unwrap();
        assert_eq!(nested.read().oom_kills, limit);
        assert_eq!(nested.read().oom_kills, limit);
    }
}
