//! `plimsoll-server verify`.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::bail;
use clap::Args;
use plimsoll_proto::figures::{count, counted, counted_as};

use super::{note, progress::Progress, progress::share, store_settings};
use crate::{config::Config, store::Offline};

/// Reads a whole data directory.
#[derive(Debug, Args)]
pub struct Verify {
    /// The data directory; else the one of the settings.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Reads the files themselves, not a copy beside them: needs no room, but what is damaged in them may be changed.
    #[arg(long)]
    in_place: bool,
    /// Directory in which the copy is made; else the data directory, or the one for temporary files where that cannot be written or has
    /// no room.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    scratch: Option<PathBuf>,
    /// Goes on with what is left of a store that has lost its last commits: from now on it opens again.
    #[arg(long)]
    accept_loss: bool,
}

impl Verify {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let mut settings = store_settings(config);
        settings.dir = self.dir.unwrap_or(settings.dir);
        if self.accept_loss {
            Offline::accept_loss(&settings)?;
        }
        let scratch = self.scratch.as_deref();
        let store =
            if self.in_place { Offline::open(&settings)? } else { Offline::look(&settings, scratch)? };
        let (mut progress, whole) = (Progress::new(), store.bytes_on_disk());
        let checked = store.check(
            |flaw| note(format_args!("{}: {}", flaw.key, flaw.reason)),
            |bytes| progress.tell("verifying", share(bytes, whole)),
        );
        progress.end();
        let mut out = io::stdout();
        writeln!(
            out,
            "store {}, format {}, commit {}",
            store.identity().id,
            store.identity().format,
            store.identity().sequence
        )?;
        let entries = counted_as(checked.entries, "entry", "entries");
        writeln!(out, "{entries}, {}, {} on disk", counted(checked.bytes, "byte"), counted(whole, "byte"))?;
        writeln!(
            out,
            "{} that ended and {} open, {}, {}, {}",
            counted(checked.summaries, "attempt"),
            count(checked.open),
            counted(checked.verdicts, "verdict"),
            counted(checked.tickets, "ticket"),
            counted(checked.samples, "sample")
        )?;
        if checked.unreadable > 0 {
            bail!(
                "{} cannot be read, named above: restore a backup into another directory, or save with export what can be read",
                counted_as(checked.unreadable, "range of keys", "ranges of keys")
            );
        }
        if checked.damaged > 0 {
            bail!(
                "{} damaged, named above; a server goes on without: do the same, or restore a backup",
                counted(checked.damaged, "record")
            );
        }
        if let Some(behind) = store.behind() {
            bail!("{behind}");
        }
        writeln!(out, "no damage found")?;
        Ok(())
    }
}
