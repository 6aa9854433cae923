//! Turns a pod with a known job into an attempt, or explains why that is not possible.

use std::io;

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cause, CpuMicros, EvidenceSource, Key, MeasurementSource, OpeningRecord, Outcome,
        Summary,
    },
    validated,
};
use plimsoll_proto::{
    job::{self, JobExecution},
    v1 as pb,
};

use super::{
    held_job::HeldJob,
    jobs::{JobEnd, ListedJobs},
    pod::{BuildPod, PodName, TimeRange, project_number},
    pods::BuildPods,
};
use crate::import::{
    columns::{MAX_MEMORY_BYTES, MIN_MEMORY_BYTES},
    refusals::RowRefusal,
};

/// A pod without a sample for this long has ended. A pod with its first sample within this time after the start
/// of the range began before the range. Prometheus itself looks back this far for the last value of a series.
const SILENCE_MS: u64 = 300_000;

/// How many of the pods are known, and by what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCoverage {
    /// Pods in which something was built.
    pub builds: u64,
    /// Pods in `builds` with a known job and job name.
    pub keyed: u64,
    /// Pods in `keyed` with a job that was found by time in GitLab's list.
    pub by_time: u64,
    /// Pods in `keyed` that have their end in GitLab's list.
    pub ended: u64,
    /// Pods of which only the project is known, from the name of the pod.
    pub project_alone: u64,
    /// Pods in `project_alone` that belong to a listed project, but do not fit exactly one of its jobs.
    pub unfit: u64,
    /// Pods that still ran at the end of the range.
    pub running: u64,
    /// Pods that already ran at the start of the range.
    pub began_before: u64,
    /// Pods of which readings may be missing, because Prometheus' answers were partial.
    pub partial: u64,
}

/// The pods of an import, and what is known of their jobs.
#[derive(Debug)]
pub(super) struct PodSource<'j> {
    pub(super) pods: BuildPods,
    pub(super) range: TimeRange,
    pub(super) host: String,
    pub(super) jobs: &'j ListedJobs,
    /// The pods with a job that was found by time: index of the pod, and its job. Sorted by index.
    pub(super) by_time: Vec<(usize, &'j HeldJob)>,
}

/// A pod with a known job.
pub(super) struct KnownPod<'j> {
    /// Namespace and name of the pod.
    name: PodName,
    pub(super) pod: BuildPod,
    attempt: String,
    key: pb::Key,
    pub(super) listed_job: Option<&'j HeldJob>,
}

impl<'j> PodSource<'j> {
    /// The pods with a known job, each with its index among all pods.
    pub(super) fn known_pods(&self) -> impl Iterator<Item = io::Result<(usize, KnownPod<'j>)>> {
        let pods = self.pods.build_pods().enumerate();
        pods.filter_map(|(place, pod)| match pod {
            Ok((name, pod)) => self.known_pod(place, name, pod).map(|pod| Ok((place, pod))),
            Err(error) => Some(Err(error)),
        })
    }

    fn known_pod(&self, place: usize, name: PodName, pod: BuildPod) -> Option<KnownPod<'j>> {
        let by_time = self.by_time.binary_search_by_key(&place, |(place, _)| *place).ok();
        let Some((_, job)) = by_time.and_then(|found| self.by_time.get(found)).copied() else {
            return self.named(name, pod);
        };
        let host = &self.host;
        let attempt = if host.is_empty() { job.id.to_string() } else { format!("{host}:{}", job.id) };
        Some(KnownPod { name, pod, attempt, key: job.key(), listed_job: Some(job) })
    }

    /// The pod with its job, if the pod's labels name the job.
    pub(super) fn named(&self, name: PodName, pod: BuildPod) -> Option<KnownPod<'j>> {
        let lookup = |variable: &str| match self.pods.labels.variable(&pod.described, variable) {
            None if variable == "CI_SERVER_HOST" => Some(self.host.clone()),
            found => found,
        };
        let (attempt, key) = (job::attempt(lookup)?, job::key(lookup));
        if key.package.is_empty() {
            return None;
        }
        // a job of another GitLab may have the same number
        let is_of_host = self.host.is_empty() || JobExecution::read(&attempt).host == self.host;
        let id = JobExecution::read(&attempt).number().filter(|_| is_of_host);
        let listed = project_number(&name.1).zip(id).and_then(|(project, id)| self.jobs.find(project, id));
        Some(KnownPod { name, pod, attempt, key, listed_job: listed })
    }
}

impl KnownPod<'_> {
    /// How the pod's job ended, if GitLab's list has the job.
    pub(super) fn end(&self) -> Option<JobEnd> {
        let job = self.listed_job?;
        Some(JobEnd { status: job.end?, reason: job.reason.to_string() })
    }

    /// Turns the pod into an attempt. `None` if the pod began before the range, still ran at its end, or was not seen completely;
    /// `coverage` then counts it.
    pub(super) fn attempt(
        self,
        source: &PodSource<'_>,
        coverage: &mut PodCoverage,
    ) -> Result<Option<Summary>, RowRefusal> {
        let Self { name: (namespace, name), pod, attempt, key, listed_job: listed } = self;
        coverage.keyed += 1;
        let range = source.range;
        if pod.last_ms.saturating_add(SILENCE_MS) > range.end_ms {
            coverage.running += 1;
            return Ok(None);
        }
        if pod.first_ms < range.start_ms.saturating_add(SILENCE_MS) {
            coverage.began_before += 1;
            return Ok(None);
        }
        if source.pods.is_partial(&pod, SILENCE_MS) {
            coverage.partial += 1;
            return Ok(None);
        }
        let key = validated::key(Some(key)).map_err(|fault| ("key", fault.to_string()));
        let summary = key.and_then(|key| pod.summary(&attempt, key)).map_err(|(column, reason)| {
            let reason = format!("{namespace}/{name}: {reason}");
            RowRefusal { line: coverage.keyed, column, reason }
        })?;
        let untrusted = listed.map_or(summary.opening.untrusted, |job| job.untrusted);
        let opening = OpeningRecord { untrusted, ..summary.opening };
        Ok(Some(Summary { opening, ..summary }))
    }
}

impl BuildPod {
    /// Turns the pod's readings into a summary. The error names the invalid column, and why it is invalid.
    fn summary(&self, attempt: &str, key: Key) -> Result<Summary, (&'static str, String)> {
        let attempt = AttemptId::parse(attempt).map_err(|reason| ("attempt", reason))?;
        let most = if self.high_water > 0.0 { self.high_water } else { f64::INFINITY };
        // the working set contains active page cache, which is not part of the need; the high-water mark bounds
        // it
        let need = Bytes::from_f64(self.memory_peak.max(self.resident_peak).min(most));
        if !(MIN_MEMORY_BYTES..=MAX_MEMORY_BYTES).contains(&need.0) {
            return Err(("peak_bytes", format!("{} cannot be the memory of a build", need.0)));
        }
        let killed = self.oom_killed || self.oom_events > 0.0;
        let source = if self.oom_events > 0.0 { EvidenceSource::Kernel } else { EvidenceSource::Container };
        Ok(Summary {
            source: MeasurementSource::Prometheus,
            resources: self.resources,
            started_unix_ms: self.first_ms,
            wall: self.wall(),
            cpu: CpuMicros(Bytes::from_f64(self.cpu_seconds * 1e6).0),
            need_peak: need,
            need_mean: self.mean_memory().min(need),
            memory_peak: Bytes::from_f64(self.high_water),
            outcome: if killed { Outcome::Failed } else { Outcome::Succeeded },
            cause: killed.then_some(Cause::Oom),
            cause_source: killed.then_some(source),
            censored: killed,
            ..Summary::recorded(attempt, key)
        })
    }
}
