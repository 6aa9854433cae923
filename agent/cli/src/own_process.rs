//! Starts this program again beside itself, for a part that must outlive or see what the agent does not.

use std::{
    ffi::CStr,
    io,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    time::Duration,
};

use nix::{
    fcntl::OFlag,
    libc::POSIX_SPAWN_SETSID,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{signal::SigSet, stat::Mode},
    unistd::Pid,
};
use plimsoll_measure::proctree::{AgentProcess, leave_out};

/// Starts this program with these arguments, the name first, with all signals blocked and a socket as its input. It is left out of what is
/// measured. Each wait for the socket ends after `patience`. A guardian gets a session of its own.
pub(crate) fn start(
    process: AgentProcess,
    arguments: &[&CStr],
    patience: Duration,
) -> io::Result<(UnixStream, Pid)> {
    let (socket, other) = UnixStream::pair()?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    if process == AgentProcess::Guardian {
        // nix has no name for this flag, which glibc 2.26 and musl 1.1.17 support
        flags |= PosixSpawnFlags::from_bits_retain(POSIX_SPAWN_SETSID.into());
    }
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(flags)?;
    attributes.set_sigmask(&SigSet::all())?;
    let mut files = PosixSpawnFileActions::init()?;
    // the reader of the job's log must not wait for it
    for output in [1, 2] {
        files.add_open(output, c"/dev/null", OFlag::O_WRONLY, Mode::empty())?;
    }
    files.add_dup2(other.as_raw_fd(), 0)?;
    let environment: [&CStr; 0] = [];
    let pid = posix_spawn(c"/proc/self/exe", &files, &attributes, arguments, &environment)?;
    leave_out(process, pid.as_raw());
    Ok((socket, pid))
}
