//! JSON of statistics.

use plimsoll_proto::v1::{GetStatsResponse, StatsTotals};
use serde::Serialize;

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
    }
}
