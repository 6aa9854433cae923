//! Counts huge pages of hugetlbfs: `mmap` with `MAP_HUGETLB`, Java with large pages, DPDK. A build holds them until it frees them, so they are
//! need. `memory.stat` has them in none of the numbers that make up the need, whether `memory.current` includes them (mount option
//! `memory_hugetlb_accounting`) or not.
//!
//! | counted by | when |
//! |---|---|
//! | the controller `hugetlb`, v1 or v2 | the build's group has its files |
//! | the processes: `HugetlbPages` of `status`, and `smaps_rollup` for those that have some | otherwise, while the machine has huge pages |

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cgroup::Cgroup,
    kernel::{self, KeptFile},
    proctree::kib_field,
};

/// Readings between two looks at whether the machine has huge pages: that changes rarely, and `/proc/meminfo` takes as long as a process.
const READINGS_PER_LOOK: u32 = 10;
/// Bytes of a file with one number.
const NUMBER_BYTES: usize = 64;

/// The huge pages of one build.
#[derive(Debug)]
pub(crate) struct HugePages {
    proc: PathBuf,
    /// The files of the controller, one for each size of page.
    files: Vec<KeptFile>,
    /// Bytes that the group had before the build.
    before: u64,
    buffer: Vec<u8>,
    until_look: u32,
    machine_has_some: bool,
    /// Bytes at the last reading.
    pub(crate) last: u64,
}

impl HugePages {
    /// Counts with the files of `group`, if it has some and is not the whole machine, else with the processes that `proc` shows.
    pub(crate) fn of(proc: PathBuf, group: Option<&Cgroup>) -> Self {
        let group = group.filter(|group| !group.is_root());
        Self {
            proc,
            files: group.map(|group| open_files(&group.dir)).unwrap_or_default(),
            before: 0,
            buffer: vec![0; NUMBER_BYTES],
            until_look: 0,
            machine_has_some: false,
            last: 0,
        }
    }

    /// Leaves out what the group has now, because the group is not the build's own.
    pub(crate) fn counted_from_now(mut self) -> Self {
        self.before = self.read_files();
        self
    }

    /// Counts with the processes from now on.
    pub(crate) fn leave_group(&mut self) {
        self.files.clear();
    }

    /// Reads the bytes of the build's huge pages. `pids`: its processes, which are only asked for if they are needed.
    pub(crate) fn read(&mut self, pids: impl FnOnce() -> Vec<i32>) -> u64 {
        if !self.files.is_empty() {
            self.last = self.read_files().saturating_sub(self.before);
            return self.last;
        }
        if self.until_look == 0 {
            self.until_look = READINGS_PER_LOOK;
            let machine = kernel::read(&self.proc.join("meminfo")).ok().flatten().unwrap_or_default();
            let has = |name| kib_field(&machine, name).is_some_and(|amount| amount > 0);
            // kernels before Linux 4.19 have only the number of pages of the default size
            self.machine_has_some = has("Hugetlb:") || has("HugePages_Total:");
        }
        self.until_look -= 1;
        self.last = if self.machine_has_some { of_processes(&self.proc, &pids()) } else { 0 };
        self.last
    }

    /// Whether a reading looks at the processes.
    pub(crate) fn reads_processes(&self) -> bool {
        self.files.is_empty() && self.machine_has_some
    }

    fn read_files(&mut self) -> u64 {
        let buffer = &mut self.buffer;
        self.files.iter().filter_map(|file| file.read_number(buffer).ok()).fold(0, u64::saturating_add)
    }
}

/// Opens `hugetlb.SIZE.current` (v2) or `hugetlb.SIZE.usage_in_bytes` (v1) of each size. The files for reserved pages are left out.
fn open_files(dir: &Path) -> Vec<KeptFile> {
    let names = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let counts = |name: &String| {
        let size = name.strip_prefix("hugetlb.").and_then(|name| name.split_once('.'));
        size.is_some_and(|(_size, kind)| matches!(kind, "current" | "usage_in_bytes"))
    };
    names.filter(counts).filter_map(|name| KeptFile::open(dir.join(name)).ok().flatten()).collect()
}

/// Bytes of huge pages of these processes. Pages that several of them map count once, as far as the kernel says which these are.
fn of_processes(proc: &Path, pids: &[i32]) -> u64 {
    let (mut private, mut shared) = (0_u64, 0);
    for pid in pids.iter().filter(|&&pid| pid > 0) {
        let folder = proc.join(pid.to_string());
        let text = |name| kernel::read(&folder.join(name)).ok().flatten().unwrap_or_default();
        let Some(all) = kib_field(&text("status"), "HugetlbPages:").filter(|&bytes| bytes > 0) else {
            continue;
        };
        let rollup = text("smaps_rollup");
        private += kib_field(&rollup, "Private_Hugetlb:").unwrap_or(all);
        shared = kib_field(&rollup, "Shared_Hugetlb:").unwrap_or(0).max(shared);
    }
    private.saturating_add(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn huge_pages_count_by_group_or_by_processes() {
        let fake = FakeKernel::v2("/build");
        let group = crate::cgroup::find(&fake.kernel(), "self").unwrap().unwrap().memory;
        fake.write("/proc/meminfo", "MemTotal: 9 kB\nHugePages_Total:       0\nHugetlb:  4096 kB\n");
        for (pid, private, shared) in [(7, 2, 6), (8, 4, 6)] {
            let all = private + shared;
            fake.write(&format!("/proc/{pid}/status"), &format!("Name:\tx\nHugetlbPages:\t{all} kB\n"));
            let rollup = format!("1-2 rollup\nShared_Hugetlb:  {shared} kB\nPrivate_Hugetlb: {private} kB\n");
            fake.write(&format!("/proc/{pid}/smaps_rollup"), &rollup);
        }
        fake.write("/proc/9/status", "Name:\tx\nHugetlbPages:\t1 kB\n");
        let read = |pages: HugePages| { pages }.read(|| vec![0, 7, 8, 9, 10]);
        let pages = HugePages::of(fake.kernel().path("/proc"), Some(&group));
        assert_eq!(read(pages), 13 << 10, "2, 4, 1, and 6 once");
        fake.write("/proc/meminfo", "Hugetlb: 0 kB\n");
        assert_eq!(read(HugePages::of(fake.kernel().path("/proc"), None)), 0, "no process is read");
        for (size, bytes) in
            [("2MB.current", 300), ("1GB.current", 40), ("2MB.rsvd.current", 9), ("2MB.max", 9)]
        {
            fake.write(&format!("/sys/fs/cgroup/build/hugetlb.{size}"), &format!("{bytes}\n"));
        }
        assert_eq!(read(HugePages::of(fake.kernel().path("/proc"), Some(&group))), 340);
        assert_eq!(read(HugePages::of(fake.kernel().path("/proc"), Some(&group)).counted_from_now()), 0);
    }
}
