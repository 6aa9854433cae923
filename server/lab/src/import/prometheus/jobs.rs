//! GitLab's list of jobs, used to identify the jobs of pods.
//!
//! If a pod names its job, the list has the outcome of that job. Some pods name only their project, by its
//! number in the pod's name. Such a pod belongs to a job of that project if it is the only job that fits the
//! pod's time. If two jobs fit, or two pods fit the same job, none is used: a wrong key would lead to wrong
//! predictions.

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
    /// Number of the job's project.
    pub project: u64,
    /// Key of the job, without sizes.
    pub key: pb::Key,
    /// When a runner started the job, milliseconds since 1970.
    pub started_ms: u64,
    /// When the job ended, milliseconds since 1970; `None` while it runs.
    pub finished_ms: Option<u64>,
    /// How the job ended; `None` while it runs.
    pub end: Option<JobStatus>,
    /// Why the job failed, in GitLab's words; may be empty.
    pub reason: String,
    /// Whether the code of the job came from outside of the project: from a fork, or from a merge request of a
    /// fork.
    pub untrusted: bool,
}

/// How a job ended, according to GitLab's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// The job's status at its end.
    pub status: JobStatus,
    /// Why the job failed, in GitLab's words; may be empty.
    pub reason: String,
}

/// The jobs of projects, in some 200 bytes each.
#[derive(Debug, Default)]
pub struct ListedJobs {
    /// The jobs by project, sorted by their start.
    by_project: BTreeMap<u64, Vec<HeldJob>>,
    /// By project: the number of each job and its index in the project's list, sorted by number.
    places: BTreeMap<u64, Vec<(u64, u32)>>,
    /// The texts of reasons; jobs with the same reason share one text.
    reasons: BTreeSet<Arc<str>>,
}

impl ListedJobs {
    /// The jobs in `jobs`, which may have any order. All are of the import's GitLab host.
    pub fn new(jobs: impl IntoIterator<Item = ListedJob>) -> Self {
        let mut all = Self::default();
        jobs.into_iter().for_each(|job| all.push(job));
        all.sort();
        all
    }

    /// Adds a job. Call [`Self::sort`] after the last one.
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

    /// Removes the jobs of a project.
    pub fn forget(&mut self, project: u64) {
        self.by_project.remove(&project);
    }

    /// Sorts the jobs, and removes duplicates.
    pub fn sort(&mut self) {
        for (project, jobs) in &mut self.by_project {
            jobs.sort_by_key(|job| (job.started_ms, job.id));
            jobs.dedup_by_key(|job| job.id);
            jobs.shrink_to_fit();
            let mut places: Vec<(u64, u32)> = jobs.iter().map(|job| job.id).zip(0..).collect();
            places.sort_unstable();
            self.places.insert(*project, places);
        }
    }

    pub(super) fn find(&self, project: u64, id: u64) -> Option<&HeldJob> {
        let places = self.places.get(&project)?;
        let (_, place) = places.get(places.binary_search_by_key(&id, |(id, _)| *id).ok()?)?;
        self.by_project.get(&project)?.get(usize::try_from(*place).ok()?)
    }

    pub(super) fn knows(&self, project: u64) -> bool {
        self.by_project.contains_key(&project)
    }

    /// Finds the jobs of pods of one project. `pods` are the times of the first and last reading of each pod;
    /// the result has the same order. `taken` are the jobs that other pods name themselves.
    ///
    /// If only one job fits a pod, the pod gets that job, which is then not available to other pods; this may
    /// leave another pod with only one job, and so on. If two pods are left with the same job, the times cannot
    /// be right, and neither gets it.
    pub(super) fn fit_to_pods(
        &self,
        project: u64,
        pods: &[TimeRange],
        taken: &HashSet<u64>,
    ) -> Vec<Option<&HeldJob>> {
        let jobs = self.by_project.get(&project).map_or(&[][..], Vec::as_slice);
        FitByTime::new(jobs, pods, taken).job_of_each_pod()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_jobs_are_compact_and_round_trip() {
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
