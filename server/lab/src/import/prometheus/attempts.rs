//! Pods that have ended, as attempts, or as why they are none.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cause, CpuMicros, EvidenceSource, Key, MeasurementSource, Millis, Outcome, Summary,
    },
    validated,
};
use plimsoll_proto::job;

use super::pods::{BuildPod, BuildPods, TimeRange};
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
    /// Those of which the project alone is known, by the name of the pod.
    pub project_alone: u64,
    /// Those that still run at the end of the range.
    pub running: u64,
    /// Those that ran already at its begin.
    pub began_before: u64,
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
    /// How much is known of the pods.
    pub coverage: PodCoverage,
    /// What was used, by namespace.
    pub totals: BTreeMap<String, NamespaceTotals>,
}

impl BuildPods {
    /// The attempts of `range`. `host` is that of the CI system, where pods do not name it, and may be empty.
    pub fn finish(self, range: TimeRange, host: &str) -> PodAttempts {
        let mut all = PodAttempts { refusals: Refusals::of(BUILD), ..PodAttempts::default() };
        let mut by_job: HashMap<AttemptId, Summary> = HashMap::new();
        let mut pods: Vec<_> = self.pods.into_iter().filter(|(_, pod)| pod.samples > 0).collect();
        pods.sort_by(|(name, pod), (other, than)| (pod.first_ms, name).cmp(&(than.first_ms, other)));
        for ((namespace, name), pod) in pods {
            all.coverage.builds += 1;
            all.totals.entry(namespace.clone()).or_default().add(&pod);
            let lookup = |variable: &str| match self.labels.variable(&pod.described, variable) {
                None if variable == "CI_SERVER_HOST" => Some(host.to_owned()),
                said => said,
            };
            let (attempt, key) = (job::attempt(lookup), job::key(lookup));
            let Some(attempt) = attempt.filter(|_| !key.package.is_empty()) else {
                all.coverage.project_alone += u64::from(project_number(&name).is_some());
                continue;
            };
            all.coverage.keyed += 1;
            if pod.last_ms.saturating_add(SILENCE_MS) > range.end_ms {
                all.coverage.running += 1;
                continue;
            }
            if pod.first_ms < range.start_ms.saturating_add(SILENCE_MS) {
                all.coverage.began_before += 1;
                continue;
            }
            let key = validated::key(Some(key)).map_err(|fault| ("key", fault.to_string()));
            match key.and_then(|key| pod.summary(&attempt, key)) {
                // a job whose pod had to be made again: the last one did the work
                Ok(summary) => drop(by_job.insert(summary.attempt.clone(), summary)),
                Err((column, reason)) => {
                    let reason = format!("{namespace}/{name}: {reason}");
                    all.refusals.add(Refusal { line: all.coverage.builds, column, reason });
                }
            }
        }
        let mut summaries: Vec<Summary> = by_job.into_values().collect();
        summaries.sort_by(|a, b| (a.started_unix_ms, &a.attempt).cmp(&(b.started_unix_ms, &b.attempt)));
        let record = |(line, summary)| Record { line, summary, timed: true, unnamed: None };
        all.records = (1..).zip(summaries).map(record).collect();
        all
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

/// The project's number in the name of a runner's pod, `runner-TOKEN-project-23-concurrent-0-...`.
fn project_number(pod: &str) -> Option<u64> {
    let (_, rest) = pod.strip_prefix("runner-")?.split_once("project-")?;
    rest.split_once("-concurrent-")?.0.parse().ok()
}
