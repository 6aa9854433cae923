//! `plimsoll-server compact`.

use std::io::{self, Write as _};

use clap::Args;
use plimsoll_proto::figures::{count, counted};
use plimsoll_store::OfflineStore;

use super::{line::examples_text, progress, store_settings};
use crate::runtime::settings::Config;

/// Makes the files of a store small.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["compact --data-dir data"]))]
pub struct Compact {}

impl Compact {
    #[expect(clippy::unused_self, reason = "the same shape as the other commands")]
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let settings = store_settings(config)?;
        let store = OfflineStore::open(&settings)?;
        let before = store.bytes_on_disk();
        let smaller = store.compact(settings.cache_bytes, progress::bytes("compacting", before))?;
        let after = OfflineStore::open(&settings)?.bytes_on_disk();
        writeln!(io::stdout(), "{} before, {} after", counted(before, "byte"), count(after))?;
        if !smaller {
            writeln!(io::stdout(), "the copy was no smaller, so the old files stay")?;
        }
        Ok(())
    }
}
