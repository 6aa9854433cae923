//! Where a command writes: a new file that has its name only when it is whole, or standard output.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

/// Something to write to. A file keeps another name until [`Self::finish`].
#[derive(Debug)]
pub(super) enum Target {
    Stdout(BufWriter<io::Stdout>),
    File { file: BufWriter<File>, part: PathBuf, path: PathBuf },
}

impl Target {
    /// Opens `path`; `-` is standard output.
    ///
    /// # Errors
    /// There is a file already, or it cannot be made.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout(BufWriter::new(io::stdout())));
        }
        ensure!(!path.try_exists()?, "{} exists already; give a new name", path.display());
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).with_context(|| format!("cannot create {}", part.display()))?;
        Ok(Self::File { file: BufWriter::new(file), part, path: path.to_owned() })
    }

    /// Everything is written: brings it to the disk and gives the file its name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut out) => Ok(out.flush()?),
            Self::File { file, part, path } => {
                let written = file.into_inner().map_err(io::IntoInnerError::into_error);
                let named = written.and_then(|file| file.sync_all()).and_then(|()| fs::rename(&part, &path));
                named.with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// It was not to be: removes what was written.
    pub(super) fn give_up(self) {
        if let Self::File { part, .. } = self {
            // what cannot be removed keeps the name that says what it is
            let _left = fs::remove_file(part);
        }
    }
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
