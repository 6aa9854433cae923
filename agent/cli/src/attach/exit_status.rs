//! The exit status of a process that the agent did not start, from the kernel. From Linux 6.15 on, a pidfd has
//! the status after the process's parent has waited for the process.

use std::{
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt as _},
    process::ExitStatus,
    time::Duration,
};

use plimsoll_proto::v1::Exit;
use rustix::ioctl;
use tokio::time::sleep;

/// The first version of the kernel's `struct pidfd_info`, 64 bytes (include/uapi/linux/pidfd.h of Linux 6.15).
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    /// Bits of the requested fields; the kernel sets the bits of those that it filled in.
    mask: u64,
    cgroup: u64,
    /// Ids of the process, its user and its groups; not used here.
    ids: [u32; 11],
    /// The exit status in the form of `wait(2)`.
    exit_code: i32,
}

/// The kernel's `PIDFD_INFO_EXIT`: the bit that requests the exit status.
const INFO_EXIT: u64 = 1 << 3;

/// The kernel's `PIDFD_GET_INFO`: the ioctl that fills in a `PidfdInfo`.
const GET_INFO: ioctl::Opcode = ioctl::opcode::read_write::<PidfdInfo>(0xff, 11);

/// Time between two requests to the kernel.
const QUESTION_INTERVAL: Duration = Duration::from_millis(10);

/// Most requests for one process. The parent may not have waited for the process yet; a shell does that within
/// a millisecond.
const MAX_REQUESTS: u32 = 100;

/// How the process of this pidfd ended. Waits at most a second for the parent to wait for the process. `None`
/// if the parent does not, or if the kernel is older than 6.15.
pub(super) async fn exit_status(process: impl AsFd) -> Option<Exit> {
    for _question in 0..MAX_REQUESTS {
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
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the opcode contains the size of `PidfdInfo`, so the kernel does not write beyond it, and its
    // fields may have any bytes. For a descriptor that is not a pidfd the kernel returns ENOTTY.
    unsafe { ioctl::ioctl(process, ioctl::Updater::<GET_INFO, _>::new(&mut info)) }?;
    Ok((info.mask & INFO_EXIT != 0).then(|| ExitStatus::from_raw(info.exit_code)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[tokio::test]
    async fn a_process_exit_status_is_read_never_guessed() {
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
