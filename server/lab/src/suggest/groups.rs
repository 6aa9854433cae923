//! Recorded attempts by package of a project and architecture.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::{
    domain::{Key, Millis, Outcome, Summary},
    placement::RuleSubject,
};

use crate::import::{FileError, Reader, Refusals};

/// A month of 30 days, milliseconds.
const MONTH_MS: u64 = 30 * 24 * 3_600_000;
/// The shortest time that is extrapolated to a month, milliseconds: a day.
const DAY_MS: u64 = 24 * 3_600_000;

/// One attempt that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedRun {
    /// Number of build jobs; 0 if it is not known.
    pub(super) jobs: u32,
    /// Wall time.
    pub(super) wall: Millis,
    /// CPU time; 0 if it is not known.
    pub(super) cpu: Millis,
    /// Pool in which the attempt ran; empty if that is not known.
    pub(super) pool: String,
}

/// The attempts of one package of a project on one architecture.
#[derive(Debug, Clone, Default)]
pub struct BuildGroup {
    /// Owner and name of the project: `owner/project`.
    pub owner_project: String,
    /// Architecture family; empty if the keys name none.
    pub family: &'static str,
    /// Name of the package.
    pub package: String,
    /// The architectures or chroots, as the keys name them.
    pub archs: BTreeSet<String>,
    /// The names of the builds as Copr's list matches them: `owner/project/arch/package`, one for
    /// each architecture.
    pub names: Vec<String>,
    /// Builds in a month, failed ones included; `None` if the file has no times.
    pub per_month: Option<f64>,
    /// Number of all builds, failed ones included.
    pub builds: u32,
    pub(super) runs: Vec<RecordedRun>,
}

/// All groups of builds in a file of recorded attempts.
#[derive(Debug, Default)]
pub struct RecordedBuilds {
    /// The groups, sorted by project, architecture and package.
    pub groups: Vec<BuildGroup>,
    /// Rows that were refused.
    pub refusals: Refusals,
}

impl RecordedBuilds {
    /// Reads a file. `on_progress` gets the share that is read.
    /// Errors: the file cannot be read.
    pub fn read(mut reader: Reader, mut on_progress: impl FnMut(f64)) -> Result<Self, FileError> {
        let mut groups: BTreeMap<(String, &'static str, String), BuildGroup> = BTreeMap::new();
        let (mut timed, mut span, mut rows) = (false, (u64::MAX, 0_u64), 0_u64);
        while let Some(record) = reader.next_record()? {
            rows += 1;
            if rows.is_multiple_of(1000) {
                on_progress(reader.position.share());
            }
            timed |= record.timed;
            let summary = record.summary;
            if record.timed {
                span = (span.0.min(summary.started_unix_ms), span.1.max(summary.started_unix_ms));
            }
            if summary.opening.untrusted || summary.key.package.is_empty() {
                continue;
            }
            let subject = RuleSubject::of(&summary.key);
            let name = (subject.owner_project.clone(), subject.family, summary.key.package.clone());
            let whole = subject.copr_path;
            let group = groups.entry(name).or_default();
            group.builds += 1;
            group.archs.insert(summary.key.arch.clone());
            if !group.names.contains(&whole) {
                group.names.push(whole);
            }
            group.runs.extend(run(&summary));
        }
        let months = Millis(span.1.saturating_sub(span.0).max(DAY_MS)).as_f64() / Millis(MONTH_MS).as_f64();
        let finished = groups.into_iter().map(|((owner_project, family, package), group)| BuildGroup {
            owner_project,
            family,
            package,
            per_month: timed.then(|| f64::from(group.builds) / months),
            ..group
        });
        Ok(Self { groups: finished.collect(), refusals: reader.refusals })
    }
}

/// What an attempt shows about build time; `None` if it did not succeed, or did its work elsewhere
/// or not at all.
fn run(summary: &Summary) -> Option<RecordedRun> {
    let is_whole =
        summary.outcome == Outcome::Succeeded && !summary.unneeded && summary.offloaded_to.is_empty();
    let Key { hints, .. } = &summary.key;
    (is_whole && summary.wall.0 > 0).then(|| RecordedRun {
        jobs: hints.build_jobs.unwrap_or(0),
        wall: summary.wall,
        cpu: Millis(summary.cpu.0 / 1000),
        pool: summary.opening.pool.clone(),
    })
}
