//! Limits the bytes of all spool files in one directory, including files that were set aside and drafts.
//!
//! Several agents may share the directory, so each one measures it again after every [`MEASURE_INTERVAL_BYTES`] bytes that it writes. The limit may
//! be exceeded by that much for each agent that runs at the same time. A file counts as at least one block, so that the number of files is
//! limited too.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Suffix of a spool file that waits for delivery.
pub(crate) const SPOOL_SUFFIX: &str = "spool";
/// Suffix of a spool file that the server refused for good.
pub(crate) const REFUSED_SUFFIX: &str = "refused";
/// Suffix of a spool file that its agent is still creating.
pub(super) const DRAFT_SUFFIX: &str = "draft";

/// Number of bytes that an agent writes before it measures the directory again.
const MEASURE_INTERVAL_BYTES: u64 = 64 * 1024;
/// Number of samples that are refused before an agent measures again whether there is space.
const LOOK_AGAIN_AFTER: u32 = 64;
/// Bytes that the smallest file takes on common file systems.
const BLOCK_BYTES: u64 = 4096;

/// A file of the spool directory.
#[derive(Debug)]
pub(super) struct SpoolFile {
    pub(super) path: PathBuf,
    /// Number of bytes that the file counts as, at least one block.
    pub(super) bytes: u64,
    /// Time of the last write.
    pub(super) modified: SystemTime,
}

/// How many bytes one spool file may grow.
#[derive(Debug)]
pub(super) struct SpoolQuota {
    dir: PathBuf,
    bytes: u64,
    others_bytes: u64,
    measured_at: u64,
    refused_growths: u32,
}

impl SpoolQuota {
    /// The quota for a new file in `dir`. `bytes`: the limit for all files of the directory together.
    pub(super) fn new(dir: &Path, bytes: u64) -> Self {
        let mut room = Self {
            dir: dir.to_owned(),
            bytes,
            others_bytes: 0,
            measured_at: 0,
            refused_growths: LOOK_AGAIN_AFTER,
        };
        room.measure_others(Path::new(""), 0);
        room
    }

    /// A quota that allows no growth, for a file that is only read.
    pub(super) fn none() -> Self {
        Self { dir: PathBuf::new(), bytes: 0, others_bytes: 0, measured_at: 0, refused_growths: 0 }
    }

    /// The limit for all files of the directory together, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the file `own`, now `len` bytes long, may grow by `more`.
    pub(super) fn admits(&mut self, own: &Path, len: u64, more: u64) -> bool {
        let grown = len.saturating_add(more);
        if len.saturating_sub(self.measured_at) >= MEASURE_INTERVAL_BYTES {
            self.measure_others(own, len);
        }
        if self.fits(grown) {
            return true;
        }
        self.refused_growths = self.refused_growths.saturating_add(1);
        if self.refused_growths >= LOOK_AGAIN_AFTER {
            self.refused_growths = 0;
            self.measure_others(own, len);
            self.make_room(own, grown);
        }
        self.fits(grown)
    }

    /// Records that this agent's own file became shorter.
    pub(super) fn note_shrunk(&mut self, len: u64) {
        self.measured_at = self.measured_at.min(len);
    }

    fn fits(&self, len: u64) -> bool {
        self.others_bytes.saturating_add(len.max(BLOCK_BYTES)) <= self.bytes
    }

    fn measure_others(&mut self, own: &Path, len: u64) {
        self.measured_at = len;
        let entries = [SPOOL_SUFFIX, REFUSED_SUFFIX, DRAFT_SUFFIX]
            .into_iter()
            .flat_map(|suffix| list_files(&self.dir, suffix));
        self.others_bytes = entries
            .filter(|entry| entry.path != own)
            .fold(0, |sum: u64, entry| sum.saturating_add(entry.bytes));
    }

    /// Removes files that the server refused, oldest first. They are kept for people to examine, but new samples are more important.
    fn make_room(&mut self, own: &Path, len: u64) {
        for entry in list_files(&self.dir, REFUSED_SUFFIX) {
            if self.fits(len) {
                return;
            }
            if fs::remove_file(&entry.path).is_ok() {
                tracing::warn!(path = %entry.path.display(), "removed a refused spool file to make room");
                self.measure_others(own, len);
            }
        }
    }
}

/// The files of `dir` with a suffix, oldest first; none if the directory cannot be read.
pub(super) fn list_files(dir: &Path, suffix: &str) -> Vec<SpoolFile> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let path = entry.path();
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        // a sparse file takes less space than its length says
        let bytes = metadata.len().min(metadata.blocks().saturating_mul(512)).max(BLOCK_BYTES);
        (path.extension()? == suffix).then_some(SpoolFile {
            path,
            bytes,
            modified: metadata.modified().ok()?,
        })
    };
    let mut entries: Vec<SpoolFile> = fs::read_dir(dir).into_iter().flatten().filter_map(entry).collect();
    entries.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    entries
}
