//! `plimsoll-server export`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::{note, progress::Progress, store_settings, target::Target};
use crate::{
    admin::export,
    config::Config,
    store::{Loaded, Offline, Store},
};

/// Writes the history as JSON lines.
#[derive(Debug, Args)]
pub struct Export {
    /// A file that does not exist yet, or - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Writes the samples of the ended attempts into this file, a run in a line.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.export(config))
    }

    async fn export(self, config: &Config) -> anyhow::Result<()> {
        let settings = store_settings(config);
        // only a store that exists: an export must not make a directory
        drop(Offline::open(&settings)?);
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let exported = self.write(&store).await;
        store.close().await.context("closing the store")?;
        let (loaded, samples) = exported?;
        note(format_args!("{} attempts and {samples} samples exported", loaded.records));
        anyhow::ensure!(loaded.damaged == 0, "{} records are damaged: see verify", loaded.damaged);
        Ok(())
    }

    async fn write(&self, store: &Store) -> anyhow::Result<(Loaded, u64)> {
        let mut ids = Vec::new();
        let mut target = Target::open(&self.file)?;
        let mut progress = Progress::new();
        let tell = |id| {
            ids.push(id);
            progress.count("attempts", ids.len() as u64);
        };
        let exported = export::history(store, &mut target, tell).await;
        progress.end();
        match exported {
            Ok(loaded) => {
                target.finish()?;
                let samples = self.write_series(store, &ids).await?;
                Ok((loaded, samples))
            }
            Err(error) => {
                target.give_up();
                Err(error)
            }
        }
    }

    async fn write_series(&self, store: &Store, ids: &[crate::domain::AttemptId]) -> anyhow::Result<u64> {
        let Some(path) = &self.series else { return Ok(0) };
        let mut target = Target::open(path)?;
        let (mut progress, mut samples) = (Progress::new(), 0);
        for (done, id) in ids.iter().enumerate() {
            match export::series(store, id, &mut target).await {
                Ok(count) => samples += count,
                Err(error) => {
                    progress.end();
                    target.give_up();
                    return Err(error);
                }
            }
            progress.tell("series", super::progress::share(done as u64, ids.len() as u64));
        }
        progress.end();
        target.finish()?;
        Ok(samples)
    }
}
