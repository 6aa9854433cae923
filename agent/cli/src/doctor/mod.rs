//! `plimsoll doctor`: checks the configuration for builds on this machine. Each check prints one line, in the order in which a build
//! depends on it; checks that depend on a failed one are skipped. Every wait has a time limit, and no sample is sent.
//!
//! | module | what it checks |
//! |---|---|
//! | `server` | address, certificate, server and its version, token and roles, clock |
//! | `machine` | cgroup, limits, spool, phases; in CI the job |

mod machine;
mod server;

use std::path::PathBuf;

use plimsoll_base::checks::{CheckLine, checks_text};
use plimsoll_client::trust::Trust;
use plimsoll_measure::kernel::Kernel;

use crate::{
    ask::{CommandOutput, Format},
    key::CiJob,
    output::PhaseMarks,
};

pub(crate) use machine::check_job;

/// The configuration to check: the same as for `run`.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Settings {
    /// Address of the server; `None` if builds are measured without one.
    pub(crate) server: Option<String>,
    /// Credentials for the server, and which certificates to trust.
    pub(crate) trust: Trust,
    /// Directory where samples wait for the server.
    pub(crate) spool_dir: PathBuf,
    /// Most bytes of the spool.
    pub(crate) spool_bytes: u64,
    /// Markers to look for in the output of a build; `None` if the output is not read.
    pub(crate) phases: Option<PhaseMarks>,
    /// What is known of the job.
    pub(crate) job: CiJob,
}

/// Results of the checks.
#[derive(Debug)]
pub(crate) struct Findings(Vec<CheckLine>);

/// Checks this configuration on this machine.
pub(crate) async fn check(settings: &Settings) -> Findings {
    let mut lines = match &settings.server {
        Some(server) => server::check_server(server, &settings.trust).await,
        None => vec![CheckLine::ok(
            "server",
            "none, as --server none says: builds are measured, and nothing is delivered",
        )],
    };
    lines.extend(machine::check_measuring(&Kernel::running()).await);
    lines.push(machine::check_spool(settings).await);
    lines.push(machine::check_phases(settings.phases.as_ref()));
    lines.extend(check_job(&settings.job));
    Findings(lines)
}

impl Findings {
    /// The results in this format. The exit status is 1 if a check failed.
    pub(crate) fn output(&self, format: Format) -> CommandOutput {
        let output = match format {
            Format::Text => CommandOutput::prose(checks_text(&self.0)),
            // cannot fail: JSON can represent a list of texts
            Format::Json => {
                CommandOutput::data(serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n")
            }
        };
        CommandOutput { status: u8::from(self.0.iter().any(CheckLine::is_failed)), ..output }
    }
}
