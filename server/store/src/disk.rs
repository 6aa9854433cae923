//! Free space on the disk of a store.

use std::{io, path::Path};

/// Free and total space of a disk.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// Bytes that this process may still write.
    pub free: u64,
    /// Total size of the disk, bytes.
    pub size: u64,
}

/// Space on the disk with the directory `dir`.
/// Errors: the system call fails.
pub fn disk(dir: &Path) -> io::Result<DiskSpace> {
    let stat = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(DiskSpace { free: bytes(stat.f_bavail), size: bytes(stat.f_blocks) })
}
