//! Runs a command and measures it; after a failure, does what the server's verdict says, as far as it can be done here.
//!
//! ```text
//! build      one try: start, measure, close the attempt (command, signals, protection)
//! tries      the tries of one run, and the exit code in the end
//!   again      what a verdict means in this place
//!   input      whether its standard input can be read once more
//!   jobs       how a command gets its number of jobs
//!   exit_codes which exit code stands for which verdict
//!   runs       the number of this run within its CI job
//! ```

mod build;
mod command;
mod exit_codes;
mod input;
mod make_jobs;
mod protection;
mod retry_decision;
mod retry_loop;
mod run_ids;
mod signals;

use std::ffi::OsString;

use plimsoll_measure::kernel::Kernel;

use self::retry_loop::RetryLoop;
use crate::{attempt, key::Secrets, output::PhaseMarks};

pub use exit_codes::ExitCodes;

/// Most retries of one run.
pub const RETRIES: u32 = 10;

/// What to run, and how to measure it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// What is measured, and where that goes.
    pub attempt: attempt::Settings,
    /// Memory limit to set on the build's own cgroup, bytes.
    pub limit_memory: Option<u64>,
    /// Marks in the output that begin phases; `None` leaves the streams as they are.
    pub marks: Option<PhaseMarks>,
    /// What must not leave the job with the end of its log.
    pub secrets: Secrets,
    /// What is done about a verdict.
    pub acting: VerdictActions,
}

/// What is done about a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictActions {
    /// The exit code that tells the CI system of it.
    pub exit_codes: ExitCodes,
    /// Retries in this place, at most [`RETRIES`]; 0 for none.
    pub retries: u32,
    /// `MAKEFLAGS` of the agent, which a retry with fewer jobs changes.
    pub make_flags: String,
    /// The attempt's id is that of a CI job, which may run more than one command.
    pub shares_id: bool,
}

impl VerdictActions {
    /// The verdict changes something.
    fn wants_verdict(&self) -> bool {
        self.retries > 0 || !self.exit_codes.is_empty()
    }
}

/// Runs the command to its end. Returns the exit code for this process: the command's own, 128 + n if signal n ended it,
/// 127 if it was not found, 126 if it could not be executed; or the one that stands for the verdict on its failure.
///
/// Must be called within a tokio runtime with I/O and time, before the process has other threads (see [`signals`]), and once in a
/// process: it waits for all children that the process has.
pub async fn run(settings: Settings) -> u8 {
    run_on(&Kernel::running(), settings).await
}

async fn run_on(kernel: &Kernel, settings: Settings) -> u8 {
    Box::pin(RetryLoop::new(kernel, settings).run()).await
}

#[cfg(test)]
mod tests;
