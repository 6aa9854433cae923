//! Prints shell completions and manual pages, generated from the declared options.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use plimsoll_client::questions::QuestionFailure;

use super::{common_options, help};
use crate::ask::CommandOutput;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = help::end("", &["completions bash > /usr/share/bash-completion/completions/plimsoll"]))]
pub(super) struct CompletionsArgs {
    /// Shell that reads the script.
    shell: Shell,
}

/// Write a manual page for each command into a directory.
#[derive(Debug, Args)]
#[command(after_help = help::end("", &["man /usr/local/share/man/man1"]))]
pub(super) struct ManArgs {
    /// Directory for the pages, for example /usr/local/share/man/man1. It must exist.
    directory: PathBuf,
}

impl CompletionsArgs {
    pub(super) fn print(&self) -> CommandOutput {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut common_options::command_line(), "plimsoll", &mut script);
        CommandOutput::data(String::from_utf8_lossy(&script).into_owned())
    }
}

impl ManArgs {
    pub(super) fn write(&self) -> Result<CommandOutput, QuestionFailure> {
        let written = clap_mangen::generate_to(common_options::command_line(), &self.directory);
        let shown = self.directory.display();
        written.map_err(|error| {
            QuestionFailure::Question(format!("cannot write pages into {shown}: {error}"))
        })?;
        Ok(CommandOutput::prose(format!("wrote the manual pages into {shown}\n")))
    }
}
