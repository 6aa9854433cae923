//! `plimsoll-server import`.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;

use super::{note, progress::Progress};
use crate::{
    config::Config,
    import,
    store::{Store, StoreSettings},
};

/// Adds recorded history to a data directory.
#[derive(Debug, Args)]
pub struct Import {
    /// CSV or JSON lines, plain or gzip; needed columns: package, `wall_ms`, `peak_bytes`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.import(config))
    }

    async fn import(self, config: &Config) -> anyhow::Result<()> {
        // a file that is not one must not make a data directory
        import::Reader::open(&self.file)?;
        let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache };
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let mut progress = Progress::new();
        let imported = import::commit(&self.file, &store, |share| progress.tell("importing", share)).await;
        progress.end();
        store.close().await.context("closing the store")?;
        let imported = imported?;
        let (added, known) = (imported.added, imported.known);
        writeln!(io::stdout(), "{added} attempts added, {known} were there already")?;
        if imported.refusals.count > 0 {
            note(&imported.refusals);
        }
        Ok(())
    }
}
