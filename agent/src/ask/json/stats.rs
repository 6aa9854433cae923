//! JSON of statistics.

use plimsoll_proto::v1::{GetStatsResponse, Regression, StatsTotals};
use serde::Serialize;

use crate::ask::words;

/// Totals, by group and over time.
#[derive(Debug, Serialize)]
pub(super) struct StatsJson {
    totals: TotalsJson,
    /// Largest waste first.
    groups: Vec<GroupJson>,
    steps: Vec<StepJson>,
    /// Builds whose need has moved, the most expensive first.
    regressions: Vec<RegressionJson>,
}

/// A build whose need has moved.
#[derive(Debug, Serialize)]
struct RegressionJson {
    key: String,
    /// `step`, `back` or `drift`.
    kind: String,
    /// The first attempt on the new level; of a drift the oldest that was looked at.
    attempt: String,
    ended_unix_ms: u64,
    factor: f64,
    before_bytes: u64,
    now_bytes: u64,
    attempts_before: u32,
    attempts_since: u32,
    /// What changed in the key; empty if nothing did.
    changed: String,
    /// Below 0 if it needs less.
    extra_gib_hours: f64,
}

impl From<&Regression> for RegressionJson {
    fn from(regression: &Regression) -> Self {
        Self {
            key: regression.key.clone(),
            kind: words::change_kind(regression.kind()),
            attempt: regression.attempt.clone(),
            ended_unix_ms: regression.ended_unix_ms,
            factor: regression.factor,
            before_bytes: regression.before_bytes,
            now_bytes: regression.now_bytes,
            attempts_before: regression.attempts_before,
            attempts_since: regression.attempts_since,
            changed: regression.changed.clone(),
            extra_gib_hours: regression.extra_gib_hours,
        }
    }
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
    /// Need over time, of the attempts that asked; 0 from a server that does not tell.
    memory_used_of_asked_gib_hours: f64,
    /// Asked over time, of the attempts that asked.
    memory_asked_gib_hours: f64,
    /// Asked and not used, and everything that failed attempts held.
    memory_wasted_gib_hours: f64,
    need_peak_max_bytes: u64,
    samples: u64,
}

impl From<&GetStatsResponse> for StatsJson {
    fn from(stats: &GetStatsResponse) -> Self {
        let totals = |totals: &Option<StatsTotals>| TotalsJson::from(totals.clone().unwrap_or_default());
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
            regressions: stats.regressions.iter().map(RegressionJson::from).collect(),
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
            memory_used_of_asked_gib_hours: totals.memory_used_of_asked_gib_hours,
            memory_asked_gib_hours: totals.memory_asked_gib_hours,
            memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
            need_peak_max_bytes: totals.need_peak_max_bytes,
            samples: totals.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ask::json::render_stats;

    #[test]
    fn statistics_without_totals_are_zeros() {
        let said: Value = serde_json::from_str(&render_stats(&GetStatsResponse::default())).unwrap();
        assert_eq!((&said["totals"]["attempts"], &said["groups"]), (&json!(0), &json!([])));
        assert_eq!(said["regressions"], json!([]));
    }

    #[test]
    fn a_regression_has_the_names_of_the_wire() {
        let kind = plimsoll_proto::v1::ChangeKind::Step.into();
        let regression = Regression { attempt: "a".to_owned(), factor: 2.5, kind, ..Regression::default() };
        let stats = GetStatsResponse { regressions: vec![regression], ..GetStatsResponse::default() };
        let said: Value = serde_json::from_str(&render_stats(&stats)).unwrap();
        let first = &said["regressions"][0];
        assert_eq!(
            (&first["attempt"], &first["factor"], &first["kind"]),
            (&json!("a"), &json!(2.5), &json!("step"))
        );
    }
}
