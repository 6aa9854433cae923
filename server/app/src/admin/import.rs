//! `plimsoll-server import`: recorded history, from a file or from Prometheus.

mod coverage;
mod gitlab;
mod prometheus;

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use plimsoll_core::domain::{AttemptId, History};
use plimsoll_lab::import;
use plimsoll_proto::figures::{count, counted};
use plimsoll_store::{Store, StoreSettings};
use prometheus::FromPrometheus;

use super::{database::open_free_store, line::examples_text, print_note, progress, store_settings};
use crate::runtime::{
    clock::Clock,
    settings::{Config, refuse_two_stores},
};

/// The error if some rows were refused: they were named, and the other rows are in the store.
#[derive(Debug, thiserror::Error)]
#[error(
    "rows were refused and are named above; correct them, and import the file again: what is there already is left alone"
)]
pub(super) struct RowsRefused;

/// Adds recorded history to a store that no server has open, from a file or from Prometheus. The exit status is 3 if rows were refused, the others are
/// added; and if Prometheus does not know which jobs its builds are of.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&[
    "import --data-dir data builds.csv",
    "import --data-dir data --prometheus http://prometheus:9090",
]))]
pub struct Import {
    /// CSV or JSON lines, plain or gzip (required columns: package, `wall_ms`, `peak_bytes`), or the history that `export` wrote (not its
    /// series).
    #[arg(value_name = "FILE", required_unless_present = "prometheus", conflicts_with = "prometheus")]
    file: Option<PathBuf>,
    /// Project of the rows that name none, as its builds name it (in GitLab: group/name). Attempts of an earlier import that have none get
    /// it too.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = parse_project)]
    project: String,
    /// Host of the GitLab whose jobs are in Prometheus without their address (`CI_SERVER_HOST`): they are named as agents name them.
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true, value_parser = parse_host, conflicts_with = "file")]
    host: String,
    #[command(flatten)]
    prometheus: FromPrometheus,
}

fn parse_host(text: &str) -> Result<String, String> {
    // an id with the longest job number must be valid too
    AttemptId::parse(&format!("{text}:{}", u64::MAX))?;
    if text.contains([':', '/']) {
        return Err("must be the name of a host alone, without protocol, port and path".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_project(text: &str) -> Result<String, String> {
    if text.len() > plimsoll_proto::limits::KEY_FIELD_BYTES || text.chars().any(char::is_control) {
        return Err(format!(
            "must be a name of at most {} printable bytes",
            plimsoll_proto::limits::KEY_FIELD_BYTES
        ));
    }
    Ok(text.to_owned())
}

impl Import {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.import(config))
    }

    async fn import(self, config: &Config) -> anyhow::Result<()> {
        let Some(file) = self.file else {
            return self.prometheus.import(config, &self.host, &self.project).await;
        };
        // the file is checked first: an invalid one must not create a data directory
        if let Some(refusals) = import::refusals_if_all(&file)? {
            writeln!(io::stdout(), "{}", counts_line(0, 0))?;
            return report_refusals(&refusals);
        }
        print_note(target_words(config));
        let store = open_store(config).await?;
        let project = self.project.clone();
        let unsaid = import::RecordDefaults { project: self.project, now_unix_ms: Clock.now_unix_ms() };
        let imported = import::commit(&file, &store, &unsaid, progress::shares("importing")).await;
        store.close().await.context("closing the store")?;
        let imported = imported?;
        let (added, known) = (imported.added, imported.known);
        writeln!(io::stdout(), "{}", counts_line(added, known))?;
        print_note(source_words(config));
        remarks(&imported, &project).iter().for_each(print_note);
        report_refusals(&imported.refusals)
    }
}

/// Remarks about the projects of the attempts, and about data that was not read.
fn remarks(imported: &import::ImportReport, project: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    if imported.projects_filled > 0 {
        let filled = counted(imported.projects_filled, "attempt");
        remarks.push(format!("{filled} already there had no project: the project is now {project}"));
    }
    if imported.of_other_project > 0 {
        let others = counted(imported.of_other_project, "attempt");
        remarks.push(format!(
            "{others} already there: of another project, which stays. A question about one project is answered from the attempts of that \
             project: ask with theirs, or import this file into a new data directory"
        ));
    }
    if imported.without_project > 0 {
        let without = counted(imported.without_project, "attempt");
        remarks.push(format!(
            "{without} without a project: a question that names a project (as Spack's header `Plimsoll-Project` does) is not answered from \
             them. The same command with `--project NAME` fills it in"
        ));
    }
    if imported.crowded_keys > 0 {
        let (keys, most) = (counted(imported.crowded_keys, "key"), History::PER_RUNG);
        remarks.push(format!(
            "{keys} with more than {most} attempts: a prediction reads the newest {most} of a key, statistics count all"
        ));
    }
    remarks
}

/// Cache of the storage engine, bytes. An import writes each attempt once and reads none back: 64 MiB would take 60 MiB more and save a
/// fifteenth of the time.
const CACHE_BYTES: u64 = 8 << 20;

/// Opens the store of a stopped server.
pub(super) async fn open_store(config: &Config) -> anyhow::Result<Store> {
    if config.store_url.is_some() {
        refuse_two_stores(&config.data_dir)?;
        return open_free_store(config).await;
    }
    let settings = store_settings(config)?;
    let settings = StoreSettings { cache_bytes: settings.cache_bytes.min(CACHE_BYTES), ..settings };
    let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
    opened.context("data_dir: opening the store failed unexpectedly")?.context("data_dir")
}

/// The data directory as an absolute path, for texts that are read in another directory.
fn data_dir(config: &Config) -> String {
    let dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_unknown| config.data_dir.clone());
    dir.display().to_string()
}

/// Text shown during an import: the directory or database into which it imports.
fn target_words(config: &Config) -> String {
    match &config.store_url {
        Some(url) => format!("importing into {url}"),
        None => format!("importing into the data directory {}", data_dir(config)),
    }
}

/// Text shown after an import: where the history is, and how a server uses it.
fn source_words(config: &Config) -> String {
    if let Some(url) = &config.store_url {
        return format!("the history is in {url}; a server reads it with --store-url {url}");
    }
    let dir = data_dir(config);
    format!("the history is in {dir}; a server reads it with --data-dir {dir}")
}

fn counts_line(added: u64, known: u64) -> String {
    format!("{} added, {} already there", counted(added, "attempt"), count(known))
}

/// Returns an error that names the refused rows.
fn report_refusals(refusals: &import::Refusals) -> anyhow::Result<()> {
    if refusals.count == 0 {
        return Ok(());
    }
    print_note(refusals);
    Err(RowsRefused.into())
}
