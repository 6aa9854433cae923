//! Jobs as GitLab lists them, beside the pods in which they ran.
//!
//! A pod that names its job gets how that job ended. A pod that names its project alone (its name has the number) is the one job of that
//! project that fits it in time. Where two jobs fit, or two pods claim one job, nothing is taken: a wrong key teaches a wrong size.

use std::collections::{BTreeMap, HashMap, HashSet};

use plimsoll_core::domain::JobStatus;
use plimsoll_proto::v1 as pb;

use super::pod::TimeRange;

/// By how much the clocks of GitLab and of Prometheus may differ.
const CLOCKS_MS: u64 = 60_000;
/// From the start of a job to the first reading of its build: a node is started, images are pulled. The runner waits for a pod for 3
/// minutes by default (`poll_timeout`); jobs whose nodes are slower wait longer.
const UP_TO_BUILD_MS: u64 = 30 * 60_000;
/// From the last reading of a build to the end of its job: caches and artifacts are sent.
const AFTER_BUILD_MS: u64 = 30 * 60_000;

/// A job that has run, as GitLab lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedJob {
    /// Its number.
    pub id: u64,
    /// Number of its project.
    pub project: u64,
    /// What it builds, without sizes.
    pub key: pb::Key,
    /// When a runner took it, milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended; `None` while it runs.
    pub finished_ms: Option<u64>,
    /// How it ended; `None` while it runs.
    pub end: Option<JobStatus>,
    /// Why it failed, in GitLab's words; may be empty.
    pub reason: String,
    /// Its code came from outside of the project: a fork, or a merge request of one.
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

/// Jobs of projects, by which pods are known.
#[derive(Debug, Default)]
pub struct ListedJobs {
    /// In order of their start, by project.
    by_project: BTreeMap<u64, Vec<ListedJob>>,
    /// Where a job stands in the list of its project.
    places: HashMap<(u64, u64), usize>,
}

impl ListedJobs {
    /// The jobs, in any order. The host of their GitLab is that of the import.
    pub fn new(jobs: impl IntoIterator<Item = ListedJob>) -> Self {
        let mut by_project: BTreeMap<u64, Vec<ListedJob>> = BTreeMap::new();
        for job in jobs {
            by_project.entry(job.project).or_default().push(job);
        }
        let mut places = HashMap::new();
        for (project, jobs) in &mut by_project {
            jobs.sort_by_key(|job| (job.started_ms, job.id));
            jobs.dedup_by_key(|job| job.id);
            places.extend(jobs.iter().enumerate().map(|(place, job)| ((*project, job.id), place)));
        }
        Self { by_project, places }
    }

    /// A job of a project by its number.
    pub(super) fn find(&self, project: u64, id: u64) -> Option<&ListedJob> {
        self.by_project.get(&project)?.get(*self.places.get(&(project, id))?)
    }

    /// Whether the jobs of this project were listed.
    pub(super) fn knows(&self, project: u64) -> bool {
        self.by_project.contains_key(&project)
    }

    /// Which job each pod is, by the place of the pod in `pods` (first and last reading of those of one project). `taken`: jobs that pods name themselves.
    ///
    /// A pod that only one job fits takes that job, which then fits no other pod, and so on. Two pods that only one job fits prove that
    /// something else is wrong: neither gets it.
    pub(super) fn fit(
        &self,
        project: u64,
        pods: &[TimeRange],
        taken: &HashSet<u64>,
    ) -> Vec<Option<&ListedJob>> {
        let jobs = self.by_project.get(&project).map_or(&[][..], Vec::as_slice);
        let fits = |pod: TimeRange| -> Vec<usize> {
            let first = jobs.partition_point(|job| job.started_ms + UP_TO_BUILD_MS < pod.start_ms);
            let behind = jobs.partition_point(|job| job.started_ms <= pod.start_ms + CLOCKS_MS);
            let near = jobs.get(first..behind.max(first)).unwrap_or_default();
            let fit = |job: &ListedJob| !taken.contains(&job.id) && job.may_have_run_in(pod);
            near.iter().enumerate().filter(|(_, job)| fit(job)).map(|(place, _)| first + place).collect()
        };
        let mut open: Vec<Vec<usize>> = pods.iter().map(|pod| fits(*pod)).collect();
        let mut found = BTreeMap::new();
        loop {
            let claims = claims(&open);
            if claims.is_empty() {
                return (0..pods.len())
                    .map(|pod| found.get(&pod).copied().and_then(|job| jobs.get(job)))
                    .collect();
            }
            let alone = claims.iter().filter_map(|(job, pods)| match pods.as_slice() {
                [pod] => Some((*pod, *job)),
                _ => None,
            });
            found.extend(alone);
            for fits in &mut open {
                fits.retain(|job| !claims.contains_key(job));
            }
        }
    }
}

/// Which pods claim a job: those that it alone fits.
fn claims(open: &[Vec<usize>]) -> BTreeMap<usize, Vec<usize>> {
    let mut claims: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (pod, fits) in open.iter().enumerate() {
        if let (1, Some(job)) = (fits.len(), fits.first()) {
            claims.entry(*job).or_default().push(pod);
        }
    }
    claims
}

impl ListedJob {
    fn may_have_run_in(&self, pod: TimeRange) -> bool {
        let end_ms = self.finished_ms.unwrap_or(u64::MAX - CLOCKS_MS);
        let is_inside = self.started_ms <= pod.start_ms + CLOCKS_MS && pod.end_ms <= end_ms + CLOCKS_MS;
        let is_near = self.started_ms + UP_TO_BUILD_MS >= pod.start_ms
            && self.finished_ms.is_none_or(|end_ms| end_ms <= pod.end_ms + AFTER_BUILD_MS);
        is_inside && is_near
    }
}
