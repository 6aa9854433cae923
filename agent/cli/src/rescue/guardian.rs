//! A second process of the agent that continues what is paused if the agent dies.
//!
//! It is this program again, in a session of its own and with all signals blocked, so that what ends the job's process group does not end
//! it. Before each change the agent sends it the list of all processes that will be paused, and waits for its answer; so the list always
//! holds whatever is stopped. When the agent is gone, however it ended, the kernel closes the connection, and the guardian continues all
//! that are on the list, and ends. While something is paused the agent repeats the list each second; if it is silent for longer, because
//! it is stopped or waits for a disk, the guardian continues all, too.
//!
//! A list is the length of its text, in 8 bytes, little endian, and the text as in the file with the list ([`super::paused_list`]).

use std::{
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    process::ExitCode,
    thread,
    time::Duration,
};

use plimsoll_measure::{
    processes::ProcessId,
    proctree::{AgentProcess, leave_out},
};
use rustix::process::Signal;

use super::{
    handle::send,
    paused_list::{from_text, to_text},
};
use crate::own_process;

/// The name under which this program is a guardian.
pub(crate) const GUARDIAN_NAME: &str = "rescue-guardian";
/// How long the agent waits for an answer, which takes microseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 1 });

/// Time without a word after which the agent is taken for stuck; it sends its list each second.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a process is tried that cannot be continued, because the machine is short of something.
const TRIES: u32 = 600;
const TRY_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(not(test))]
const ARGUMENTS: [&CStr; 1] = [c"rescue-guardian"];
#[cfg(test)]
const ARGUMENTS: [&CStr; 4] = [c"agent", c"--exact", c"rescue::tests::guardian_process", c"--ignored"];

/// The guardian of this process.
#[derive(Debug)]
pub(super) struct Guardian {
    socket: UnixStream,
}

impl Guardian {
    /// Starts the guardian.
    pub(super) fn start() -> io::Result<Self> {
        let (socket, _pid) = own_process::start(AgentProcess::Guardian, &ARGUMENTS, ANSWER_TIMEOUT)?;
        Ok(Self { socket })
    }

    /// Tells it which processes are paused, or will be.
    /// Errors: the guardian has ended, or does not answer.
    pub(super) fn keep(&mut self, paused: &[ProcessId]) -> io::Result<()> {
        let text = to_text(paused);
        self.socket.write_all(&[&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat())?;
        self.socket.read_exact(&mut [0])
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        leave_out(AgentProcess::Guardian, 0);
    }
}

/// The life of a guardian; standard input is the agent.
pub(crate) fn serve() -> ExitCode {
    let mut paused = Vec::new();
    let ended = follow_agent(&mut paused);
    continue_all(&mut paused);
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes lists until the agent is gone.
fn follow_agent(paused: &mut Vec<ProcessId>) -> io::Result<()> {
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        agent.set_read_timeout(Some(SILENCE).filter(|_silence| !paused.is_empty()))?;
        let mut length = [0; 8];
        match agent.read_exact(&mut length) {
            // the agent is stopped or stuck; it may come back
            Err(late) if late.kind() == io::ErrorKind::WouldBlock => {
                continue_all(paused);
                continue;
            }
            Err(gone) if gone.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let (length, mut text) = (u64::from_le_bytes(length), String::new());
        // what an incomplete list has more than the last one is not stopped yet
        if (&agent).take(length).read_to_string(&mut text)? as u64 != length {
            return Ok(());
        }
        *paused = from_text(&text).collect();
        agent.write_all(&[1])?;
    }
}

/// Continues all processes of a list. Those that have ended, or that others have continued, are no matter.
pub(super) fn continue_all(paused: &mut Vec<ProcessId>) {
    for _try in 0..TRIES {
        paused.retain(|id| send(*id, Signal::CONT).is_err());
        if paused.is_empty() {
            return;
        }
        thread::sleep(TRY_INTERVAL);
    }
    paused.clear();
}
