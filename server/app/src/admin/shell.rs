//! Shell completions and manual pages, generated from the declarations of commands and settings.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;
use plimsoll_base::own_files;

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
        let mut built = line::command().disable_help_subcommand(true);
        built.build();
        let written = write_pages(&built, &self.directory);
        written.with_context(|| format!("cannot write pages into {shown}"))?;
        Ok(writeln!(io::stdout(), "wrote the manual pages into {shown}")?)
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
        let (dir, other) = plimsoll_support::temporary::file_with("other", "of another program");
        let man = Man { directory: dir.path().to_owned() };
        man.run().unwrap();
        let page = dir.path().join("plimsoll-server-backup.1");
        std::fs::remove_file(&page).unwrap();
        std::os::unix::fs::symlink(&other, &page).unwrap();
        let error = format!("{:#}", man.run().unwrap_err());
        assert!(error.contains("plimsoll-server-backup.1: it is a symbolic link"), "{error}");
        assert_eq!(std::fs::read(&other).unwrap(), b"of another program");
    }
}
