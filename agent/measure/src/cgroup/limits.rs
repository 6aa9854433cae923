//! Finds the limits in force for a group: the smallest limit of the group and of all groups above it, because that one is reached first.

use std::path::{Path, PathBuf};

use super::{
    find::{Cgroup, CgroupVersion, Cgroups},
    parse::{parse_cpu_max, parse_cpu_quota, parse_field, parse_memory_limit},
};
use crate::kernel;

/// The limits in force for a group. A limit that cannot be read counts as no limit, because limits are only reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CgroupLimits {
    /// Smallest memory limit, bytes. v2 `memory.high` is one: the kernel kills nothing there, but holds a build that needs more.
    pub memory: Option<u64>,
    /// Smallest memory limit at which the kernel kills, bytes.
    pub killing: Option<u64>,
    /// Folder of the group with the smallest memory limit, if it is visible.
    pub limiting: Option<PathBuf>,
    /// Smallest CPU limit, cores.
    pub cpu: Option<f64>,
    /// Folder of the group with the smallest CPU limit: only there the kernel counts how long it throttled the build.
    pub throttling: Option<PathBuf>,
}

/// A memory limit at which the kernel kills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillingLimit {
    /// The limit, bytes.
    pub bytes: u64,
    /// The file with the limit.
    pub file: PathBuf,
    /// Bytes below the limit that are free, or hold pages of files, which the kernel can reclaim; `None` if unknown.
    pub left: Option<u64>,
}

impl KillingLimit {
    /// The limits of the group that charges memory and of the visible groups above it, nearest first.
    pub fn of(groups: &Cgroups) -> impl Iterator<Item = Self> {
        let version = groups.memory.version;
        groups.memory.and_ancestors().filter_map(move |dir| {
            let (bytes, file) = (memory_limit(dir, version)?, dir.join(limit_file(version)));
            Some(Self { bytes, file, left: memory_left(dir, version, bytes) })
        })
    }
}

impl CgroupLimits {
    /// Reads the memory limits again, because they may change while a build runs. Once the group is gone, the last ones stay.
    pub(crate) fn refresh(&mut self, groups: &Cgroups) {
        if limit_text(&groups.memory.dir, limit_file(groups.memory.version)).is_some() {
            (self.memory, self.killing, self.limiting) = memory_limits(groups);
        }
    }

    /// Reads the limits in force for `groups`.
    pub fn read(groups: &Cgroups) -> Self {
        let (memory, killing, limiting) = memory_limits(groups);
        let cpu = groups.quota.iter().flat_map(cpu_limits).min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (cpu, throttling) = cpu.map(|(cores, dir)| (cores, dir.to_owned())).unzip();
        Self { memory, killing, limiting, cpu, throttling }
    }
}

/// The smallest memory limit, the smallest at which the kernel kills, and the folder of the group with the first, if it is visible.
fn memory_limits(groups: &Cgroups) -> (Option<u64>, Option<u64>, Option<PathBuf>) {
    let (version, above) = (groups.memory.version, hierarchical_limit(&groups.memory));
    let killing = groups.memory.and_ancestors().filter_map(|dir| memory_limit(dir, version));
    let killing = killing.chain(above).min();
    let seen = groups.memory.and_ancestors().filter_map(|dir| {
        let limits = [
            memory_limit(dir, version),
            parse_memory_limit(&limit_text(dir, "memory.high").unwrap_or_default()),
        ];
        Some((limits.into_iter().flatten().min()?, dir))
    });
    // if limits are equal, the nearest one is taken: its counters are about this build alone, those of groups above also about other
    // builds
    let smallest = seen.min_by_key(|&(bytes, _dir)| bytes);
    let memory = smallest.map(|(bytes, _dir)| bytes).into_iter().chain(above).min();
    let limiting =
        smallest.filter(|&(bytes, _dir)| Some(bytes) == memory).map(|(_bytes, dir)| dir.to_owned());
    (memory, killing, limiting)
}

fn limit_text(dir: &Path, name: &str) -> Option<String> {
    kernel::read(&dir.join(name)).ok().flatten()
}

pub(super) fn limit_file(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "memory.limit_in_bytes",
        CgroupVersion::V2 => "memory.max",
    }
}

fn memory_limit(dir: &Path, version: CgroupVersion) -> Option<u64> {
    parse_memory_limit(&limit_text(dir, limit_file(version))?)
}

/// What is left below the limit of this group, pages of files included.
fn memory_left(dir: &Path, version: CgroupVersion, limit: u64) -> Option<u64> {
    let (usage, file_pages) = match version {
        CgroupVersion::V1 => ("memory.usage_in_bytes", ["total_inactive_file", "total_active_file"]),
        CgroupVersion::V2 => ("memory.current", ["inactive_file", "active_file"]),
    };
    let used: u64 = limit_text(dir, usage)?.trim().parse().ok()?;
    let stat = limit_text(dir, "memory.stat").unwrap_or_default();
    let of_files: u64 = file_pages.iter().filter_map(|name| parse_field(&stat, name)).sum();
    Some(limit.saturating_sub(used.saturating_sub(of_files)))
}

/// The smallest memory limit of the groups above the visible ones. v1 reports it in `memory.stat`, v2 does not.
fn hierarchical_limit(group: &Cgroup) -> Option<u64> {
    if group.version == CgroupVersion::V2 {
        return None;
    }
    let bytes = parse_field(&limit_text(&group.dir, "memory.stat")?, "hierarchical_memory_limit")?;
    parse_memory_limit(&bytes.to_string())
}

fn cpu_limits(group: &Cgroup) -> impl Iterator<Item = (f64, &Path)> {
    group.and_ancestors().filter_map(|dir| {
        let cores = match group.version {
            CgroupVersion::V1 => {
                parse_cpu_quota(&limit_text(dir, "cpu.cfs_quota_us")?, &limit_text(dir, "cpu.cfs_period_us")?)
            }
            CgroupVersion::V2 => parse_cpu_max(&limit_text(dir, "cpu.max")?),
        };
        Some((cores?, dir))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cgroup::find, fake_kernel::FakeKernel};

    #[test]
    fn the_smallest_ancestor_limit_is_in_force() {
        let fake = FakeKernel::v2("/kubepods/pod1/build");
        let base = "/sys/fs/cgroup/kubepods";
        fake.write(&format!("{base}/memory.max"), "8589934592\n");
        fake.write(&format!("{base}/pod1/memory.max"), "2147483648\n");
        fake.write(&format!("{base}/pod1/build/memory.max"), "max\n");
        fake.write(&format!("{base}/cpu.max"), "400000 100000\n");
        fake.write(&format!("{base}/pod1/build/cpu.max"), "max 100000\n");
        let limits = CgroupLimits::read(&find(&fake.kernel(), "self").unwrap().unwrap());
        assert_eq!(limits.memory, Some(2 << 30));
        assert!(limits.limiting.unwrap().ends_with("kubepods/pod1"));
        assert_eq!(limits.cpu, Some(4.0));
        assert!(limits.throttling.unwrap().ends_with("cgroup/kubepods"));
    }

    #[test]
    fn memory_high_is_a_limit_that_kills_nothing() {
        let fake = FakeKernel::v2("/pod/build");
        fake.write("/sys/fs/cgroup/pod/memory.max", "8000000\n");
        fake.write("/sys/fs/cgroup/pod/build/memory.high", "max\n");
        let read = || CgroupLimits::read(&find(&fake.kernel(), "self").unwrap().unwrap());
        assert_eq!((read().memory, read().killing), (Some(8_000_000), Some(8_000_000)));
        fake.write("/sys/fs/cgroup/pod/memory.high", "7000000\n");
        assert_eq!((read().memory, read().killing), (Some(7_000_000), Some(8_000_000)));
        assert!(read().limiting.unwrap().ends_with("cgroup/pod"));
    }

    #[test]
    fn page_cache_counts_as_left_below_limits() {
        let v2 = FakeKernel::v2("/ci/server");
        v2.write("/sys/fs/cgroup/ci/memory.max", "1000\n");
        v2.write("/sys/fs/cgroup/ci/memory.current", "900\n");
        v2.write("/sys/fs/cgroup/ci/memory.stat", "anon 500\ninactive_file 300\nactive_file 60\n");
        let v1 = FakeKernel::hybrid("/server", "/");
        v1.write("/sys/fs/cgroup/memory/server/memory.limit_in_bytes", "1000\n");
        v1.write("/sys/fs/cgroup/memory/server/memory.usage_in_bytes", "900\n");
        let stat = "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 3\n";
        v1.write("/sys/fs/cgroup/memory/server/memory.stat", stat);
        for (fake, file, left) in
            [(v2, "cgroup/ci/memory.max", 460), (v1, "memory/server/memory.limit_in_bytes", 133)]
        {
            let groups = find(&fake.kernel(), "self").unwrap().unwrap();
            let limits: Vec<_> = KillingLimit::of(&groups).collect();
            assert_eq!(limits.len(), 1, "{limits:?}");
            assert_eq!((limits[0].bytes, limits[0].left), (1000, Some(left)));
            assert!(limits[0].file.ends_with(file), "{limits:?}");
        }
    }

    #[test]
    fn v1_knows_limits_above_what_is_mounted() {
        let fake = FakeKernel::hybrid("/build", "/");
        let dir = "/sys/fs/cgroup/memory/build";
        fake.write(&format!("{dir}/memory.limit_in_bytes"), "9223372036854771712\n");
        let groups = find(&fake.kernel(), "self").unwrap().unwrap();
        assert_eq!(CgroupLimits::read(&groups), CgroupLimits::default());
        fake.write(&format!("{dir}/memory.stat"), "hierarchical_memory_limit 1073741824\ntotal_rss 1\n");
        let limits = CgroupLimits::read(&groups);
        assert_eq!((limits.memory, limits.limiting), (Some(1 << 30), None));
        fake.write(&format!("{dir}/memory.limit_in_bytes"), "1073741824\n");
        assert!(CgroupLimits::read(&groups).limiting.unwrap().ends_with("memory/build"));
    }
}
