//! `plimsoll doctor`: the options that select what is checked, and the format of the result.

use clap::Args;
use plimsoll_client::questions::QuestionFailure;

use super::{
    DEFAULT_SERVER, TrustArgs,
    delivery_args::{SpoolArgs, named_server},
    help,
    output::PhaseArgs,
};
use crate::{
    ask::{CommandOutput, Format},
    doctor::{self, Settings},
    key::CiJob,
};

/// Help text: the exit statuses.
const EXIT_STATUSES: &str = "Exit status: 0 no line begins with fail, 1 one does, 2 wrong usage.";

/// Check everything between builds on this machine and the server: address, TLS, token, clock, cgroup, spool. Takes the options of `run`.
///
/// Each line begins with `ok`, `warn` (it works, but something should be changed) or `fail`, and says what to do. Run it where builds
/// run: in the job, in its container. It sends no samples. Without an answer it ends within half a minute.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["doctor", "doctor --server https://plimsoll.example:7410 -o json"]))]
pub(super) struct DoctorArgs {
    /// Address of the server, or of several servers over one store, separated by commas; `none` checks only this machine.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    spool: SpoolArgs,
    #[command(flatten)]
    phases: PhaseArgs,
    /// How to write the result.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

impl DoctorArgs {
    pub(super) async fn check(self, job: &CiJob) -> Result<CommandOutput, QuestionFailure> {
        let (spool_dir, spool_bytes) = self.spool.directory_and_bound(job);
        let server = named_server(&self.server);
        // if others can read the token, a check reports it, so no warning is printed here
        let trust = self.trust.trust_without_warning();
        let phases = self.phases.phase_marks(job).map_err(QuestionFailure::Question)?;
        Ok(doctor::check(&Settings { server, trust, spool_dir, spool_bytes, phases, job: job.clone() })
            .await
            .output(self.output))
    }
}
