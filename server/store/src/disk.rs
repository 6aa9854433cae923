//! The room on the disk of a store.

use std::{io, path::Path};

/// A disk.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// Bytes that this process may still write.
    pub free: u64,
    /// All of its bytes.
    pub size: u64,
}

/// The disk that holds `dir`.
///
/// # Errors
/// The system does not say.
pub fn disk(dir: &Path) -> io::Result<DiskSpace> {
    let stat = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(DiskSpace { free: bytes(stat.f_bavail), size: bytes(stat.f_blocks) })
}
