//! Runs a command and measures it; after a failure, acts on the server's verdict as far as possible.
//!
//! | module | content |
//! |---|---|
//! | `build` | one try: starts the command, measures it, closes the attempt |
//! | `command`, `protection` | the child process, protection from the OOM killer |
//! | `signals`, `witness`, `end_requests` | signals: passed on once, sent to whom, whether one ended the build |
//! | `unmeasured` | runs the build without the agent, if the agent cannot set itself up |
//! | `retry_loop` | repeats the command while retries help; determines the exit code |
//! | `retry_decision` | whether a verdict leads to a retry here |
//! | `input` | whether standard input can be provided a second time |
//! | `make_jobs` | how a command gets its number of jobs |
//! | `exit_codes` | exit codes for verdicts |
//! | `run_ids` | the number of this run within its CI job |

mod build;
mod command;
mod end_requests;
mod exit_codes;
mod input;
mod make_jobs;
mod protection;
mod retry_decision;
mod retry_loop;
mod run_ids;
mod signals;
pub(crate) mod unmeasured;
pub(crate) mod witness;

use std::ffi::OsString;

use plimsoll_measure::kernel::Kernel;

use self::retry_loop::RetryLoop;
use crate::{attempt, key::Secrets, output::PhaseMarks};

pub use exit_codes::ExitCodes;

/// Most retries of one run.
pub const RETRIES: u32 = 10;

/// The command, and how to measure it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// Which attempt the command is, and where its samples are sent.
    pub attempt: attempt::Settings,
    /// Memory limit to set on the build's own cgroup, bytes.
    pub limit_memory: Option<u64>,
    /// The most to which this limit is raised while the build runs, bytes; `None`: it is not raised.
    pub limit_memory_most: Option<u64>,
    /// Markers in the output that start phases; `None`: the output is not read.
    pub marks: Option<PhaseMarks>,
    /// Secrets to mask in the end of the log.
    pub secrets: Secrets,
    /// How to act on a verdict.
    pub acting: VerdictActions,
}

/// How to act on a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictActions {
    /// Exit codes that report verdicts to the CI system.
    pub exit_codes: ExitCodes,
    /// Most retries in this run, up to [`RETRIES`]; 0 for none.
    pub retries: u32,
    /// `MAKEFLAGS` from the agent's environment; a retry with fewer jobs changes it.
    pub make_flags: String,
    /// Whether the attempt's id is that of a CI job, which may run more than one command.
    pub shares_id: bool,
}

impl VerdictActions {
    /// Whether the agent acts on the verdict.
    fn wants_verdict(&self) -> bool {
        self.retries > 0 || !self.exit_codes.is_empty()
    }
}

/// Runs the command until it ends, with its retries. Returns the exit code for this process: the command's own,
/// 128 + n if signal n ended it, 127 if it was not found, 126 if it could not be executed; or the one
/// configured for the verdict on its failure.
///
/// Must be called within a tokio runtime with I/O and time, before the process has other threads (see
/// [`signals`]), and once in a process: it waits for all children of the process.
pub async fn run(settings: Settings) -> u8 {
    run_on(&Kernel::running(), settings).await
}

async fn run_on(kernel: &Kernel, settings: Settings) -> u8 {
    // reads the kernel's events once: where that is refused, tokio panics, and must before the build runs
    tokio::task::yield_now().await;
    match RetryLoop::new(kernel, settings) {
        Ok(run) => Box::pin(run.run()).await,
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests;
