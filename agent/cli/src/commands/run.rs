//! `plimsoll run`: measure a command.

use std::ffi::OsString;

use clap::Args;
use plimsoll_base::quantity;
use plimsoll_proto::figures;

use super::{
    delivery_args::DeliveryArgs,
    help,
    output::{PhaseArgs, ReportArgs},
    verdict_args::ActArgs,
};
use crate::{key::CiJob, run};

const EXIT_STATUSES: &str = "Exit status: that of the command; 128 + n if signal n ended it; 127 not found, 126 cannot be executed; \
the code of --exit-code-for if it failed and the server gave that verdict; 2 wrong usage.";

/// Run a command and measure it.
///
/// Signals are passed on to the command, and its exit status is passed through, even if measuring fails. After a failure the agent can
/// act on the server's verdict: with another exit code (--exit-code-for), or with another run in the same place (--retry-in-place).
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "run --key package=zlib -- make -j4",
    "run --key package=zlib --limit-memory 2GiB --report text -- make -j4",
]))]
pub(super) struct RunArgs {
    #[command(flatten)]
    measured: DeliveryArgs,
    /// Limit the memory of the command, for example 2GiB.
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    limit_memory: Option<u64>,
    /// Raise this limit in steps, up to SIZE, while the command runs and needs more.
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    limit_memory_most: Option<u64>,
    #[command(flatten)]
    phases: PhaseArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    act: ActArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunArgs {
    /// The settings of `run`, from its options and the CI job.
    pub(super) fn settings(self, job: &CiJob) -> Result<run::Settings, String> {
        let limits = (self.limit_memory, self.limit_memory_most);
        if let (limit, Some(most)) = limits
            && limit.is_none_or(|limit| limit > most)
        {
            return Err(format!(
                "--limit-memory-most {}: the limit that it raises must be set by --limit-memory, and not be above it",
                figures::bytes(most)
            ));
        }
        let shares_id = !self.measured.names_its_attempt();
        Ok(run::Settings {
            acting: self.act.settings(job, shares_id)?,
            marks: self.phases.phase_marks(job)?,
            attempt: self.measured.settings(job, &self.command, self.report.settings(job)?)?,
            command: self.command,
            limit_memory: self.limit_memory,
            limit_memory_most: self.limit_memory_most,
            secrets: job.secrets.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
