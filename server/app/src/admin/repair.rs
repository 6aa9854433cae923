//! `plimsoll-server repair`.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use plimsoll_proto::figures::{count, counted};
use plimsoll_store::{self as store, RepairReport, StoreSettings};

use super::{IncompleteResult, line::examples_text, print_note, progress, verify::records_line};
use crate::runtime::settings::Config;

/// Most losses that are named one by one.
const MAX_NAMED: usize = 100;

/// Saves what is left of a damaged data directory into a new one. The damaged one is never changed.
///
/// Reads whatever can be read, writes a fresh store of all whole records, and names what is lost. The exit status is 0 if nothing was,
/// 3 if the new store lacks something, and 1 if there is no new store.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["repair data --into mended"]))]
pub struct Repair {
    /// The damaged data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// A directory that does not exist yet, or is empty; else DIR with `.repaired` behind its name.
    #[arg(long, value_name = "NEW")]
    into: Option<PathBuf>,
}

impl Repair {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let into = self.into.map_or_else(|| default_target(&self.dir), Ok)?;
        let settings = StoreSettings { dir: into, cache_bytes: config.store_cache.0 };
        let whole = store::bytes_below(&self.dir).unwrap_or(0);
        let repaired = store::repair(&self.dir, &settings, progress::bytes("repairing", whole))?;
        print_report(&self.dir, &settings.dir, &repaired)
    }
}

/// The default directory for the new store.
fn default_target(dir: &Path) -> anyhow::Result<PathBuf> {
    let name = dir
        .file_name()
        .context("DIR has no name to put .repaired behind: name the new directory with --into")?;
    let mut name = name.to_owned();
    name.push(".repaired");
    Ok(dir.with_file_name(name))
}

/// A text with the number of lost ended attempts, if the original number is known.
fn missing_attempts(attempts: u64, found: u64) -> Option<String> {
    let missing = attempts.checked_sub(found).filter(|missing| *missing > 0)?;
    Some(format!("{} of {} that ended are missing; ", count(missing), counted(attempts, "attempt")))
}

fn print_report(dir: &Path, into: &Path, repaired: &RepairReport) -> anyhow::Result<()> {
    let RepairReport { by_engine, attempts, checked, losses } = repaired;
    for loss in losses.iter().take(MAX_NAMED) {
        print_note(loss);
    }
    if let Some(more) = losses.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        print_note(format_args!("and {more} more"));
    }
    let mut out = io::stdout();
    let how = if *by_engine { "by the storage engine" } else { "from the log itself" };
    writeln!(out, "{} was read {how}; it is as it was", dir.display())?;
    writeln!(out, "{} has {}", into.display(), records_line(checked))?;
    let missing = attempts.and_then(|attempts| missing_attempts(attempts, checked.summaries));
    if !losses.is_empty() || missing.is_some() {
        let missing = missing.unwrap_or_default();
        bail!(IncompleteResult(format!(
            "{missing}{} of {} cannot be read and {} named above; all else is in {}: start the server with that directory",
            counted(losses.len() as u64, "part"),
            dir.display(),
            if losses.len() == 1 { "is" } else { "are" },
            into.display()
        )));
    }
    writeln!(out, "nothing is lost: start the server with {}", into.display())?;
    Ok(())
}
