//! `plimsoll doctor`: what a build here would meet. Each check is one line, in the order in which a build needs what it looks at; what
//! cannot be checked because an earlier check failed has no line. Every wait is bounded, and no sample is sent.
//!
//! | module | what it checks |
//! |---|---|
//! | `server` | address, certificate, server and its version, token and roles, clock |
//! | `machine` | cgroup, limits, spool, phases |

mod machine;
mod server;

use std::path::PathBuf;

use plimsoll_client::trust::Trust;
use plimsoll_measure::kernel::Kernel;
use plimsoll_proto::checks::{CheckLine, text};

use crate::{
    ask::{CommandOutput, Format},
    output::PhaseMarks,
};

/// The configuration that is checked: that of `run`.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Address of the server; `None` measures only.
    pub(crate) server: Option<String>,
    /// Whom to trust there, and what to show.
    pub(crate) trust: Trust,
    /// Where samples wait for the server.
    pub(crate) spool_dir: PathBuf,
    /// Bytes that they may take together.
    pub(crate) spool_bytes: u64,
    /// What is looked for in the build's output; `None` leaves the output alone.
    pub(crate) phases: Option<PhaseMarks>,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Findings(Vec<CheckLine>);

/// Checks this configuration on this machine.
pub(crate) async fn check(settings: &Settings) -> Findings {
    let mut lines = match &settings.server {
        Some(server) => server::check(server, &settings.trust).await,
        None => vec![CheckLine::ok(
            "server",
            "none, as --server none says: builds are measured, and nothing is delivered",
        )],
    };
    lines.extend(machine::measuring(&Kernel::running()).await);
    lines.push(machine::spool(settings).await);
    lines.push(machine::phases(settings.phases.as_ref()));
    Findings(lines)
}

impl Findings {
    /// In this form, with the exit status: 1 if a check failed.
    pub(crate) fn output(&self, format: Format) -> CommandOutput {
        let output = match format {
            Format::Text => CommandOutput::prose(text(&self.0)),
            // a list of texts has a form in JSON
            Format::Json => {
                CommandOutput::data(serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n")
            }
        };
        CommandOutput { status: u8::from(self.0.iter().any(CheckLine::is_failed)), ..output }
    }
}
