//! Turns the pods of an import into attempts, one for each job, and counts how much is known of the pods.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    io,
};

use super::{
    jobs::{JobEnd, ListedJobs},
    known::{PodCoverage, PodSource},
    pod::{BuildPod, TimeRange, project_number},
    pods::BuildPods,
};
use crate::import::{
    draft::Record,
    refusals::{BUILD_UNIT, Refusals},
};

/// Resources that the builds of a namespace used and requested.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NamespaceTotals {
    /// Number of builds.
    pub builds: u64,
    /// Memory used, GiB x h.
    pub used: f64,
    /// Memory requested, GiB x h.
    pub requested: f64,
    /// CPU time used, core hours.
    pub core_hours: f64,
}

/// The attempts that were found among the pods.
#[derive(Debug)]
pub struct PodAttempts<'j> {
    /// Pods with a known job, but with invalid data.
    pub refusals: Refusals,
    /// How many of the pods are known, and by what.
    pub coverage: PodCoverage,
    /// Resources by namespace.
    pub totals: BTreeMap<String, NamespaceTotals>,
    source: PodSource<'j>,
    /// Indices of the pods that become attempts, sorted: one pod for each job.
    chosen_pods: Vec<usize>,
}

/// An attempt, and how its job ended if GitLab's list has the job.
pub type PodAttempt = (Record, Option<JobEnd>);

/// Pods of one project that do not name their job: the index of each, and the time in which it was seen.
type BarePods = Vec<(usize, TimeRange)>;

/// A candidate for the attempt of a job: fingerprint of the attempt, time of the pod's first reading, index of
/// the pod.
type CandidatePod = (u64, u64, usize);

impl BuildPods {
    /// Finds the attempts of `range`. `host` is the host of the CI system for pods that do not name it; it may
    /// be empty. `jobs` are GitLab's jobs, as far as they were requested.
    /// Errors: A pod cannot be packed or unpacked.
    pub fn from_source<'j>(
        mut self,
        range: TimeRange,
        host: &str,
        jobs: &'j ListedJobs,
    ) -> io::Result<PodAttempts<'j>> {
        self.end()?;
        let source = PodSource { pods: self, range, host: host.to_owned(), jobs, by_time: Vec::new() };
        let mut all = PodAttempts {
            refusals: Refusals::of(BUILD_UNIT),
            coverage: PodCoverage::default(),
            totals: BTreeMap::new(),
            source,
            chosen_pods: Vec::new(),
        };
        all.find_by_time()?;
        all.choose_last_pods()?;
        Ok(all)
    }
}

impl PodAttempts<'_> {
    /// The attempts, sorted by the end of their pods.
    pub fn records(&self) -> impl Iterator<Item = io::Result<PodAttempt>> {
        let (mut line, mut unseen) = (0, PodCoverage::default());
        let known = self.source.known_pods().filter(|pod| match pod {
            Ok((place, _)) => self.chosen_pods.binary_search(place).is_ok(),
            Err(_) => true,
        });
        known.filter_map(move |pod| {
            let (_, pod) = match pod {
                Ok(pod) => pod,
                Err(error) => return Some(Err(error)),
            };
            let end = pod.end();
            let summary = pod.attempt(&self.source, &mut unseen).ok()??;
            line += 1;
            Some(Ok((Record { line, summary, timed: true, unnamed_rows: None }, end)))
        })
    }

    /// Counts the pods, and looks for the jobs of pods that do not name theirs.
    fn find_by_time(&mut self) -> io::Result<()> {
        let (source, coverage, mut by_time) = (&self.source, &mut self.coverage, Vec::new());
        let (mut bare, mut taken) = (BTreeMap::<u64, BarePods>::new(), HashMap::<u64, HashSet<u64>>::new());
        for (place, pod) in source.pods.build_pods().enumerate() {
            let (name, pod) = pod?;
            coverage.builds += 1;
            self.totals.entry(name.0.clone()).or_default().add(&pod);
            let project = project_number(&name.1);
            let seen = TimeRange { start_ms: pod.first_ms, end_ms: pod.last_ms };
            match (source.named(name, pod), project) {
                (Some(pod), _) => {
                    let own = project.zip(pod.listed_job.map(|job| job.id));
                    own.map(|(project, id)| taken.entry(project).or_default().insert(id));
                }
                (None, Some(project)) => bare.entry(project).or_default().push((place, seen)),
                (None, None) => {}
            }
        }
        for (project, pods) in bare {
            let seen: Vec<TimeRange> = pods.iter().map(|(_, seen)| *seen).collect();
            let found = source.jobs.fit_to_pods(project, &seen, &taken.remove(&project).unwrap_or_default());
            let found: Vec<_> =
                pods.iter().zip(found).filter_map(|((place, _), job)| Some((*place, job?))).collect();
            let (seen, found_here) = (pods.len() as u64, found.len() as u64);
            coverage.by_time += found_here;
            coverage.project_alone += seen - found_here;
            coverage.unfit += if source.jobs.knows(project) { seen - found_here } else { 0 };
            by_time.extend(found);
        }
        by_time.sort_unstable_by_key(|(place, _)| *place);
        self.source.by_time = by_time;
        Ok(())
    }

    /// Chooses one pod for each job. If a job had several pods, only the last one counts: it was started
    /// because the earlier ones had failed.
    fn choose_last_pods(&mut self) -> io::Result<()> {
        let hasher = RandomState::new();
        let mut found: Vec<CandidatePod> = Vec::new();
        for pod in self.source.known_pods() {
            let (place, pod) = pod?;
            let (first_ms, has_end) = (pod.pod.first_ms, pod.end().is_some());
            match pod.attempt(&self.source, &mut self.coverage) {
                Ok(Some(summary)) => {
                    self.coverage.ended += u64::from(has_end);
                    found.push((hasher.hash_one(&summary.attempt), first_ms, place));
                }
                Ok(None) => {}
                Err(refusal) => self.refusals.add(refusal),
            }
        }
        found.sort_unstable();
        let last = found.chunk_by(|one, other| one.0 == other.0).filter_map(<[_]>::last);
        self.chosen_pods = last.map(|(_, _, place)| *place).collect();
        self.chosen_pods.sort_unstable();
        Ok(())
    }
}

impl NamespaceTotals {
    fn add(&mut self, pod: &BuildPod) {
        self.builds += 1;
        self.used += pod.mean_memory().gib_hours(pod.wall());
        self.requested += pod.resources.memory_request.map_or(0.0, |size| size.gib_hours(pod.wall()));
        self.core_hours += pod.cpu_seconds / 3600.0;
    }
}
