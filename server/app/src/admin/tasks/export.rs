//! Exports history as JSON lines that other tools read and `import` accepts; series go to a file of their own.
//!
//! A line of history has the columns of recorded history (`attempt`, `package`, `wall_ms`,
//! `peak_bytes`, `outcome` ..), and in the column `summary` the whole stored summary. A line of
//! series has samples with consecutive sequence numbers: `attempt`, `first_sequence`, `lost` (how
//! many numbers before `first_sequence` have no sample), `samples`.

use std::io::Write;

use anyhow::Context as _;
use plimsoll_core::domain::{AttemptId, Cause, Key, Outcome, Sample, Summary};
use plimsoll_proto::counters::PageCounters;
use plimsoll_store::{self as store, LoadReport, SampleRun, Store, StoreError, UnreadableRange};
use serde::{Serialize, Serializer};

/// Samples in one line of series.
const LINE_SAMPLES: usize = 1000;

/// One ended attempt in the columns of recorded history.
#[derive(Debug, Serialize)]
struct Row<'a> {
    attempt: &'a AttemptId,
    #[serde(flatten)]
    key: KeyTexts<'a>,
    build_jobs: Option<u32>,
    input_bytes: Option<u64>,
    submitted_ms: u64,
    wall_ms: u64,
    peak_bytes: u64,
    /// Mean memory need, bytes; null if it was not measured. `cpu_usec` is null likewise.
    mean_bytes: Option<u64>,
    cpu_usec: Option<u64>,
    requested_bytes: Option<u64>,
    outcome: &'static str,
    summary: &'a Summary,
}

impl<'a> Row<'a> {
    fn of(summary: &'a Summary) -> Self {
        let key = &summary.key;
        Self {
            attempt: &summary.attempt,
            key: KeyTexts(key),
            build_jobs: key.hints.build_jobs,
            input_bytes: key.hints.input_bytes,
            submitted_ms: summary.started_unix_ms,
            wall_ms: summary.wall.0,
            peak_bytes: summary.need_peak.0,
            mean_bytes: summary.measured_need_mean().map(|need| need.0),
            cpu_usec: summary.measured_cpu().map(|cpu| cpu.0),
            requested_bytes: summary.resources.memory_request.map(|bytes| bytes.0),
            outcome: outcome_word(summary),
            summary,
        }
    }
}

/// The texts of a key, each with its name.
#[derive(Debug)]
struct KeyTexts<'a>(&'a Key);

impl Serialize for KeyTexts<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.named_texts())
    }
}

/// The outcome as recorded history spells it. Only attempts that ran out of memory count there as
/// lower bounds of the need.
fn outcome_word(summary: &Summary) -> &'static str {
    match (summary.outcome, summary.cause) {
        (Outcome::Succeeded, _) => "success",
        (_, Some(Cause::Oom)) if summary.censored => "oom",
        (_, Some(Cause::Starved)) if summary.censored => "starved",
        _ => "failed",
    }
}

#[derive(Debug, Serialize)]
struct SamplesLine<'a> {
    attempt: &'a AttemptId,
    first_sequence: u64,
    lost: u64,
    samples: Vec<SampleRow>,
}

/// A sample; field names include units.
#[derive(Debug, Serialize)]
struct SampleRow {
    elapsed_ms: u64,
    memory_bytes: u64,
    need_bytes: u64,
    cpu_usec: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    need_max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_kill: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaim_failures: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_stall_usec: Option<u64>,
    #[serde(flatten)]
    pages: PageCounters,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_usec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starved_ms: Option<u64>,
}

impl SampleRow {
    fn of(sample: &Sample) -> Self {
        Self {
            elapsed_ms: sample.elapsed.0,
            memory_bytes: sample.memory.0,
            need_bytes: sample.need.0,
            cpu_usec: sample.cpu.0,
            need_max_bytes: sample.need_max.map(|bytes| bytes.0),
            memory_peak_bytes: sample.memory_peak.map(|bytes| bytes.0),
            oom_kill: sample.oom_kill,
            reclaim_failures: sample.reclaim_failures,
            memory_stall_usec: sample.memory_stall.map(|time| time.0),
            pages: sample.pages,
            throttled_usec: sample.throttled.map(|time| time.0),
            starved_ms: sample.starved.map(|time| time.0),
        }
    }
}

/// Writes a line for each readable ended attempt, sorted by id. Passes the ids to `on_progress`, and
/// ranges of the store that cannot be read to `gap`.
/// Errors: the store is closed, or `out` cannot be written.
pub(crate) async fn history(
    store: &Store,
    out: &mut (impl Write + Send),
    mut on_progress: impl FnMut(AttemptId) + Send,
    gap: impl FnMut(UnreadableRange) + Send,
) -> anyhow::Result<LoadReport> {
    let mut failed = None;
    let take = |summary: Summary| {
        if failed.is_none() {
            failed = write_line(out, &Row::of(&summary)).err();
            on_progress(summary.attempt);
        }
    };
    let loaded = store::load_past_damage(store, take, gap);
    let loaded = loaded.await?;
    failed.map_or(Ok(loaded), |error| Err(error).context("the export cannot be written"))
}

/// Writes the series of an attempt. Returns the number of samples, or why some could not be read.
/// Errors: `out` cannot be written.
pub(crate) async fn series(
    store: &Store,
    attempt: &AttemptId,
    out: &mut (impl Write + Send),
) -> anyhow::Result<Result<u64, StoreError>> {
    let mut failed = None;
    let extent = store::each_run(store, attempt, |run| {
        if failed.is_none() {
            failed = write_lines(out, attempt, &run).err();
        }
    });
    let samples = extent.await.map(|extent| extent.samples);
    failed.map_or(Ok(samples), |error| Err(error).context("the series cannot be written"))
}

fn write_lines(out: &mut impl Write, attempt: &AttemptId, run: &SampleRun) -> std::io::Result<()> {
    let (mut first_sequence, mut lost) = (run.first_sequence, run.lost);
    for samples in run.samples.chunks(LINE_SAMPLES) {
        let readings = samples.iter().map(SampleRow::of).collect();
        write_line(out, &SamplesLine { attempt, first_sequence, lost, samples: readings })?;
        first_sequence += samples.len() as u64;
        lost = 0;
    }
    Ok(())
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
