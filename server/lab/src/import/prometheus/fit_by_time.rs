//! Finds the jobs of pods that do not name theirs, by time. A few bytes for each pod and each job are in
//! memory, and no list of possible pairs: in a busy project, hundreds of jobs fit each of many thousand pods.

use std::collections::{BTreeMap, HashSet};

use super::{
    held_job::{CLOCK_DIFFERENCE_MS, HeldJob, UP_TO_BUILD_MS},
    pod::TimeRange,
};

/// Finds the job of each pod of one project by the times of both.
#[derive(Debug)]
pub(super) struct FitByTime<'j, 'p> {
    /// The jobs, sorted by their start.
    jobs: &'j [HeldJob],
    pods: &'p [TimeRange],
    /// Indices of the pods, sorted by their start.
    pod_order: Vec<usize>,
    /// For each job, whether it has already been given to a pod.
    taken_jobs: Vec<bool>,
    /// For each pod, how many free jobs fit it.
    fitting_jobs: Vec<u32>,
}

impl<'j, 'p> FitByTime<'j, 'p> {
    pub(super) fn new(jobs: &'j [HeldJob], pods: &'p [TimeRange], taken: &HashSet<u64>) -> Self {
        let mut order: Vec<usize> = (0..pods.len()).collect();
        order.sort_by_key(|pod| pods.get(*pod).map(|pod| pod.start_ms));
        let taken = jobs.iter().map(|job| taken.contains(&job.id)).collect();
        let mut all = Self { jobs, pods, pod_order: order, taken_jobs: taken, fitting_jobs: Vec::new() };
        let count = |pod: &TimeRange| u32::try_from(all.jobs_of(*pod).count()).unwrap_or(u32::MAX);
        all.fitting_jobs = pods.iter().map(count).collect();
        all
    }

    /// The job of each pod, in the order of the pods; `None` for a pod that fits no job, or several.
    pub(super) fn job_of_each_pod(mut self) -> Vec<Option<&'j HeldJob>> {
        let mut found: BTreeMap<usize, usize> = BTreeMap::new();
        let mut alone: Vec<usize> = (0..self.pods.len()).filter(|pod| self.fits_exactly_one(*pod)).collect();
        while !alone.is_empty() {
            let claims = self.only_pods(&alone);
            alone.clear();
            alone.extend(claims.keys().flat_map(|place| self.take(*place)).collect::<Vec<_>>());
            // if several pods fit only this one job, none of them gets it
            let only = claims.iter().filter(|(_, pods)| pods.len() == 1);
            for (pod, place) in only.filter_map(|(place, pods)| Some((pods.first()?, place))) {
                found.insert(*pod, *place);
            }
            alone.retain(|pod| self.fits_exactly_one(*pod));
            alone.sort_unstable();
            alone.dedup();
        }
        let job_of = |pod: usize| self.jobs.get(*found.get(&pod)?);
        (0..self.pods.len()).map(job_of).collect()
    }

    /// For each job, the pods of `alone` that only this job fits.
    fn only_pods(&self, alone: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut claims: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let job_of = |pod: usize| self.jobs_of(*self.pods.get(pod)?).next();
        for (pod, job) in alone.iter().filter_map(|pod| Some((*pod, job_of(*pod)?))) {
            claims.entry(job).or_default().push(pod);
        }
        claims
    }

    fn fits_exactly_one(&self, pod: usize) -> bool {
        self.fitting_jobs.get(pod) == Some(&1)
    }

    /// Indices of the free jobs that fit a pod.
    fn jobs_of(&self, pod: TimeRange) -> impl Iterator<Item = usize> {
        let first = self.jobs.partition_point(|job| job.started_ms + UP_TO_BUILD_MS < pod.start_ms);
        let behind = self.jobs.partition_point(|job| job.started_ms <= pod.start_ms + CLOCK_DIFFERENCE_MS);
        let is_free = |place: usize| self.taken_jobs.get(place) == Some(&false);
        let near = (first..behind.max(first)).filter(move |place| is_free(*place));
        near.filter(move |place| self.jobs.get(*place).is_some_and(|job| job.may_have_run_in(pod)))
    }

    /// Marks a job as taken; returns the pods that it fits, which now have one job less.
    fn take(&mut self, place: usize) -> Vec<usize> {
        let Some(job) = self.jobs.get(place) else { return Vec::new() };
        let start = |pod: &usize| self.pods.get(*pod).map_or(0, |pod| pod.start_ms);
        let first = self.pod_order.partition_point(|pod| start(pod) + CLOCK_DIFFERENCE_MS < job.started_ms);
        let behind = self.pod_order.partition_point(|pod| start(pod) <= job.started_ms + UP_TO_BUILD_MS);
        let near = self.pod_order.get(first..behind.max(first)).unwrap_or_default();
        let fits = |pod: &&usize| self.pods.get(**pod).is_some_and(|pod| job.may_have_run_in(*pod));
        let pods: Vec<usize> = near.iter().filter(fits).copied().collect();
        for pod in &pods {
            if let Some(fits) = self.fitting_jobs.get_mut(*pod) {
                *fits = fits.saturating_sub(1);
            }
        }
        if let Some(taken) = self.taken_jobs.get_mut(place) {
            *taken = true;
        }
        pods
    }
}
