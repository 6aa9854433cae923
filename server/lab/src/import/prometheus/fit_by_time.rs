//! Which jobs of a project the pods are that say no job, by time. It holds a few bytes for each pod and job, and no list of what fits what: in a
//! busy project hundreds of jobs fit each of many thousand pods.

use std::collections::{BTreeMap, HashSet};

use super::{
    held_job::{CLOCKS_MS, HeldJob, UP_TO_BUILD_MS},
    pod::TimeRange,
};

/// Jobs and pods of one project.
#[derive(Debug)]
pub(super) struct FitByTime<'j, 'p> {
    /// The jobs, in order of their start.
    jobs: &'j [HeldJob],
    pods: &'p [TimeRange],
    /// Places of the pods, in order of their start.
    order: Vec<usize>,
    /// Jobs that no pod can take any more.
    taken: Vec<bool>,
    /// How many jobs fit each pod.
    fits: Vec<u32>,
}

impl<'j, 'p> FitByTime<'j, 'p> {
    pub(super) fn new(jobs: &'j [HeldJob], pods: &'p [TimeRange], taken: &HashSet<u64>) -> Self {
        let mut order: Vec<usize> = (0..pods.len()).collect();
        order.sort_by_key(|pod| pods.get(*pod).map(|pod| pod.start_ms));
        let taken = jobs.iter().map(|job| taken.contains(&job.id)).collect();
        let mut all = Self { jobs, pods, order, taken, fits: Vec::new() };
        let count = |pod: &TimeRange| u32::try_from(all.jobs_of(*pod).count()).unwrap_or(u32::MAX);
        all.fits = pods.iter().map(count).collect();
        all
    }

    /// The job of each pod, by the place of the pod.
    pub(super) fn found(mut self) -> Vec<Option<&'j HeldJob>> {
        let mut found: BTreeMap<usize, usize> = BTreeMap::new();
        let mut alone: Vec<usize> = (0..self.pods.len()).filter(|pod| self.fits_one(*pod)).collect();
        while !alone.is_empty() {
            let claims = self.claims(&alone);
            alone.clear();
            alone.extend(claims.keys().flat_map(|place| self.take(*place)).collect::<Vec<_>>());
            // what several pods claim is none of theirs
            let only = claims.iter().filter(|(_, pods)| pods.len() == 1);
            for (pod, place) in only.filter_map(|(place, pods)| Some((pods.first()?, place))) {
                found.insert(*pod, *place);
            }
            alone.retain(|pod| self.fits_one(*pod));
            alone.sort_unstable();
            alone.dedup();
        }
        let job_of = |pod: usize| self.jobs.get(*found.get(&pod)?);
        (0..self.pods.len()).map(job_of).collect()
    }

    /// Pods that only one job fits, by that job.
    fn claims(&self, alone: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut claims: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let job_of = |pod: usize| self.jobs_of(*self.pods.get(pod)?).next();
        for (pod, job) in alone.iter().filter_map(|pod| Some((*pod, job_of(*pod)?))) {
            claims.entry(job).or_default().push(pod);
        }
        claims
    }

    fn fits_one(&self, pod: usize) -> bool {
        self.fits.get(pod) == Some(&1)
    }

    /// Jobs that fit a pod and are not taken.
    fn jobs_of(&self, pod: TimeRange) -> impl Iterator<Item = usize> {
        let first = self.jobs.partition_point(|job| job.started_ms + UP_TO_BUILD_MS < pod.start_ms);
        let behind = self.jobs.partition_point(|job| job.started_ms <= pod.start_ms + CLOCKS_MS);
        let is_free = |place: usize| self.taken.get(place) == Some(&false);
        let near = (first..behind.max(first)).filter(move |place| is_free(*place));
        near.filter(move |place| self.jobs.get(*place).is_some_and(|job| job.may_have_run_in(pod)))
    }

    /// Takes a job from the pods that it fits, and returns these.
    fn take(&mut self, place: usize) -> Vec<usize> {
        let Some(job) = self.jobs.get(place) else { return Vec::new() };
        let start = |pod: &usize| self.pods.get(*pod).map_or(0, |pod| pod.start_ms);
        let first = self.order.partition_point(|pod| start(pod) + CLOCKS_MS < job.started_ms);
        let behind = self.order.partition_point(|pod| start(pod) <= job.started_ms + UP_TO_BUILD_MS);
        let near = self.order.get(first..behind.max(first)).unwrap_or_default();
        let fits = |pod: &&usize| self.pods.get(**pod).is_some_and(|pod| job.may_have_run_in(*pod));
        let pods: Vec<usize> = near.iter().filter(fits).copied().collect();
        for pod in &pods {
            if let Some(fits) = self.fits.get_mut(*pod) {
                *fits = fits.saturating_sub(1);
            }
        }
        if let Some(taken) = self.taken.get_mut(place) {
            *taken = true;
        }
        pods
    }
}
