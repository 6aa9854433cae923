//! Whether the command can get the same standard input again for a retry.
//!
//! Input that a try has read is gone for the next try, which might then do something else, or nothing, and
//! succeed. So a command is retried only if its input can be the same again: no input, a terminal, or a file
//! that can be rewound.

use std::{io, os::fd::AsFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, SeekFrom, fstat, major, minor, seek, tell},
    io::{Errno, ioctl_fionread},
    termios::isatty,
};

/// Device number of `/dev/null`.
const NULL_DEVICE: (u32, u32) = (1, 3);
/// The usual reason why a command cannot be retried because of its input.
const INPUT_GONE: &str = "what it read from its standard input is gone (give it a file, or </dev/null)";

/// What standard input was before the first try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandardInput {
    /// No input (`/dev/null` or closed), or a terminal.
    Same,
    /// A file, and the position in it before the first try, bytes.
    File(u64),
    /// A pipe without a writer, and how many bytes were left in it. GitLab's jobs get such a pipe, which is
    /// empty.
    Written(u64),
    /// Any other input, which can be read only once.
    Once,
}

impl StandardInput {
    /// Examines a standard input before the first try.
    pub(super) fn examine(input: impl AsFd) -> Self {
        let kind = match fstat(&input) {
            Ok(state) => {
                let device = (major(state.st_rdev), minor(state.st_rdev));
                (FileType::from_raw_mode(state.st_mode), device)
            }
            Err(Errno::BADF) => return Self::Same,
            Err(_unknown) => return Self::Once,
        };
        match kind {
            (FileType::CharacterDevice, device) if device == NULL_DEVICE || isatty(&input) => Self::Same,
            (FileType::RegularFile, _) => tell(&input).map_or(Self::Once, Self::File),
            (FileType::Fifo, _) => bytes_left(&input).map_or(Self::Once, Self::Written),
            _other => Self::Once,
        }
    }

    /// Why the command cannot get the same input again; `None` if it can.
    pub(super) fn why_not_again(self, input: impl AsFd) -> Option<&'static str> {
        match self {
            Self::Same | Self::File(_) => None,
            Self::Written(bytes) if bytes_left(input) == Some(bytes) => None,
            Self::Written(_) | Self::Once => Some(INPUT_GONE),
        }
    }

    /// Moves a file back to its original position.
    /// Errors: the input is a file that cannot be rewound.
    pub(super) fn rewind(self, input: impl AsFd) -> io::Result<()> {
        if let Self::File(at) = self {
            seek(input, SeekFrom::Start(at))?;
        }
        Ok(())
    }
}

/// Number of bytes left in a pipe that has no writer; `None` for anything else.
fn bytes_left(input: impl AsFd) -> Option<u64> {
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).ok()?;
    let [fd] = fds;
    if !fd.revents().contains(PollFlags::HUP) {
        return None;
    }
    ioctl_fionread(input).ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Seek as _, Write as _},
    };

    use super::*;

    #[test]
    fn nothing_and_a_terminal_can_be_given_again() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(StandardInput::examine(&null), StandardInput::Same);
        assert_eq!(StandardInput::Same.why_not_again(&null), None);
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        if let Ok(terminal) = rustix::pty::openpt(flags) {
            assert_eq!(StandardInput::examine(&terminal), StandardInput::Same);
        }
        assert_eq!(StandardInput::examine(File::open("/dev/zero").unwrap()), StandardInput::Once);
    }

    #[test]
    fn a_file_is_rewound_to_its_original_offset() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before after").unwrap();
        file.rewind().unwrap();
        file.read_exact(&mut [0; 7]).unwrap();
        let input = StandardInput::examine(&file);
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!((input, input.why_not_again(&file)), (StandardInput::File(7), None));
        input.rewind(&file).unwrap();
        let mut again = String::new();
        file.read_to_string(&mut again).unwrap();
        assert_eq!((read.as_str(), again.as_str()), ("after", "after"));
    }

    #[test]
    fn only_an_unread_pipe_can_be_given_again() {
        let (reader, writer) = io::pipe().unwrap();
        let open = StandardInput::examine(&reader);
        assert_eq!(open, StandardInput::Once);
        assert_eq!(open.why_not_again(&reader), Some(INPUT_GONE), "more may have come");
        drop(writer);
        let empty = StandardInput::examine(&reader);
        assert_eq!((empty, empty.why_not_again(&reader)), (StandardInput::Written(0), None));
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"exit 0").unwrap();
        drop(writer);
        let full = StandardInput::examine(&reader);
        assert_eq!((full, full.why_not_again(&reader)), (StandardInput::Written(6), None));
        reader.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(full.why_not_again(&reader), Some(INPUT_GONE));
    }
}
