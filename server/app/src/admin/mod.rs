//! The command line of the server program. Without a command the program serves; with a command it
//! runs the command and ends.

mod backup;
mod classify;
mod compact;
mod database;
mod doctor;
mod export;
mod gitlab;
mod import;
mod init;
mod line;
mod log_rules;
mod pools;
mod progress;
mod projects;
mod repair;
mod replay;
mod restore;
mod rules;
mod shell;
mod target;
mod tasks;
mod terminal;
mod verify;

use std::{
    fmt::Display,
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use plimsoll_proto::shown::escaped_lines;
use plimsoll_store::StoreSettings;

use crate::runtime::{
    outgoing::OversizedAnswer,
    settings::{Args, Config},
};

/// Exit status of a command that did only part of its work and reported the rest, or got an answer too large to read.
const EXIT_INCOMPLETE: u8 = 3;

/// What a command could not do; the exit status is then [`EXIT_INCOMPLETE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct IncompleteResult(String);

/// Keeps what CI builds used, predicts what the next one needs, and judges failed ones.
///
/// Without a command it serves. Every setting can be given as an option (--grpc-listen), as a variable
/// (PLIMSOLL_GRPC_LISTEN) or in the file (`grpc_listen`): the option wins over the variable, the variable over the file.
/// --print-config lists them all. With a command, options may stand before it or behind it.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-server",
    version = env!("PLIMSOLL_VERSION"),
    max_term_width = line::COLUMNS,
    styles = line::STYLES,
    after_help = line::examples_text(&["init first", "--config first/plimsoll.toml"])
)]
pub struct Cli {
    /// Settings, for all commands.
    #[command(flatten)]
    pub args: Args,
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program does instead of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Writes a configuration for a first try into a new directory: TLS with a CA of its own, and two tokens.
    Init(init::Init),
    /// Checks the settings and the machine as a server would find them, and says what to change. Starts nothing.
    Doctor(doctor::Doctor),
    /// Runs the predictor and the rules of others over recorded history, and reports the memory that each would have reserved beyond the needs.
    Replay(replay::Replay),
    /// Adds recorded history to the data directory of a stopped server.
    Import(import::Import),
    /// Judges recorded failures, and needs no server for it.
    Classify(classify::Classify),
    /// Checks rules for pools and for lines of logs, and shows which rule applies to a key, or decides on a log.
    Rules(rules::Rules),
    /// Tells what follows from the pools file for other systems, such as Koji and Copr.
    Pools(pools::Pools),
    /// Renames a project, so that its history goes on under its new name.
    Projects(projects::Projects),
    /// Looks at pipelines of GitLab: which jobs the include measures.
    Gitlab(gitlab::Gitlab),
    /// Reads everything in a database, or in a data directory that no server uses, and tells whether a server would start with it and what it would miss.
    Verify(verify::Verify),
    /// Saves what is left of a damaged data directory into a new one.
    Repair(repair::Repair),
    /// Writes all of the store as it is at this moment into a file, whether a server runs or not.
    Backup(backup::Backup),
    /// Makes a data directory from a backup, or a store in an empty database.
    Restore(restore::Restore),
    /// Copies what is alive into fresh files and puts them in the place of the old ones; no server may run.
    Compact(compact::Compact),
    /// Writes the history of a stopped server, or of a database, as JSON lines, and the series if asked to.
    Export(export::Export),
    /// Prints a completion script for a shell.
    Completions(shell::Completions),
    /// Writes a manual page for each command into a directory.
    Man(shell::Man),
}

// no doc comments on the two variants: `--help` would show them
/// Form of a result: for people, or for programs.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Command {
    /// Runs the command and reports its result.
    pub fn run(self, config: &Config) -> ExitCode {
        let done = match self {
            Self::Init(init) => init.run(config),
            Self::Doctor(doctor) => doctor.run(config),
            Self::Replay(replay) => replay.run(config),
            Self::Import(import) => import.run(config),
            Self::Classify(classify) => classify.run(config),
            Self::Rules(rules) => rules.run(config),
            Self::Pools(pools) => pools.run(config),
            Self::Projects(projects) => projects.run(config),
            Self::Gitlab(gitlab) => gitlab.run(),
            Self::Verify(verify) => verify.run(config),
            Self::Repair(repair) => repair.run(config),
            Self::Backup(backup) => backup.run(config),
            Self::Restore(restore) => restore.run(config),
            Self::Compact(compact) => compact.run(config),
            Self::Export(export) => export.run(config),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if is_closed_output(&error) => ExitCode::SUCCESS,
            Err(error) => {
                print_note(format_args!("plimsoll-server: {error:#}"));
                let is_incomplete = error.is::<import::RowsRefused>() || error.is::<IncompleteResult>();
                if is_incomplete || error.is::<OversizedAnswer>() {
                    ExitCode::from(EXIT_INCOMPLETE)
                } else {
                    ExitCode::FAILURE
                }
            }
        }
    }
}

/// Whether the error is that the reader of standard output closed it, as `head` does. Errors of
/// connections have another text, so they are not mistaken for it.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

/// Directory and cache size of the store, from the settings.
/// Errors: the store is in a database, and commands work on files.
fn store_settings(config: &Config) -> anyhow::Result<StoreSettings> {
    ensure!(
        config.store_url.is_none(),
        "store_url is set, so the store is in PostgreSQL, and this command works on a data directory: run it without store_url, on a \
         directory that was restored from a backup"
    );
    Ok(StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache.0 })
}

/// Prints a result on standard output.
fn print(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(text.as_bytes()).context("standard output")
}

/// Prints a line for people on standard error. Names in it may come from files, so control
/// characters are escaped.
fn print_note(line: impl Display) {
    let line = escaped_lines(&line.to_string()).into_owned();
    // if standard error is closed, there is no other way to report it
    let _unheard = writeln!(io::stderr(), "{}", terminal::wrapped_for(&line, io::stderr()));
}
