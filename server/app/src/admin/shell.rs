//! Shell completions and manual pages, generated from the declarations of commands and settings.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use super::line::{self, examples_text};

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["completions bash"]))]
pub struct Completions {
    /// Shell that reads the script.
    shell: Shell,
}

/// Writes a manual page for each command into a directory.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["man /usr/local/share/man/man1"]))]
pub struct Man {
    /// Directory for the pages, for example /usr/local/share/man/man1. It must exist.
    directory: PathBuf,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut line::command(), "plimsoll-server", &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}

impl Man {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let shown = self.directory.display();
        let written = clap_mangen::generate_to(line::command(), &self.directory);
        written.with_context(|| format!("cannot write pages into {shown}"))?;
        Ok(writeln!(io::stdout(), "wrote the manual pages into {shown}")?)
    }
}
