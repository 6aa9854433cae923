//! Reads the counters of the cgroups above the build's, each for its own limit. They show at which limit a kill happened, and whether other
//! builds take memory from this one.
//!
//! On v2, `memory.events` of a group includes the counts of all groups below it; only `memory.events.local` (Linux 5.2) has the group's
//! own. v1 has no count of `oom`, but before a kill at a limit some charges always fail there.

use std::path::Path;

use super::{
    find::{Cgroup, CgroupVersion},
    parse::{failed_charges, parse_field, parse_memory_limit},
};
use crate::kernel::{self, Error, KeptFile};

/// Most groups above that are read, the nearest ones first. Kubernetes has four.
const MAX_GROUPS: usize = 16;

/// Counters of the groups above the build's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AncestorCounts {
    /// Number of charges that failed for good (v2 `oom`), or that failed at all (v1), at any limit above.
    pub(super) limits: u64,
    /// Number of charges that failed at the limit in force, if that limit is above the build's group.
    pub(super) failures: Option<u64>,
}

/// The open files of the groups above the build's.
#[derive(Debug)]
pub(super) struct AncestorLimits {
    files: Vec<LimitFiles>,
    /// Whether every group up to the root of the machine can be read. Then a failure that none of them counted did not happen at a limit.
    is_complete: bool,
}

/// The counters of one group for its own limit.
#[derive(Debug)]
pub(super) struct LimitFiles {
    version: CgroupVersion,
    /// The file `memory.events.local` (v2) or `memory.failcnt` (v1).
    memory: KeptFile,
    /// v1: the file that counts charges which failed at the limit of memory with swap.
    swap: Option<KeptFile>,
    in_force: bool,
}

impl LimitFiles {
    /// Opens the files of the group `dir`; `None` if the group has none.
    pub(super) fn open(dir: &Path, version: CgroupVersion) -> Result<Option<Self>, Error> {
        let (memory, swap) = match version {
            CgroupVersion::V1 => ("memory.failcnt", KeptFile::open(dir.join("memory.memsw.failcnt"))?),
            CgroupVersion::V2 => ("memory.events.local", None),
        };
        let memory = KeptFile::open(dir.join(memory))?;
        Ok(memory.map(|memory| Self { version, memory, swap, in_force: false }))
    }

    /// The number of failed charges, and of those among them that failed for good, if the kernel counts these separately. `None` if they
    /// cannot be read.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
        match self.version {
            CgroupVersion::V1 => {
                let memory = self.memory.read_number(buffer).ok()?;
                let swap = self.swap.as_ref().and_then(|file| file.read_number(buffer).ok()).unwrap_or(0);
                let failures = memory.saturating_add(swap);
                Some((failures, failures))
            }
            CgroupVersion::V2 => {
                let text = self.memory.read(buffer).ok()?;
                Some((failed_charges(text).unwrap_or(0), parse_field(text, "oom")?))
            }
        }
    }
}

impl AncestorLimits {
    /// Opens the files of the groups above `group`. `limiting`: folder of the group with the limit in force.
    pub(super) fn open(group: &Cgroup, limiting: Option<&Path>) -> Result<Self, Error> {
        let mut above = Self { files: Vec::new(), is_complete: !hides_failures(&group.dir) };
        for dir in group.and_ancestors().skip(1).take(MAX_GROUPS) {
            let place = Cgroup { dir: dir.to_owned(), ..group.clone() };
            if place.is_root() {
                return Ok(above);
            }
            match LimitFiles::open(dir, group.version)? {
                Some(files) => {
                    above.is_complete &= !hides_failures(dir);
                    above.files.push(LimitFiles { in_force: limiting == Some(dir), ..files });
                }
                None => above.is_complete = false,
            }
        }
        above.is_complete = false;
        Ok(above)
    }

    /// Reads all counters. The flag is true if they include every limit that exists.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> (AncestorCounts, bool) {
        let (mut hits, mut complete) = (AncestorCounts::default(), self.is_complete);
        for files in &self.files {
            let Some((failures, limits)) = files.read(buffer) else {
                complete = false;
                continue;
            };
            hits.limits = hits.limits.saturating_add(limits);
            if files.in_force {
                hits.failures = Some(failures);
            }
        }
        (hits, complete)
    }
}

/// Whether the kernel does not count failed charges of this group: a v1 group with a limit of memory with swap that is not above the limit
/// of memory alone. Charges then fail at the first limit, which Linux 6.18 counts in no file.
fn hides_failures(dir: &Path) -> bool {
    let limit = |name| parse_memory_limit(&kernel::read(&dir.join(name)).ok().flatten()?);
    let Some(with_swap) = limit("memory.memsw.limit_in_bytes") else { return false };
    limit("memory.limit_in_bytes").is_none_or(|memory| with_swap <= memory)
}
