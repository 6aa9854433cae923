//! `plimsoll-server verify`.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::Args;
use plimsoll_core::domain::RetentionPolicy;
use plimsoll_proto::figures::{count, counted, counted_as};
use plimsoll_store::{CheckFinding, CheckReport, OfflineStore, StoreIdentity, StoreSettings, check_store};

use super::{
    IncompleteResult,
    database::{refuse_options_of_files, view_store},
    line::examples_text,
    print_note, progress,
};
use crate::runtime::{clock::Clock, settings::Config};

/// Reads a whole data directory, or a whole store in a database, and names what is damaged.
///
/// The exit status is 0 if a server starts with it and misses nothing, 3 if one starts and misses what is named, and 1 if none starts.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["verify data", "verify --store-url postgres://ci@db/plimsoll"]))]
pub struct Verify {
    /// The data directory; else the store of the settings.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Reads the files themselves, not a copy beside them: needs no room, but what is damaged in them may be changed.
    #[arg(long)]
    in_place: bool,
    /// Directory in which the copy is made; else the data directory, or the one for temporary files where that cannot be written or has
    /// no room.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    scratch: Option<PathBuf>,
    /// Goes on in the directory itself with what is left of a store that has lost its last commits: from now on it opens again. What stands
    /// behind the damage is then gone for good; `repair` saves it.
    #[arg(long)]
    accept_loss: bool,
}

impl Verify {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        if self.dir.is_none() && config.store_url.is_some() {
            let options = [
                ("--in-place", self.in_place),
                ("--scratch", self.scratch.is_some()),
                ("--accept-loss", self.accept_loss),
            ];
            refuse_options_of_files(config, &options)?;
            return verify_database(config);
        }
        let dir = self.dir.unwrap_or_else(|| config.data_dir.clone());
        let settings = StoreSettings { dir, cache_bytes: config.store_cache.0 };
        let scratch = self.scratch.as_deref();
        if self.accept_loss {
            OfflineStore::accept_loss(&settings, scratch)?;
        }
        let store = if self.in_place {
            OfflineStore::open(&settings)?
        } else {
            OfflineStore::open_copy(&settings, scratch)?
        };
        if let Some(refused) = store.server_refusal() {
            bail!("{refused}");
        }
        let whole = store.bytes_on_disk();
        let checked = store.check(|finding| print_finding(&finding), progress::bytes("verifying", whole));
        print_report(store.identity(), &checked, whole)?;
        judge_losses(&checked, &settings.dir)?;
        writeln!(io::stdout(), "no damage found")?;
        Ok(())
    }
}

/// Reads the store in a database, as it is now.
fn verify_database(config: &Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (identity, checked, whole) = runtime.block_on(async {
        let view = view_store(config).await?;
        let (identity, whole) = (view.snapshot().await?.identity(), view.status().bytes_on_disk);
        let checked = check_store(
            &view,
            identity.sequence,
            complete_since(&config.retain),
            |finding| print_finding(&finding),
            progress::bytes("verifying", whole),
        );
        anyhow::Ok((identity, checked.await?, whole))
    })?;
    print_report(identity, &checked, whole)?;
    let found = [
        (checked.unreadable > 0).then(|| {
            format!("{} cannot be read", counted_as(checked.unreadable, "range of keys", "ranges of keys"))
        }),
        (checked.damaged > 0).then(|| format!("{} damaged", counted(checked.damaged, "record"))),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    if !found.is_empty() {
        bail!(IncompleteResult(format!(
            "{}, named above: a server starts without what cannot be read. Go on without it, or restore a backup into another database",
            found.join(", and ")
        )));
    }
    writeln!(io::stdout(), "no damage found")?;
    Ok(())
}

/// Attempts that ended since this time have all their samples; `None` if samples are removed by their size.
fn complete_since(retain: &RetentionPolicy) -> Option<u64> {
    let kept_ms = u64::try_from(retain.keep_for.as_millis()).unwrap_or(u64::MAX);
    retain.max_bytes.is_none().then(|| Clock.now_unix_ms().saturating_sub(kept_ms))
}

fn print_finding(finding: &CheckFinding) {
    print_note(format_args!("{}: {}", finding.key, finding.reason));
}

fn print_report(identity: StoreIdentity, checked: &CheckReport, on_disk: u64) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let StoreIdentity { id, format, sequence } = identity;
    writeln!(out, "store {id}, format {format}, commit {sequence}")?;
    let entries = counted_as(checked.entries, "entry", "entries");
    writeln!(out, "{entries}, {}, {} on disk", counted(checked.bytes, "byte"), counted(on_disk, "byte"))?;
    writeln!(out, "{}", records_line(checked))?;
    Ok(())
}

/// How many records of each kind a store has.
pub(super) fn records_line(checked: &CheckReport) -> String {
    format!(
        "{} that ended and {} open, {}, {}, {}",
        counted(checked.summaries, "attempt"),
        count(checked.open),
        counted(checked.verdicts, "verdict"),
        counted(checked.tickets, "ticket"),
        counted(checked.samples, "sample")
    )
}

/// The result for a store with which a server would start: an error if the server would miss
/// something.
fn judge_losses(checked: &CheckReport, dir: &Path) -> anyhow::Result<()> {
    if checked.unreadable > 0 {
        bail!(IncompleteResult(format!(
            "{} cannot be read, named above: a server starts without those records. Restore a backup into another \
             directory, or save what is left into a new one (plimsoll-server repair {})",
            counted_as(checked.unreadable, "range of keys", "ranges of keys"),
            dir.display()
        )));
    }
    if checked.damaged > 0 {
        bail!(IncompleteResult(format!(
            "{} damaged, named above: a server starts without them. Go on without them, or restore a backup into another directory",
            counted(checked.damaged, "record"),
        )));
    }
    Ok(())
}
