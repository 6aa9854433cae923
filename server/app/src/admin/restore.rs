//! `plimsoll-server restore`.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use plimsoll_proto::figures::{counted, counted_as};
use plimsoll_store::backup::{self, RestoreScope, RestoredEntries};

use super::{database::restore_store, line::examples_text, progress, store_settings};
use crate::runtime::settings::Config;

/// Makes a data directory from a backup, or a store in a database that has none: all of it, or nothing.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&[
    "restore --data-dir restored plimsoll.backup",
    "restore --store-url postgres://ci@db/plimsoll plimsoll.backup",
]))]
pub struct Restore {
    /// A file that `backup` wrote, or - for standard input. From a file, which is read twice, a store in files takes half as much disk.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Leaves out open tickets, and what was taken for them at servers upstream. For a copy beside the original: a server with these records
    /// closes the original's machines.
    #[arg(long)]
    without_tickets: bool,
}

impl Restore {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let scope = if self.without_tickets { RestoreScope::WithoutTickets } else { RestoreScope::All };
        let restored = if self.file == Path::new("-") {
            let on_progress = progress::bytes("restoring", 0);
            let counted = ReportingReader { source: io::stdin().lock(), bytes_done: 0, on_progress };
            restore(config, None::<io::Empty>, counted, scope)
        } else {
            let source = self.open()?;
            let found = source.get_ref().metadata()?;
            // only a file is read twice: a pipe can be read once
            let before = found.is_file().then(|| self.open()).transpose()?;
            let on_progress = progress::bytes("restoring", found.len());
            let counted = ReportingReader { source, bytes_done: 0, on_progress };
            restore(config, before, counted, scope)
        };
        let restored = restored.map_err(|error| self.refused(error))?;
        let entries = counted_as(restored.entries, "entry", "entries");
        let mut out = io::stdout();
        writeln!(out, "{entries} restored into {}", place(config))?;
        if restored.upstream_tickets > 0 {
            let tickets = counted(restored.upstream_tickets, "ticket");
            writeln!(
                out,
                "{tickets} at servers upstream: a server with this copy closes them there. If the original still runs, remove the copy and restore with --without-tickets"
            )?;
        }
        Ok(())
    }

    /// Names the file in an error, if nothing of it was restored.
    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        if matches!(error.downcast_ref(), Some(backup::BackupError::Unconfirmed(_))) {
            return error;
        }
        error.context(format!("{} cannot be restored", self.file.display()))
    }

    fn open(&self) -> anyhow::Result<BufReader<File>> {
        let file = File::open(&self.file).with_context(|| format!("cannot open {}", self.file.display()))?;
        Ok(BufReader::new(file))
    }
}

/// Restores into the store that the settings name.
fn restore(
    config: &Config,
    before: Option<impl Read>,
    archive: impl Read,
    scope: RestoreScope,
) -> anyhow::Result<RestoredEntries> {
    if config.store_url.is_some() {
        return restore_store(config, archive, scope);
    }
    Ok(backup::restore(before, archive, &store_settings(config)?, scope)?)
}

/// Where the store is that the settings name, for texts.
fn place(config: &Config) -> String {
    config.store_url.clone().unwrap_or_else(|| config.data_dir.display().to_string())
}

/// Counts the bytes read.
struct ReportingReader<R, T> {
    source: R,
    bytes_done: u64,
    on_progress: T,
}

impl<R: Read, T: FnMut(u64)> Read for ReportingReader<R, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.bytes_done += count as u64;
        (self.on_progress)(self.bytes_done);
        Ok(count)
    }
}
