//! JSON of attempts.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_proto::{
    measured,
    v1::{GetAttemptResponse, Key, ListAttemptsResponse, Phase, Predicted, Resources, Sample, Summary},
};
use serde::Serialize;

use super::predictor::VerdictJson;
use crate::ask::words;

/// A page of attempts, newest first.
#[derive(Debug, Serialize)]
pub(super) struct AttemptsJson {
    attempts: Vec<SummaryJson>,
    /// Empty on the last page.
    next_page_token: String,
}

/// One attempt with its series.
#[derive(Debug, Serialize)]
pub(super) struct AttemptJson {
    summary: Option<SummaryJson>,
    series: Vec<SampleJson>,
    samples_total: u64,
    /// Rows of `series` stand for more than one sample.
    downsampled: bool,
    /// Null if nobody asked for one.
    verdict: Option<VerdictJson>,
    /// The verdicts before it, newest first.
    earlier_verdicts: Vec<VerdictJson>,
}

/// What is kept of an attempt.
#[derive(Debug, Serialize)]
struct SummaryJson {
    attempt: String,
    key: KeyJson,
    /// 1 for the first execution.
    number: u32,
    retries: String,
    /// `cgroup_v2`, `cgroup_v1` or `process_tree`.
    source: String,
    resources: ResourcesJson,
    started_unix_ms: u64,
    wall_ms: u64,
    /// Null if CPU was not measured.
    cpu_usec: Option<u64>,
    samples: u64,
    samples_lost: u64,
    /// Null if memory was not measured.
    need_peak_bytes: Option<u64>,
    need_mean_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
    oom_kill: Option<u64>,
    reclaim_failures: Option<u64>,
    /// `running`, `succeeded`, `failed` or `lost`.
    outcome: String,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    /// `unspecified` unless the attempt failed.
    cause: String,
    /// `kernel`, `container`, `pod`, `measured`, `exit`, `ci` or `log`; empty if that is not known.
    cause_source: String,
    /// The need is a lower bound.
    censored: bool,
    cpu_peak_cores: Option<f64>,
    /// `own_limit`, `limit_above` or `host`; `unspecified` if nothing was killed or nobody can tell.
    oom_origin: String,
    oom_group_kill: Option<u64>,
    memory_stall_usec: Option<u64>,
    refaults: Option<u64>,
    throttled_usec: Option<u64>,
    starved_ms: Option<u64>,
    /// In order of their start.
    phases: Vec<PhaseJson>,
    /// Empty without phases.
    peak_phase: String,
    /// Empty if not known.
    pool: String,
    untrusted: bool,
    /// Null if nothing was predicted for it.
    predicted: Option<PredictedJson>,
}

/// What was predicted for an attempt when it opened.
#[derive(Debug, Serialize)]
struct PredictedJson {
    memory_request_bytes: u64,
    memory_limit_bytes: u64,
    cpu_request_cores: f64,
    wall_p95_ms: u64,
    /// The configured default, which counts as no prediction.
    is_default: bool,
}

/// A part of the build that its output names.
#[derive(Debug, Serialize)]
struct PhaseJson {
    name: String,
    started_ms: u64,
    wall_ms: u64,
    need_peak_bytes: u64,
    cpu_usec: u64,
}

/// What is built. Empty means not known.
#[derive(Debug, Serialize)]
pub(super) struct KeyJson {
    project: String,
    stack: String,
    package: String,
    version: String,
    variants: String,
    compiler: String,
    compiler_version: String,
    arch: String,
    build_system: String,
    r#ref: String,
    owner: String,
    labels: BTreeMap<String, String>,
    build_jobs: Option<u32>,
    input_bytes: Option<u64>,
}

/// What was asked for, or is in force.
#[derive(Debug, Serialize)]
struct ResourcesJson {
    memory_request_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    cpu_request_cores: Option<f64>,
    cpu_limit_cores: Option<f64>,
}

/// One reading, or a row of several.
#[derive(Debug, Serialize)]
struct SampleJson {
    elapsed_ms: u64,
    memory_bytes: u64,
    need_bytes: u64,
    memory_peak_bytes: Option<u64>,
    cpu_usec: u64,
    oom_kill: Option<u64>,
    reclaim_failures: Option<u64>,
    /// Null if the row is one reading.
    need_max_bytes: Option<u64>,
    memory_stall_usec: Option<u64>,
    refaults: Option<u64>,
    throttled_usec: Option<u64>,
    starved_ms: Option<u64>,
}

impl From<&ListAttemptsResponse> for AttemptsJson {
    fn from(page: &ListAttemptsResponse) -> Self {
        Self {
            attempts: page.attempts.iter().map(SummaryJson::from).collect(),
            next_page_token: page.next_page_token.clone(),
        }
    }
}

impl From<&GetAttemptResponse> for AttemptJson {
    fn from(shown: &GetAttemptResponse) -> Self {
        Self {
            summary: shown.summary.as_ref().map(SummaryJson::from),
            series: shown.series.iter().map(SampleJson::from).collect(),
            samples_total: shown.samples_total,
            downsampled: shown.downsampled,
            verdict: shown.verdict.as_ref().map(VerdictJson::from),
            earlier_verdicts: shown.earlier_verdicts.iter().map(VerdictJson::from).collect(),
        }
    }
}

impl From<&Summary> for SummaryJson {
    fn from(summary: &Summary) -> Self {
        let exit = summary.exit.unwrap_or_default();
        Self {
            attempt: summary.attempt.clone(),
            key: KeyJson::from(summary.key.clone().unwrap_or_default()),
            number: summary.number,
            retries: summary.retries.clone(),
            source: words::source(summary.source()),
            resources: ResourcesJson::from(summary.resources.unwrap_or_default()),
            started_unix_ms: summary.started_unix_ms,
            wall_ms: summary.wall_ms,
            cpu_usec: measured::cpu_usec(summary),
            samples: summary.samples,
            samples_lost: summary.samples_lost,
            need_peak_bytes: measured::need(summary),
            need_mean_bytes: measured::mean_need(summary),
            memory_peak_bytes: measured::memory_peak(summary),
            oom_kill: summary.oom_kill,
            reclaim_failures: summary.reclaim_failures,
            outcome: words::outcome(summary.outcome()),
            exit_code: exit.code,
            exit_signal: exit.signal,
            cause: words::cause(summary.cause()),
            cause_source: summary.cause_source.clone(),
            censored: summary.censored,
            cpu_peak_cores: measured::peak_cores(summary),
            oom_origin: words::oom_origin(summary.oom_origin()),
            oom_group_kill: summary.oom_group_kill,
            memory_stall_usec: summary.memory_stall_usec,
            refaults: summary.refaults,
            throttled_usec: summary.throttled_usec,
            starved_ms: summary.starved_ms,
            phases: summary.phases.iter().map(PhaseJson::from).collect(),
            peak_phase: summary.peak_phase.clone(),
            pool: summary.pool.clone(),
            untrusted: summary.untrusted,
            predicted: summary.predicted.map(PredictedJson::from),
        }
    }
}

impl From<Predicted> for PredictedJson {
    fn from(predicted: Predicted) -> Self {
        Self {
            memory_request_bytes: predicted.memory_request_bytes,
            memory_limit_bytes: predicted.memory_limit_bytes,
            cpu_request_cores: predicted.cpu_request_cores,
            wall_p95_ms: predicted.wall_p95_ms,
            is_default: predicted.is_default,
        }
    }
}

impl From<&Phase> for PhaseJson {
    fn from(phase: &Phase) -> Self {
        Self {
            name: phase.name.clone(),
            started_ms: phase.started_ms,
            wall_ms: phase.wall_ms,
            need_peak_bytes: phase.need_peak_bytes,
            cpu_usec: phase.cpu_usec,
        }
    }
}

impl From<Key> for KeyJson {
    fn from(key: Key) -> Self {
        let hints = key.hints.unwrap_or_default();
        Self {
            project: key.project,
            stack: key.stack,
            package: key.package,
            version: key.version,
            variants: key.variants,
            compiler: key.compiler,
            compiler_version: key.compiler_version,
            arch: key.arch,
            build_system: key.build_system,
            r#ref: key.r#ref,
            owner: key.owner,
            labels: key.labels.into_iter().collect(),
            build_jobs: hints.build_jobs,
            input_bytes: hints.input_bytes,
        }
    }
}

impl From<Resources> for ResourcesJson {
    fn from(resources: Resources) -> Self {
        Self {
            memory_request_bytes: resources.memory_request_bytes,
            memory_limit_bytes: resources.memory_limit_bytes,
            cpu_request_cores: resources.cpu_request_cores,
            cpu_limit_cores: resources.cpu_limit_cores,
        }
    }
}

impl From<&Sample> for SampleJson {
    fn from(sample: &Sample) -> Self {
        Self {
            elapsed_ms: sample.elapsed_ms,
            memory_bytes: sample.memory_bytes,
            need_bytes: sample.need_bytes,
            memory_peak_bytes: sample.memory_peak_bytes,
            cpu_usec: sample.cpu_usec,
            oom_kill: sample.oom_kill,
            reclaim_failures: sample.reclaim_failures,
            need_max_bytes: sample.need_max_bytes,
            memory_stall_usec: sample.memory_stall_usec,
            refaults: sample.refaults,
            throttled_usec: sample.throttled_usec,
            starved_ms: sample.starved_ms,
        }
    }
}
