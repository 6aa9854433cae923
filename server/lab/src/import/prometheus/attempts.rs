//! Pods that have ended, as attempts, or as why they are none.

use std::collections::{BTreeMap, HashMap, HashSet};

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cause, CpuMicros, EvidenceSource, JobStatus, Key, MeasurementSource, Millis,
        Outcome, Summary,
    },
    validated,
};
use plimsoll_proto::{
    job::{self, JobExecution},
    v1 as pb,
};

use super::{
    jobs::{ListedJob, ListedJobs, project_number},
    pods::{BuildPod, BuildPods, TimeRange},
};
use crate::import::{
    columns::{LEAST_BYTES, MOST_BYTES},
    draft::Record,
    refusals::{BUILD, Refusal, Refusals},
};

/// A pod without a sample for so long has ended; one with a sample so near the begin of the range began before it. Prometheus looks back as
/// far for the last value of a series.
const SILENCE_MS: u64 = 300_000;

/// How much is known of the pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCoverage {
    /// Pods in which something was built.
    pub builds: u64,
    /// Those of them whose job and its name are known.
    pub keyed: u64,
    /// Those of `keyed` that were found by time among the jobs that GitLab lists.
    pub by_time: u64,
    /// Those of `keyed` of which GitLab says how they ended.
    pub ended: u64,
    /// Those of which the project alone is known, by the name of the pod.
    pub project_alone: u64,
    /// Those of `project_alone` whose project's jobs were listed: none of them fits alone.
    pub unfit: u64,
    /// Those that still run at the end of the range.
    pub running: u64,
    /// Those that ran already at its begin.
    pub began_before: u64,
}

/// How a job ended, as GitLab lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// How.
    pub status: JobStatus,
    /// Why, in GitLab's words; may be empty.
    pub reason: String,
}

/// What the builds of a namespace used, over time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NamespaceTotals {
    /// Builds.
    pub builds: u64,
    /// Memory that they used, GiB x h.
    pub used: f64,
    /// Memory that they requested, GiB x h.
    pub requested: f64,
    /// CPU time that they used, hours.
    pub core_hours: f64,
}

/// What the pods are.
#[derive(Debug, Default)]
pub struct PodAttempts {
    /// Attempts, in order of their start; one for each job.
    pub records: Vec<Record>,
    /// Pods whose job makes no attempt.
    pub refusals: Refusals,
    /// How their jobs ended, as far as GitLab lists them.
    pub ends: HashMap<AttemptId, JobEnd>,
    /// How much is known of the pods.
    pub coverage: PodCoverage,
    /// What was used, by namespace.
    pub totals: BTreeMap<String, NamespaceTotals>,
}

/// A pod whose job is known.
struct KnownPod<'j> {
    /// Namespace and name.
    name: (String, String),
    pod: BuildPod,
    attempt: String,
    key: pb::Key,
    listed: Option<&'j ListedJob>,
}

/// Pods of one project that say no job, with their namespaces and names.
type BarePods = Vec<((String, String), BuildPod)>;

impl BuildPods {
    /// The attempts of `range`. `host` is that of the CI system, where pods do not name it, and may be empty. `jobs` are those of GitLab,
    /// as far as it was asked.
    pub fn finish(self, range: TimeRange, host: &str, jobs: &ListedJobs) -> PodAttempts {
        let mut all = PodAttempts { refusals: Refusals::of(BUILD), ..PodAttempts::default() };
        let (mut known, bare) = self.named(host, jobs, &mut all);
        for (project, pods) in bare {
            let own = |pod: &KnownPod<'_>| pod.listed.filter(|job| job.project == project).map(|job| job.id);
            let taken: HashSet<u64> = known.iter().filter_map(own).collect();
            let seen = pods.len() as u64;
            let found = found_by_time(pods, host, jobs, project, &taken);
            let alone = seen - found.len() as u64;
            all.coverage.by_time += found.len() as u64;
            all.coverage.project_alone += alone;
            all.coverage.unfit += if jobs.knows(project) { alone } else { 0 };
            known.extend(found);
        }
        known.sort_by(|a, b| (a.pod.first_ms, &a.name).cmp(&(b.pod.first_ms, &b.name)));
        let mut by_job: HashMap<AttemptId, Summary> = HashMap::new();
        for pod in known {
            // a job whose pod had to be made again: the last one did the work
            if let Some(summary) = pod.attempt(range, &mut all) {
                by_job.insert(summary.attempt.clone(), summary);
            }
        }
        let mut summaries: Vec<Summary> = by_job.into_values().collect();
        summaries.sort_by(|a, b| (a.started_unix_ms, &a.attempt).cmp(&(b.started_unix_ms, &b.attempt)));
        let record = |(line, summary)| Record { line, summary, timed: true, unnamed: None };
        all.records = (1..).zip(summaries).map(record).collect();
        all
    }

    /// The pods that name their job, and by project those that do not. Pods that name neither are counted, and no more.
    fn named<'j>(
        self,
        host: &str,
        jobs: &'j ListedJobs,
        all: &mut PodAttempts,
    ) -> (Vec<KnownPod<'j>>, BTreeMap<u64, BarePods>) {
        let (mut known, mut bare) = (Vec::new(), BTreeMap::<u64, BarePods>::new());
        let mut pods: Vec<_> = self.pods.into_iter().filter(|(_, pod)| pod.samples > 0).collect();
        pods.sort_by(|(name, pod), (other, than)| (pod.first_ms, name).cmp(&(than.first_ms, other)));
        for (name, pod) in pods {
            all.coverage.builds += 1;
            all.totals.entry(name.0.clone()).or_default().add(&pod);
            let lookup = |variable: &str| match self.labels.variable(&pod.described, variable) {
                None if variable == "CI_SERVER_HOST" => Some(host.to_owned()),
                said => said,
            };
            let (attempt, key, project) = (job::attempt(lookup), job::key(lookup), project_number(&name.1));
            if let Some(attempt) = attempt.filter(|_| !key.package.is_empty()) {
                // the same number may be a job of another GitLab
                let is_of_host = host.is_empty() || JobExecution::read(&attempt).host == host;
                let id = JobExecution::read(&attempt).number().filter(|_| is_of_host);
                let listed = project.zip(id).and_then(|(project, id)| jobs.find(project, id));
                known.push(KnownPod { name, pod, attempt, key, listed });
            } else if let Some(project) = project {
                bare.entry(project).or_default().push((name, pod));
            }
        }
        (known, bare)
    }
}

/// Those of the pods of a project that one of its jobs alone fits.
fn found_by_time<'j>(
    pods: BarePods,
    host: &str,
    jobs: &'j ListedJobs,
    project: u64,
    taken: &HashSet<u64>,
) -> Vec<KnownPod<'j>> {
    let readings: Vec<&BuildPod> = pods.iter().map(|(_, pod)| pod).collect();
    let found = jobs.fit(project, &readings, taken);
    let known = |((name, pod), job): (_, Option<&'j ListedJob>)| {
        let job = job?;
        let attempt = if host.is_empty() { job.id.to_string() } else { format!("{host}:{}", job.id) };
        Some(KnownPod { name, pod, attempt, key: job.key.clone(), listed: Some(job) })
    };
    pods.into_iter().zip(found).filter_map(known).collect()
}

impl KnownPod<'_> {
    /// The pod as an attempt; `None` if it is none, which is counted or refused.
    fn attempt(self, range: TimeRange, all: &mut PodAttempts) -> Option<Summary> {
        let Self { name: (namespace, name), pod, attempt, key, listed } = self;
        all.coverage.keyed += 1;
        if pod.last_ms.saturating_add(SILENCE_MS) > range.end_ms {
            all.coverage.running += 1;
            return None;
        }
        if pod.first_ms < range.start_ms.saturating_add(SILENCE_MS) {
            all.coverage.began_before += 1;
            return None;
        }
        let key = validated::key(Some(key)).map_err(|fault| ("key", fault.to_string()));
        let mut summary = match key.and_then(|key| pod.summary(&attempt, key)) {
            Ok(summary) => summary,
            Err((column, reason)) => {
                let reason = format!("{namespace}/{name}: {reason}");
                all.refusals.add(Refusal { line: all.coverage.keyed, column, reason });
                return None;
            }
        };
        if let Some(job) = listed {
            summary.opening.untrusted = job.untrusted;
            if let Some(status) = job.end {
                all.coverage.ended += 1;
                all.ends.insert(summary.attempt.clone(), JobEnd { status, reason: job.reason.clone() });
            }
        }
        Some(summary)
    }
}

impl BuildPod {
    fn wall(&self) -> Millis {
        Millis(self.last_ms.saturating_sub(self.first_ms))
    }

    fn mean(&self) -> Bytes {
        Bytes::from_f64(self.sum / f64::from(self.samples.max(1)))
    }

    /// The build as an attempt; else which column is wrong, and why.
    fn summary(&self, attempt: &str, key: Key) -> Result<Summary, (&'static str, String)> {
        let attempt = AttemptId::parse(attempt).map_err(|reason| ("attempt", reason))?;
        let most = if self.high_water > 0.0 { self.high_water } else { f64::INFINITY };
        // the working set counts hot file pages, which are no need where the high-water mark says so
        let need = Bytes::from_f64(self.peak.max(self.resident).min(most));
        if !(LEAST_BYTES..=MOST_BYTES).contains(&need.0) {
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
            need_mean: self.mean().min(need),
            memory_peak: Bytes::from_f64(self.high_water),
            outcome: if killed { Outcome::Failed } else { Outcome::Succeeded },
            cause: killed.then_some(Cause::Oom),
            cause_source: killed.then_some(source),
            censored: killed,
            ..Summary::recorded(attempt, key)
        })
    }
}

impl NamespaceTotals {
    fn add(&mut self, pod: &BuildPod) {
        self.builds += 1;
        self.used += pod.mean().gib_hours(pod.wall());
        self.requested += pod.resources.memory_request.map_or(0.0, |size| size.gib_hours(pod.wall()));
        self.core_hours += pod.cpu_seconds / 3600.0;
    }
}
