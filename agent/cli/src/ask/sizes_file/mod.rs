//! Keeps proposed sizes in a file that people keep in git: reads it, changes what must change, and writes it in one step.
//!
//! | module | content |
//! |---|---|
//! | `classes` | the classes of machines, from a file of pools |
//! | `choice` | the cheapest class for a package, and for its versions and variants |
//! | `spack`, `spack_update` | the groups of Spack's `ci` section |
//! | `region` | the marked lines of a file, and the groups in them |
//! | `by_hand` | what people wrote outside of the marked lines |
//! | `yaml` | YAML with the lines of its values |
//! | `blocks` | jobs of GitLab and Kubernetes |
//! | `rows` | lines of CSV |
//! | `report` | what changed and why, as Markdown |
//! | `disk` | reads and writes the file |
//!
//! A size changes only if it is too small, or if the proposal saves more than [`MIN_SAVING`] and is sure enough. So a second run with the
//! same history changes nothing.

mod blocks;
mod by_hand;
mod choice;
mod classes;
mod disk;
mod region;
mod report;
mod rows;
mod spack;
mod spack_update;
#[cfg(test)]
mod tests;
mod yaml;

use std::path::PathBuf;

pub use classes::Classes;
use plimsoll_proto::{
    figures,
    recommendations::memory_text,
    v1::{RecommendResponse, Recommendation},
};
use report::{Change, Evidence, Report};

use super::{CommandOutput, ProposalFormat};

/// Exit status of `recommend --into` if the file changed.
pub const FILE_CHANGED: u8 = 10;
/// Least saving for which a size that suffices is lowered, as a share of what it costs today. Less is not worth a review.
const MIN_SAVING: f64 = 0.10;
/// Least confidence with which a size is lowered: that from which the server counts a number as known for a build, and not only for the
/// fleet. A size that is too small is raised with less.
const CONFIDENCE_TO_LOWER: f64 = 0.9;

/// Why a size is new, and why one stays.
const NEW: &str = "it had no size of its own";
const KEPT: &str = "people marked them to keep";

/// The file to keep, and how.
#[derive(Debug)]
pub struct KeptFile {
    /// Its path.
    pub path: PathBuf,
    /// What the file is: all but text and JSON.
    pub format: ProposalFormat,
    /// Print the summary for a reviewer.
    pub summary: bool,
}

/// The whole `ci` section of Spack for these proposals.
/// Errors: the proposals are for several projects, or without sizes by build jobs.
pub fn spack_file(answer: &RecommendResponse, classes: &Classes) -> Result<String, String> {
    let text = spack::updated("", answer, classes, &mut Report::default())?;
    Ok(if text.is_empty() { "ci:\n  pipeline-gen: []\n".to_owned() } else { text })
}

/// Brings the file up to date. Status [`FILE_CHANGED`] if it changed.
/// Errors: the file cannot be read, understood or written; then it is as it was.
pub fn update(
    file: &KeptFile,
    answer: &RecommendResponse,
    classes: Option<&Classes>,
) -> Result<CommandOutput, String> {
    let at = |why: String| format!("{}: {why}", file.path.display());
    let old = disk::read(&file.path).map_err(at)?;
    let mut report = Report::default();
    let new = match (file.format, classes) {
        (ProposalFormat::Spack, Some(classes)) => spack::updated(&old, answer, classes, &mut report),
        (ProposalFormat::Spack, None) => {
            Err("sizes for Spack need the classes of machines: --classes".into())
        }
        (ProposalFormat::Gitlab, _) => blocks::updated(&old, answer, &blocks::GITLAB, &mut report),
        (ProposalFormat::Kubernetes, _) => blocks::updated(&old, answer, &blocks::KUBERNETES, &mut report),
        (ProposalFormat::Csv, _) => rows::updated(&old, answer, &mut report),
        (ProposalFormat::Text | ProposalFormat::Json, _) => {
            Err("--into needs -o spack, gitlab, kubernetes or csv".into())
        }
    };
    let new = new.map_err(at)?;
    let is_changed = new != old;
    if is_changed {
        disk::write(&file.path, &new).map_err(at)?;
    }
    let status = if is_changed { FILE_CHANGED } else { 0 };
    let output = if file.summary {
        report.markdown(answer)
    } else {
        format!("{}: {}\n", file.path.display(), report.counts())
    };
    Ok(CommandOutput { status, ..CommandOutput::data(output) })
}

/// Whether a size in the file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// It stays, for this reason.
    Keep(&'static str),
    /// It changes, for this reason.
    Change(String),
}

/// The rule for every format for a size that suffices. `saving`: the share of its cost that the proposal saves.
fn decide(saving: f64, confidence: f64) -> Decision {
    if saving <= MIN_SAVING {
        return Decision::Keep("it suffices, and less would save little");
    }
    if confidence < CONFIDENCE_TO_LOWER {
        return Decision::Keep("less may suffice, but too little is known");
    }
    Decision::Change(format!("less suffices, which saves {}", figures::percent(saving)))
}

/// Memory request and limit, bytes; 0 and `None` if they are not there.
type MemorySizes = (u64, Option<u64>);

/// What changes in the size of a job or a row; `None` if it stays. `old`: `None` if the file does not have it; `is_kept`: people marked it.
/// A raise lowers nothing else of the job.
fn change(
    name: &str,
    old: Option<(MemorySizes, bool)>,
    new: MemorySizes,
    rows: &[&Recommendation],
    report: &mut Report,
) -> Option<Change> {
    let evidence = Evidence::of(rows);
    let change =
        Change { name: name.to_owned(), new: memory_text(new.0), request: new.0, ..Change::default() };
    let Some(((request, limit), is_kept)) = old else {
        let (why, saved) = (NEW.to_owned(), Some(rows.iter().map(|row| row.saved_gib_hours).sum()));
        return Some(Change { why, evidence, saved, ..change });
    };
    let is_too_small = request < new.0 || limit.zip(new.1).is_some_and(|(limit, new)| limit < new);
    let saving = 1.0 - figures::float(new.0) / figures::float(request.max(1));
    let decision = if is_kept { Decision::Keep(KEPT) } else { decide(saving, evidence.confidence) };
    let old = memory_text(request);
    match decision {
        Decision::Change(why) => {
            let saved = evidence.saved(request, new.0, 1.0);
            Some(Change { old, why, evidence, saved, ..change })
        }
        Decision::Keep(_) if is_too_small && !is_kept => {
            let larger = request.max(new.0);
            let saved = evidence.saved(request, larger, 1.0);
            let why = "it was too small".to_owned();
            let new = memory_text(larger);
            Some(Change { old, new, request: larger, is_raise: true, why, evidence, saved, ..change })
        }
        Decision::Keep(why) => {
            report.keep(why, name);
            None
        }
    }
}
