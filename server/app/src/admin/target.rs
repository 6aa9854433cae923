//! Where a command writes its output: a new file that gets its name only when it is complete, or
//! standard output (`-`).
//!
//! The path comes from the user and must not exist yet: existing files and links are never changed,
//! nor is `/dev/stdout`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use plimsoll_base::own_files;

/// An output. Until [`Self::finish`] a file has a temporary name; if it is dropped before, the file is removed.
#[derive(Debug)]
pub(super) enum Target {
    Stdout(BufWriter<io::Stdout>),
    File { file: BufWriter<File>, part: PartFile, path: PathBuf },
}

/// The temporary name of a file. Removed when dropped, if the file still has it.
#[derive(Debug)]
pub(super) struct PartFile(PathBuf);

impl Drop for PartFile {
    fn drop(&mut self) {
        // a file that cannot be removed stays with its temporary name
        let _left = fs::remove_file(&self.0);
    }
}

impl Target {
    /// Opens `path`; `-` is standard output. Other users cannot read the file, because a copy of a
    /// store is as private as the store.
    /// Errors: the file exists already, or cannot be created.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout(BufWriter::new(io::stdout())));
        }
        refuse_taken(path)?;
        // a unique name, so that two commands with the same target do not share a file, and a new
        // file, so that no link is followed
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        let file = own_files::create_new(&part);
        let file = file.with_context(|| {
            format!("cannot create {}; if it is left over from a crash, remove it", part.display())
        })?;
        Ok(Self::File { file: BufWriter::new(file), part: PartFile(part), path: path.to_owned() })
    }

    /// Writes the complete file to disk and gives it its name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut out) => Ok(out.flush()?),
            Self::File { file, part, path } => {
                let written = file.into_inner().map_err(io::IntoInnerError::into_error);
                let synced = written.and_then(|file| file.sync_all());
                synced.with_context(|| format!("cannot write {}", path.display()))?;
                // a hard link fails if the name was taken meanwhile; a rename would replace the
                // other file
                name(&part.0, &path)?;
                drop(part);
                sync_parent_directory(&path)
            }
        }
    }
}

fn refuse_taken(path: &Path) -> anyhow::Result<()> {
    // a link counts as existing even if its target does not exist
    ensure!(
        fs::symlink_metadata(path).is_err(),
        "{} exists already; give a new name, or - for standard output",
        path.display()
    );
    Ok(())
}

fn name(part: &Path, path: &Path) -> anyhow::Result<()> {
    if fs::hard_link(part, path).is_ok() {
        return Ok(());
    }
    // the name is taken, or there are no links here
    refuse_taken(path)?;
    fs::rename(part, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the directory to disk, so that the new name of the file survives a crash.
fn sync_parent_directory(path: &Path) -> anyhow::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.with_context(|| {
        format!(
            "{} is whole, but its name may not outlast a power cut: cannot sync {}",
            path.display(),
            dir.display()
        )
    })
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_first_command_keeps_a_shared_target() {
        let (dir, path) = plimsoll_support::temporary::file_name("backup");
        let mut first = Target::open(&path).unwrap();
        first.write_all(b"whole").unwrap();
        // the other one came while the first one wrote, and ends first or last
        fs::write(dir.path().join("backup.part"), "the other one's").unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = Target::open(&path).unwrap_err().to_string();
        assert!(refused.contains("exists already"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the other one's file stays");
    }

    #[test]
    fn an_existing_target_is_never_overwritten() {
        let (dir, path) = plimsoll_support::temporary::file_name("backup");
        let late = Target::open(&path).unwrap();
        fs::write(&path, "the first one's").unwrap();
        assert!(late.finish().unwrap_err().to_string().contains("exists already"));
        assert_eq!(fs::read(&path).unwrap(), b"the first one's");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let link = dir.path().join("link");
        symlink(dir.path().join("nowhere"), &link).unwrap();
        assert!(Target::open(&link).unwrap_err().to_string().contains("exists already"));
    }
}
