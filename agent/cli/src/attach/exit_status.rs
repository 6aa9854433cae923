//! The exit status of a process that others started, from the kernel: from Linux 6.15 on a pidfd says it once the process was waited for.

use std::{
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt as _},
    process::ExitStatus,
    time::Duration,
};

use plimsoll_proto::v1::Exit;
use rustix::ioctl;
use tokio::time::sleep;

/// `struct pidfd_info` in its first version, 64 bytes, and the ioctl that fills it (include/uapi/linux/pidfd.h of Linux 6.15).
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    /// The bits of the requested fields; the kernel sets those that it filled.
    mask: u64,
    cgroup: u64,
    /// Numbers of the process, of users and of groups.
    ids: [u32; 11],
    /// The status in the form of `wait(2)`.
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`
const EXIT: u64 = 1 << 3;

/// `PIDFD_GET_INFO`
const GET_INFO: ioctl::Opcode = ioctl::opcode::read_write::<PidfdInfo>(0xff, 11);

/// Between two questions to the kernel.
const QUESTION_INTERVAL: Duration = Duration::from_millis(10);

/// Questions to the kernel, for a process whose parent has not waited for it yet: a shell does that within a millisecond.
const MOST_QUESTIONS: u32 = 100;

/// How the process of this pidfd ended. Waits for at most a second until its parent has taken the status. `None` where the parent does not, and
/// on an older kernel.
pub(super) async fn exit_status(process: impl AsFd) -> Option<Exit> {
    for _question in 0..MOST_QUESTIONS {
        match read(&process) {
            Ok(None) => sleep(QUESTION_INTERVAL).await,
            Ok(Some(status)) => return Some(Exit { code: status.code(), signal: status.signal() }),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not say how the build ended");
                return None;
            }
        }
    }
    None
}

#[expect(unsafe_code, reason = "no crate has this ioctl in a safe form")]
fn read(process: impl AsFd) -> io::Result<Option<ExitStatus>> {
    let mut info = PidfdInfo { mask: EXIT, ..PidfdInfo::default() };
    // SAFETY: the opcode has the size of `PidfdInfo` in it, so the kernel writes no more than that; any bytes are valid in its fields. A
    // descriptor of another kind answers ENOTTY.
    unsafe { ioctl::ioctl(process, ioctl::Updater::<GET_INFO, _>::new(&mut info)) }?;
    Ok((info.mask & EXIT != 0).then(|| ExitStatus::from_raw(info.exit_code)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[tokio::test]
    async fn the_status_of_a_process_is_known_where_the_kernel_says_it_and_never_guessed() {
        for (script, code, signal) in
            [("exit 7", Some(7), None), ("kill -9 $$", None, Some(9)), ("true", Some(0), None)]
        {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            child.wait().unwrap();
            let supported = read(&pidfd).is_ok();
            let expected = supported.then_some(Exit { code, signal });
            assert_eq!(exit_status(&pidfd).await, expected, "{script}");
        }
        assert_eq!(exit_status(io::stderr()).await, None, "no pidfd");
    }
}
