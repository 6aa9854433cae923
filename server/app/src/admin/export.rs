//! `plimsoll-server export`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use plimsoll_core::domain::AttemptId;
use plimsoll_proto::figures::counted;
use plimsoll_store::{Store, StoreCopy};

use super::{
    database::{refuse_options_of_files, view_store},
    line::examples_text,
    print_note,
    progress::Progress,
    store_settings,
    target::Target,
};
use crate::{
    admin::tasks::{export, export_corrections},
    runtime::settings::Config,
};

/// Most attempts with unreadable samples that are named one by one.
const MAX_NAMED: u64 = 10;

/// Writes the history as JSON lines, which `import` takes back as they are. Samples are for other programs: `backup` keeps them.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&[
    "export --data-dir data history.jsonl",
    "export --store-url postgres://ci@db/plimsoll history.jsonl",
]))]
pub struct Export {
    /// A file that does not exist yet, or - for standard output. What cannot be read is named, the rest is written, and the exit status is 1.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Writes the samples of the ended attempts into this file, a run in a line; `import` does not read it.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Writes the causes that people corrected into this file, as cases for rules: the rule that was wrong, the line of the log, the cause
    /// that was given. Corrections that were taken back are not among them.
    #[arg(long, value_name = "FILE")]
    corrections: Option<PathBuf>,
    /// Directory in which the copy of the data directory is made that is read, so that nothing in the files themselves changes; else the
    /// data directory, or the one for temporary files where that cannot be written or has no room.
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
    /// Number of corrections, if they were requested.
    corrections: Option<anyhow::Result<u64>>,
}

impl Export {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.export(config))
    }

    async fn export(self, config: &Config) -> anyhow::Result<()> {
        ensure!(self.series.as_ref() != Some(&self.file), "FILE and the file of --series must be two");
        let others = [Some(&self.file), self.series.as_ref()];
        let is_own = self.corrections.is_none() || !others.contains(&self.corrections.as_ref());
        ensure!(is_own, "the file of --corrections must be one of its own");
        refuse_options_of_files(config, &[("--scratch", self.scratch.is_some())])?;
        let copied = if config.store_url.is_some() { None } else { Some(self.copy_files(config)?) };
        let store = match &copied {
            Some(copied) => tokio::task::block_in_place(|| copied.open()).context("data_dir")?,
            None => view_store(config).await?,
        };
        let mut target = Target::open(&self.file)?;
        let mut series = self.series.as_deref().map(Target::open).transpose()?;
        let mut exported = write(&store, &mut target, series.as_mut()).await;
        if let (Ok(exported), Some(file)) = (&mut exported, self.corrections.as_deref()) {
            exported.corrections = Some(write_corrections(&store, file).await);
        }
        store.close().await.context("closing the store")?;
        let mut exported = exported?;
        target.finish()?;
        series.map(Target::finish).transpose()?;
        print_note(format_args!(
            "{} and {} exported",
            counted(exported.attempts, "attempt"),
            counted(exported.samples, "sample")
        ));
        drop(copied);
        if let Some(corrections) = exported.corrections.take().transpose()? {
            print_note(format_args!("{} exported", counted(corrections, "correction")));
        }
        exported.judge(config)
    }

    /// Copies the files of the store, so that nothing in the files themselves changes.
    fn copy_files(&self, config: &Config) -> anyhow::Result<StoreCopy> {
        let settings = store_settings(config)?;
        let copied = StoreCopy::of(&settings, self.scratch.as_deref())?;
        let (dir, place) = (settings.dir.display(), copied.path().display());
        print_note(format_args!("reading a copy of {dir} in {place}, and changing nothing in {dir}"));
        Ok(copied)
    }
}

impl Exported {
    /// Returns an error if anything could not be read.
    fn judge(&self, config: &Config) -> anyhow::Result<()> {
        let Self { damaged, gaps, cut_series, .. } = self;
        let dir = config.data_dir.display();
        let (store, other_way) = if let Some(url) = &config.store_url {
            (url.clone(), String::new())
        } else {
            (
                dir.to_string(),
                format!(", or save what is left into a new directory (plimsoll-server repair {dir})"),
            )
        };
        ensure!(
            gaps + cut_series == 0,
            "{store} cannot be read in whole: {} of attempts and the samples of {} missing; restore a backup for them{other_way}",
            counted(*gaps, "range"),
            counted(*cut_series, "attempt"),
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
        print_note(format_args!("{gap}"));
    };
    let loaded = export::history(store, target, tell, gap).await?;
    drop(progress);
    let mut exported =
        Exported { attempts: loaded.records, damaged: loaded.damaged, gaps, ..Exported::default() };
    if let Some(series) = series {
        write_series(store, &ids, series, &mut exported).await?;
    }
    Ok(exported)
}

async fn write_corrections(store: &Store, file: &Path) -> anyhow::Result<u64> {
    let mut target = Target::open(file)?;
    let count = export_corrections::corrections(store, &mut target).await?;
    target.finish()?;
    Ok(count)
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
                if exported.cut_series <= MAX_NAMED {
                    print_note(format_args!("not all samples of {id} can be read: {error}"));
                }
            }
        }
        progress.show_part("series", done as u64, ids.len() as u64);
    }
    Ok(())
}
