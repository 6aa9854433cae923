//! JSON of attempts and statistics.

use std::collections::BTreeMap;

use plimsoll_proto::v1::{
    GetAttemptResponse, GetStatsResponse, Key, ListAttemptsResponse, Resources, Sample, StatsTotals, Summary,
};
use serde::Serialize;

use crate::ask::words;

/// Totals, by group and over time.
#[derive(Debug, Serialize)]
pub(super) struct StatsJson {
    totals: TotalsJson,
    /// Largest waste first.
    groups: Vec<GroupJson>,
    steps: Vec<StepJson>,
}

/// The attempts of one group.
#[derive(Debug, Serialize)]
struct GroupJson {
    name: String,
    totals: TotalsJson,
}

/// The attempts of one stretch of time.
#[derive(Debug, Serialize)]
struct StepJson {
    from_unix_ms: u64,
    totals: TotalsJson,
}

/// Sums over some attempts.
#[derive(Debug, Serialize)]
struct TotalsJson {
    attempts: u64,
    succeeded: u64,
    failed: u64,
    lost: u64,
    oom: u64,
    starved: u64,
    retries: u64,
    wall_hours: f64,
    cpu_core_hours: f64,
    /// Need over time.
    memory_used_gib_hours: f64,
    /// Asked over time, of the attempts that asked.
    memory_asked_gib_hours: f64,
    /// Asked and not used, and everything that failed attempts held.
    memory_wasted_gib_hours: f64,
    need_peak_max_bytes: u64,
    samples: u64,
}

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
    cpu_usec: u64,
    samples: u64,
    samples_lost: u64,
    need_peak_bytes: u64,
    need_mean_bytes: u64,
    memory_peak_bytes: u64,
    oom_kill: Option<u64>,
    reclaim_failures: Option<u64>,
    /// `running`, `succeeded`, `failed` or `lost`.
    outcome: String,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    /// `unspecified` unless the attempt failed.
    cause: String,
    /// The need is a lower bound.
    censored: bool,
    cpu_peak_cores: f64,
}

/// What is built. Empty means not known.
#[derive(Debug, Serialize)]
struct KeyJson {
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

/// One reading.
#[derive(Debug, Serialize)]
struct SampleJson {
    elapsed_ms: u64,
    memory_bytes: u64,
    need_bytes: u64,
    memory_peak_bytes: Option<u64>,
    cpu_usec: u64,
    oom_kill: Option<u64>,
    reclaim_failures: Option<u64>,
}

impl From<&GetStatsResponse> for StatsJson {
    fn from(stats: &GetStatsResponse) -> Self {
        let totals = |totals: &Option<StatsTotals>| TotalsJson::from(totals.unwrap_or_default());
        let groups = stats.groups.iter();
        let steps = stats.steps.iter();
        Self {
            totals: totals(&stats.totals),
            groups: groups
                .map(|group| GroupJson { name: group.name.clone(), totals: totals(&group.totals) })
                .collect(),
            steps: steps
                .map(|step| StepJson { from_unix_ms: step.from_unix_ms, totals: totals(&step.totals) })
                .collect(),
        }
    }
}

impl From<StatsTotals> for TotalsJson {
    fn from(totals: StatsTotals) -> Self {
        Self {
            attempts: totals.attempts,
            succeeded: totals.succeeded,
            failed: totals.failed,
            lost: totals.lost,
            oom: totals.oom,
            starved: totals.starved,
            retries: totals.retries,
            wall_hours: totals.wall_hours,
            cpu_core_hours: totals.cpu_core_hours,
            memory_used_gib_hours: totals.memory_used_gib_hours,
            memory_asked_gib_hours: totals.memory_asked_gib_hours,
            memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
            need_peak_max_bytes: totals.need_peak_max_bytes,
            samples: totals.samples,
        }
    }
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
            cpu_usec: summary.cpu_usec,
            samples: summary.samples,
            samples_lost: summary.samples_lost,
            need_peak_bytes: summary.need_peak_bytes,
            need_mean_bytes: summary.need_mean_bytes,
            memory_peak_bytes: summary.memory_peak_bytes,
            oom_kill: summary.oom_kill,
            reclaim_failures: summary.reclaim_failures,
            outcome: words::outcome(summary.outcome()),
            exit_code: exit.code,
            exit_signal: exit.signal,
            cause: words::cause(summary.cause()),
            censored: summary.censored,
            cpu_peak_cores: summary.cpu_peak_cores,
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
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Exit, Outcome};
    use serde_json::{Value, json};

    use super::*;
    use crate::ask::json::{render_attempt, render_stats};

    #[test]
    fn an_attempt_has_the_names_of_the_wire_and_null_for_the_unknown() {
        let summary = Summary {
            attempt: "a".to_owned(),
            key: Some(Key { package: "zlib".to_owned(), r#ref: "main".to_owned(), ..Key::default() }),
            outcome: Outcome::Failed.into(),
            exit: Some(Exit { code: Some(2), signal: None }),
            ..Summary::default()
        };
        let shown = GetAttemptResponse {
            summary: Some(summary),
            series: vec![Sample::default()],
            ..Default::default()
        };
        let said: Value = serde_json::from_str(&render_attempt(&shown)).unwrap();
        let summary = &said["summary"];
        assert_eq!(summary["key"]["ref"], json!("main"));
        assert_eq!([&summary["exit_code"], &summary["oom_kill"]], [&json!(2), &Value::Null]);
        assert_eq!([&summary["outcome"], &said["series"][0]["need_bytes"]], [&json!("failed"), &json!(0)]);
    }

    #[test]
    fn statistics_without_totals_are_zeros() {
        let said: Value = serde_json::from_str(&render_stats(&GetStatsResponse::default())).unwrap();
        assert_eq!((&said["totals"]["attempts"], &said["groups"]), (&json!(0), &json!([])));
    }
}
