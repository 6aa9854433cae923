//! Agent binaries that the server offers for download: one static binary for each platform, read once at the start.
//!
//! | file in `agent_dir` | for |
//! |---|---|
//! | `plimsoll-linux-amd64` | x86-64 |
//! | `plimsoll-linux-arm64` | `AArch64` |
//!
//! A file that cannot run on its platform is an error when the server starts: otherwise jobs would
//! run unmeasured, and only their logs would show it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The platforms, with the names that container tools use and their ELF machine numbers.
const PLATFORMS: [(&str, u16); 2] = [("linux-amd64", 62), ("linux-arm64", 183)];

/// Start of a file's name; the platform follows.
const PREFIX: &str = "plimsoll-";

/// Largest file that is read into memory, bytes; the static agent has about 6 MiB.
const MAX_BYTES: u64 = 256 << 20;

/// Why a file cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableFile {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{} is no agent for {platform}: {why}; put a static build of the agent there", path.display())]
    Wrong { path: PathBuf, platform: &'static str, why: String },
    #[error("{} has no {PREFIX}linux-amd64 and no {PREFIX}linux-arm64", .0.display())]
    Nothing(PathBuf),
}

/// A binary with its SHA-256.
#[derive(Debug, Clone)]
pub(crate) struct AgentFile {
    pub(crate) bytes: Arc<[u8]>,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// The binaries by platform. Cheap to clone.
#[derive(Debug, Default)]
pub(crate) struct AgentFiles(BTreeMap<&'static str, AgentFile>);

impl AgentFiles {
    /// Reads the files of a directory, and logs which exist.
    /// Errors: the directory has no binary, or one that cannot run on its platform.
    pub(crate) fn read(dir: &Path) -> Result<Self, UnusableFile> {
        let mut files = BTreeMap::new();
        for (platform, machine) in PLATFORMS {
            let path = dir.join(format!("{PREFIX}{platform}"));
            let Some(bytes) =
                contents(&path).map_err(|error| UnusableFile::Unreadable { path: path.clone(), error })?
            else {
                continue;
            };
            let is_static =
                is_static(&bytes, machine).map_err(|why| UnusableFile::Wrong { path, platform, why })?;
            if !is_static {
                tracing::warn!(
                    platform,
                    "the agent is linked dynamically: it runs only in images with its C library"
                );
            }
            let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
            let sha256 = hexadecimal(digest.as_ref());
            tracing::info!(platform, bytes = bytes.len(), sha256, "hands out the agent");
            files.insert(platform, AgentFile { bytes: bytes.into(), sha256 });
        }
        if files.is_empty() { Err(UnusableFile::Nothing(dir.to_owned())) } else { Ok(Self(files)) }
    }

    /// The binary for a platform.
    pub(crate) fn get(&self, platform: &str) -> Option<&AgentFile> {
        self.0.get(platform)
    }

    /// Checksums of all files, in the format of `sha256sum`.
    pub(crate) fn sha256sums(&self) -> String {
        let line = |(platform, file): (&&str, &AgentFile)| {
            [file.sha256.as_str(), "  ", PREFIX, platform, "\n"].concat()
        };
        self.0.iter().map(line).collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of a file; `None` if it does not exist.
fn contents(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Whether a program for the machine type `machine` is statically linked. The error describes bytes
/// that are no such program. The layout is that of ELF-64 files (`man 5 elf`).
fn is_static(bytes: &[u8], machine: u16) -> Result<bool, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
    }
    let cut = || "it ends too early".to_owned();
    if !bytes.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err("it is no 64-bit little-endian ELF file".to_owned());
    }
    if little_endian(bytes, 18, 2).ok_or_else(cut)? != u64::from(machine) {
        return Err("it is built for another processor".to_owned());
    }
    let table = little_endian(bytes, 32, 8).ok_or_else(cut)?;
    let (width, segments) =
        (little_endian(bytes, 54, 2).ok_or_else(cut)?, little_endian(bytes, 56, 2).ok_or_else(cut)?);
    let mut is_static = true;
    for segment in 0..segments {
        let at = usize::try_from(table.saturating_add(segment * width)).map_err(|_large| cut())?;
        let field = |offset: usize, bytes_wide| {
            at.checked_add(offset).and_then(|at| little_endian(bytes, at, bytes_wide))
        };
        let end = field(8, 8).zip(field(32, 8)).and_then(|(offset, length)| offset.checked_add(length));
        if end.ok_or_else(cut)? > bytes.len() as u64 {
            return Err(cut());
        }
        // an entry of type 3 names an interpreter: the program needs a loader and a C library,
        // which a job's image may lack
        is_static &= field(0, 4) != Some(3);
    }
    Ok(is_static)
}

/// A little-endian number of 2, 4 or 8 bytes.
fn little_endian(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, one segment and the bytes that it holds.
    fn elf(machine: u16, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 + 8];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[72..80].copy_from_slice(&120_u64.to_le_bytes());
        bytes[96..104].copy_from_slice(&8_u64.to_le_bytes());
        bytes
    }

    #[test]
    fn only_complete_agents_of_the_platform_are_served() {
        let dir = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(dir.path().join("plimsoll-linux-amd64"), bytes).unwrap();
            AgentFiles::read(dir.path()).map_err(|error| error.to_string())
        };
        let missing = AgentFiles::read(dir.path()).unwrap_err().to_string();
        assert!(missing.contains("has no plimsoll-linux-amd64"));
        let whole = elf(62, 1);
        let files = read(&whole).unwrap();
        assert_eq!(files.get("linux-amd64").unwrap().bytes.as_ref(), whole);
        assert!(files.get("linux-arm64").is_none() && files.get("../x").is_none());
        assert!(files.sha256sums().ends_with("  plimsoll-linux-amd64\n"));
        assert_eq!(hexadecimal(&[0, 0x9a, 0xff]), "009aff");
        assert_eq!((is_static(&whole, 62), is_static(&elf(62, 3), 62)), (Ok(true), Ok(false)));
        for (bytes, why) in [(elf(183, 1), "another processor"), (b"#!/bin/sh\n".to_vec(), "no 64-bit")] {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(why) && error.contains("plimsoll-linux-amd64"), "{error}");
        }
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let whole = elf(62, 1);
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _either = is_static(&damaged, 62);
            }
        }
    }
}
