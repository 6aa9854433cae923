//! `plimsoll-server export`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use plimsoll_proto::figures::counted;

use super::{note, progress::Progress, store_settings, target::Target};
use crate::{
    admin::export,
    config::Config,
    domain::AttemptId,
    store::{Copied, Offline, Store, StoreSettings},
};

/// Attempts with unreadable samples that are named one by one.
const NAMED: u64 = 10;

/// Writes the history as JSON lines, which `import` takes back as they are. Samples are for other programs: `backup` keeps them.
#[derive(Debug, Args)]
pub struct Export {
    /// A file that does not exist yet, or - for standard output. What cannot be read is named, the rest is written, and the exit status is 1.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Writes the samples of the ended attempts into this file, a run in a line; `import` does not read it.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Reads a copy of the data directory that is made in this one, and changes nothing in the files themselves. A data directory that
    /// cannot be written, or has no room, is read so in any case, in the directory for temporary files.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// What was written, and what could not be read.
#[derive(Debug, Default)]
struct Exported {
    attempts: u64,
    samples: u64,
    damaged: u64,
    gaps: u64,
    cut_series: u64,
}

impl Export {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.export(config))
    }

    async fn export(self, config: &Config) -> anyhow::Result<()> {
        ensure!(self.series.as_ref() != Some(&self.file), "FILE and the file of --series must be two");
        let settings = store_settings(config);
        let copied = self.copied(&settings)?;
        let settings = copied.as_ref().map_or(settings, |copied| copied.settings().clone());
        let mut target = Target::open(&self.file)?;
        let series = self.series.as_deref().map(Target::open).transpose();
        let mut series = match series {
            Ok(series) => series,
            Err(error) => {
                target.give_up();
                return Err(error);
            }
        };
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let exported = write(&store, &mut target, series.as_mut()).await;
        store.close().await.context("closing the store")?;
        let exported = match exported {
            Ok(exported) => exported,
            Err(error) => {
                target.give_up();
                series.map(Target::give_up).unwrap_or_default();
                return Err(error);
            }
        };
        target.finish()?;
        series.map(Target::finish).transpose()?;
        note(format_args!(
            "{} and {} exported",
            counted(exported.attempts, "attempt"),
            counted(exported.samples, "sample")
        ));
        drop(copied);
        exported.judge(&config.data_dir)
    }

    /// The copy that is read in place of the store, if the store itself is not. Only of a store that exists: an export must not make a
    /// directory.
    fn copied(&self, settings: &StoreSettings) -> anyhow::Result<Option<Copied>> {
        let scratch = self.scratch.as_deref();
        if scratch.is_none() && !Copied::is_needed(settings) {
            match Offline::open(settings) {
                Err(refused) if refused.is_write_refused() => {}
                opened => {
                    drop(opened?);
                    return Ok(None);
                }
            }
        }
        let copied = Copied::of(settings, scratch)?;
        note(format_args!("reading a copy of {} in {}", settings.dir.display(), copied.path().display()));
        Ok(Some(copied))
    }
}

impl Exported {
    /// Whether all was read.
    fn judge(&self, dir: &Path) -> anyhow::Result<()> {
        let Self { damaged, gaps, cut_series, .. } = self;
        ensure!(
            gaps + cut_series == 0,
            "{} cannot be read in whole: {} of attempts and the samples of {} missing; restore a backup for them",
            dir.display(),
            counted(*gaps, "range"),
            counted(*cut_series, "attempt")
        );
        ensure!(*damaged == 0, "{} damaged: see verify", counted(*damaged, "record"));
        Ok(())
    }
}

async fn write(store: &Store, target: &mut Target, series: Option<&mut Target>) -> anyhow::Result<Exported> {
    let (mut ids, mut gaps) = (Vec::new(), 0);
    let mut progress = Progress::new();
    let tell = |id| {
        ids.push(id);
        progress.count("attempts", ids.len() as u64);
    };
    let gap = |gap| {
        gaps += 1;
        note(format_args!("{gap}"));
    };
    let loaded = export::history(store, target, tell, gap).await;
    progress.end();
    let loaded = loaded?;
    let mut exported =
        Exported { attempts: loaded.records, damaged: loaded.damaged, gaps, ..Exported::default() };
    if let Some(series) = series {
        write_series(store, &ids, series, &mut exported).await?;
    }
    Ok(exported)
}

async fn write_series(
    store: &Store,
    ids: &[AttemptId],
    target: &mut Target,
    exported: &mut Exported,
) -> anyhow::Result<()> {
    let mut progress = Progress::new();
    for (done, id) in ids.iter().enumerate() {
        match export::series(store, id, target).await? {
            Ok(samples) => exported.samples += samples,
            Err(error) => {
                exported.cut_series += 1;
                if exported.cut_series <= NAMED {
                    note(format_args!("not all samples of {id} can be read: {error}"));
                }
            }
        }
        progress.tell("series", super::progress::share(done as u64, ids.len() as u64));
    }
    progress.end();
    Ok(())
}
