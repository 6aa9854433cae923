//! Jobs as GitLab lists them, beside the pods in which they ran.
//!
//! A pod that names its job gets how that job ended. A pod that names its project alone (its name has the number) is the one job of that
//! project that fits it in time. Where two jobs fit, or two pods claim one job, nothing is taken: a wrong key teaches a wrong size.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use plimsoll_core::domain::JobStatus;
use plimsoll_proto::v1 as pb;
use prost::Message as _;

use super::{fit_by_time::FitByTime, held_job::HeldJob, pod::TimeRange};

/// A job that has run, as GitLab lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedJob {
    /// Number of the job.
    pub id: u64,
    /// Number of its project.
    pub project: u64,
    /// Key of the job, without sizes.
    pub key: pb::Key,
    /// When a runner took it, milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended; `None` while it runs.
    pub finished_ms: Option<u64>,
    /// How it ended; `None` while it runs.
    pub end: Option<JobStatus>,
    /// Why it failed, in GitLab's words; may be empty.
    pub reason: String,
    /// Whether the job's code came from outside of the project: a fork, or a merge request of one.
    pub untrusted: bool,
}

/// How a job ended, as GitLab lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// How.
    pub status: JobStatus,
    /// Why, in GitLab's words; may be empty.
    pub reason: String,
}

/// Jobs of projects, by which pods are known: some 200 bytes each.
#[derive(Debug, Default)]
pub struct ListedJobs {
    /// The jobs by project, in order of their start.
    by_project: BTreeMap<u64, Vec<HeldJob>>,
    /// The number of each job and its place in the list of its project, in order.
    places: BTreeMap<u64, Vec<(u64, u32)>>,
    /// Each reason once.
    reasons: BTreeSet<Arc<str>>,
}

impl ListedJobs {
    /// The jobs, in any order. The host of their GitLab is that of the import.
    pub fn new(jobs: impl IntoIterator<Item = ListedJob>) -> Self {
        let mut all = Self::default();
        jobs.into_iter().for_each(|job| all.push(job));
        all.order();
        all
    }

    /// Adds a job. [`Self::order`] is to be called after the last one.
    pub fn push(&mut self, job: ListedJob) {
        let ListedJob { id, project, key, started_ms, finished_ms, end, reason, untrusted } = job;
        let reason = self.reasons.get(reason.as_str()).cloned().unwrap_or_else(|| reason.into());
        if !self.reasons.contains(&reason) {
            self.reasons.insert(Arc::clone(&reason));
        }
        let key = key.encode_to_vec().into_boxed_slice();
        let held = HeldJob { id, started_ms, finished_ms, end, untrusted, reason, key };
        self.by_project.entry(project).or_default().push(held);
    }

    /// Takes the jobs of a project away.
    pub fn forget(&mut self, project: u64) {
        self.by_project.remove(&project);
    }

    /// Brings the jobs in order, each once.
    pub fn order(&mut self) {
        for (project, jobs) in &mut self.by_project {
            jobs.sort_by_key(|job| (job.started_ms, job.id));
            jobs.dedup_by_key(|job| job.id);
            jobs.shrink_to_fit();
            let mut places: Vec<(u64, u32)> = jobs.iter().map(|job| job.id).zip(0..).collect();
            places.sort_unstable();
            self.places.insert(*project, places);
        }
    }

    /// A job of a project by its number.
    pub(super) fn find(&self, project: u64, id: u64) -> Option<&HeldJob> {
        let places = self.places.get(&project)?;
        let (_, place) = places.get(places.binary_search_by_key(&id, |(id, _)| *id).ok()?)?;
        self.by_project.get(&project)?.get(usize::try_from(*place).ok()?)
    }

    /// Whether the jobs of this project were listed.
    pub(super) fn knows(&self, project: u64) -> bool {
        self.by_project.contains_key(&project)
    }

    /// Which job each pod is, by the place of the pod in `pods` (first and last reading of those of one project). `taken`: jobs that pods name
    /// themselves.
    ///
    /// A pod that only one job fits takes that job, which then fits no other pod, and so on. Two pods that only one job fits prove that
    /// something else is wrong: neither gets it.
    pub(super) fn fit(
        &self,
        project: u64,
        pods: &[TimeRange],
        taken: &HashSet<u64>,
    ) -> Vec<Option<&HeldJob>> {
        let jobs = self.by_project.get(&project).map_or(&[][..], Vec::as_slice);
        FitByTime::new(jobs, pods, taken).found()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_a_long_list_takes_two_hundred_bytes_and_comes_out_as_it_went_in() {
        let labels = [("job", "build-zlib"), ("pipeline", "1234567"), ("commit", &"a".repeat(40))];
        let key = pb::Key {
            project: "group/app".into(),
            package: "build-zlib".into(),
            r#ref: "main".into(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..pb::Key::default()
        };
        let job = |id| ListedJob {
            id,
            project: 23,
            key: key.clone(),
            started_ms: id,
            finished_ms: Some(id + 1),
            end: Some(JobStatus::Failed),
            reason: "script_failure".to_owned(),
            untrusted: true,
        };
        let jobs = ListedJobs::new((0..100).rev().map(job));
        let held = jobs.find(23, 7).unwrap();
        assert_eq!((held.id, held.key(), &*held.reason), (7, key, "script_failure"));
        assert!(size_of::<HeldJob>() + held.key.len() <= 220, "{}", held.key.len());
        assert_eq!(jobs.reasons.len(), 1);
    }
}
