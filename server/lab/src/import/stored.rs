//! What an import must know of the attempts in the store: which rows are already there, and their projects.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use plimsoll_core::domain::{AttemptId, History, Key, MeasurementSource, Summary};
use plimsoll_proto::job;

use super::draft::Record;

/// How the project of a stored attempt compares with the one in the row that is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectOfStored {
    /// Both the stored attempt and the row name the same project, or the row names none.
    Same,
    /// Neither the stored attempt nor the row names a project.
    Missing,
    /// The stored attempt, written by an import, has no project, and the row names one.
    Fillable,
    /// The stored attempt and the row name different projects.
    Other,
}

/// The project of a stored attempt, and where the attempt came from.
#[derive(Debug)]
struct StoredProject {
    project: Arc<str>,
    /// Whether an import wrote the attempt; otherwise an agent measured it.
    is_imported: bool,
}

/// Counts the rows of each key.
#[derive(Debug, Default)]
pub(super) struct CrowdedKeys {
    hasher: RandomState,
    row_count_by_key_hash: HashMap<u64, usize>,
}

impl CrowdedKeys {
    pub(super) fn count(&mut self, key: &Key) {
        *self.row_count_by_key_hash.entry(self.hasher.hash_one(key.build_key_texts())).or_default() += 1;
    }

    /// Number of keys with so many rows that a prediction reads only the newest of them.
    pub(super) fn crowded(&self) -> u64 {
        self.row_count_by_key_hash.values().filter(|rows| **rows > History::PER_RUNG).count() as u64
    }
}

/// The attempts that the store holds.
#[derive(Debug, Default)]
pub(super) struct StoredAttempts {
    project_by_id: HashMap<AttemptId, StoredProject>,
    /// Names of the projects; each name is stored once.
    project_names: HashSet<Arc<str>>,
    /// Host and number of the CI job of each attempt; the host is empty if it is unknown.
    jobs: HashSet<(String, u64)>,
    /// The numbers of all these CI jobs, without their hosts.
    job_numbers: HashSet<u64>,
}

impl StoredAttempts {
    pub(super) fn add(&mut self, summary: &Summary) {
        let id = summary.attempt.clone();
        let name = summary.key.project.as_str();
        let known = self.project_names.get(name).cloned();
        let project = known.unwrap_or_else(|| {
            let project = Arc::<str>::from(name);
            self.project_names.insert(Arc::clone(&project));
            project
        });
        let is_imported = summary.source == MeasurementSource::Unspecified && summary.samples == 0;
        if let Some((host, number)) = job_of(&id) {
            self.jobs.insert((host.to_owned(), number));
            self.job_numbers.insert(number);
        }
        self.project_by_id.insert(id, StoredProject { project, is_imported });
    }

    /// Compares the project of a known attempt with the one in its row.
    pub(super) fn project_of(&self, row: &Summary) -> ProjectOfStored {
        let Some(stored) = self.project_by_id.get(&row.attempt) else { return ProjectOfStored::Same };
        let (is, named) = (&*stored.project, row.key.project.as_str());
        match (is.is_empty(), named.is_empty()) {
            (true, true) => ProjectOfStored::Missing,
            (true, false) if stored.is_imported => ProjectOfStored::Fillable,
            (_, true) => ProjectOfStored::Same,
            (_, false) if is == named => ProjectOfStored::Same,
            (_, false) => ProjectOfStored::Other,
        }
    }

    /// Whether the store has the attempt of a row.
    pub(super) fn knows(&self, record: &Record) -> bool {
        self.project_by_id.contains_key(&record.summary.attempt)
    }

    /// Whether the store has an attempt of the CI job in `attempt`, which is the job's number, with or without
    /// its host. If a host is unknown, equal numbers count as the same job, so that a build which an agent has
    /// measured is not counted twice.
    pub(super) fn knows_job(&self, attempt: &AttemptId) -> bool {
        let known = self.project_by_id.contains_key(attempt);
        let Some((own, number)) = job_of(attempt) else { return known };
        if own.is_empty() {
            return known || self.job_numbers.contains(&number);
        }
        let is_there = |host: &str| self.jobs.contains(&(host.to_owned(), number));
        known || is_there(own) || is_there("")
    }
}

/// Host and number of the CI job of an attempt; the host is empty if it is unknown.
fn job_of(id: &AttemptId) -> Option<(&str, u64)> {
    let named = job::JobExecution::read(id.as_str());
    Some((named.host, named.number()?))
}
