//! The file in which a build's shell reports that the build has ended: its first line is the exit status, as in
//! `$?`.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use plimsoll_measure::kernel;
use plimsoll_proto::v1::Exit;

/// Bytes to read: an exit status, a line break, and some more that do not matter.
const READ_BYTES: u64 = 16;

/// How the agent noticed the end of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SeenEnd {
    pub(super) seen_how: &'static str,
    /// Exit status of the build, if the exit file has it or the kernel reports it.
    pub(super) exit: Option<Exit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExitFile(PathBuf);

impl ExitFile {
    pub(super) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Reads the file; `None` while there is no regular file. The build has ended even if the file has no
    /// status.
    pub(super) fn read(&self) -> Option<SeenEnd> {
        let exit = match kernel::read_regular(&self.0, READ_BYTES) {
            Ok(text) => status(&String::from_utf8_lossy(&text)),
            // it is not there, or no regular file
            Err(error) if [ErrorKind::NotFound, ErrorKind::InvalidInput].contains(&error.kind()) => {
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, file = %self.0.display(), "cannot read the exit file");
                None
            }
        };
        Some(SeenEnd { seen_how: "its exit file is there", exit })
    }
}

/// Parses an exit status, 0 to 255. A shell reports 128 plus the signal's number for a command that a signal
/// ended.
fn status(text: &str) -> Option<Exit> {
    let code = text.lines().next()?.trim().parse::<u8>().ok()?;
    Some(Exit { code: Some(code.into()), signal: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_exit_file_ends_the_build() {
        let dir = tempfile::tempdir().unwrap();
        let file = ExitFile::at(&dir.path().join("exit"));
        assert_eq!(file.read(), None);
        let code = |code| Some(Exit { code: Some(code), signal: None });
        for (text, expected) in [
            ("0\n", code(0)),
            ("137", code(137)),
            ("3\nmore than the sixteen bytes that are read", code(3)),
            ("", None),
            ("256\n", None),
            ("-1\n", None),
            ("\u{1b}\n", None),
        ] {
            std::fs::write(&file.0, text).unwrap();
            assert_eq!(file.read().unwrap().exit, expected, "{text:?}");
        }
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        for (other, what) in [(fifo.as_path(), "a FIFO"), (dir.path(), "a folder")] {
            assert_eq!(ExitFile::at(other).read(), None, "{what}");
        }
    }
}
