//! Prints shell completions and manual pages, generated from the declared options.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use clap_complete::Shell;
use plimsoll_base::own_files;
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
        let mut built = common_options::command_line().disable_help_subcommand(true);
        built.build();
        let written = write_pages(&built, &self.directory);
        let shown = self.directory.display();
        written.map_err(|error| {
            QuestionFailure::Question(format!("cannot write pages into {shown}: {error}"))
        })?;
        Ok(CommandOutput::prose(format!("wrote the manual pages into {shown}\n")))
    }
}

/// Writes the page of a command, and those of the commands in it. A link that has the name of a page is refused.
fn write_pages(command: &clap::Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner, dir)?;
    }
    let (page, mut text) = (clap_mangen::Man::new(command.clone()), Vec::new());
    page.render(&mut text)?;
    let path = dir.join(page.get_filename());
    own_files::replace_named(&path, &text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (other, page) = (dir.path().join("other"), dir.path().join("plimsoll-run.1"));
        std::fs::write(&other, "of another program").unwrap();
        std::os::unix::fs::symlink(&other, &page).unwrap();
        let man = ManArgs { directory: dir.path().to_owned() };
        let error = man.write().unwrap_err().to_string();
        assert!(error.contains("plimsoll-run.1: it is a symbolic link"), "{error}");
        assert_eq!(std::fs::read(&other).unwrap(), b"of another program");
        std::fs::remove_file(&page).unwrap();
        man.write().unwrap();
        assert!(std::fs::read_to_string(&page).unwrap().contains("plimsoll"));
    }
}
