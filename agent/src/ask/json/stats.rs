//! JSON of statistics.

use plimsoll_proto::v1::{Coverage, GetStatsResponse, StatsTotals, Step};
use serde::Serialize;

use super::{
    moved::{FlakyJson, MixedNeedJson, RegressionJson, VariableJson},
    totals::TotalsJson,
};

/// Totals, by group and over time.
#[derive(Debug, Serialize)]
pub(super) struct StatsJson {
    totals: TotalsJson,
    /// Largest waste first.
    groups: Vec<GroupJson>,
    steps: Vec<StepJson>,
    /// Builds whose need has moved, the most expensive first.
    regressions: Vec<RegressionJson>,
    /// Builds that hide groups with different needs, the most expensive first.
    mixed: Vec<MixedNeedJson>,
    /// Packages whose need varies most.
    variable: Vec<VariableJson>,
    /// Failures that were retried as they were, most retries first, over all attempts.
    flaky: Vec<FlakyJson>,
    /// Of all money in the totals; empty if nothing has a price.
    currency: String,
    /// Null from a server that does not say.
    coverage: Option<CoverageJson>,
    /// What the numbers cannot tell, in sentences.
    notes: Vec<String>,
}

/// The attempts that the server counts, whatever is asked.
#[derive(Debug, Serialize)]
struct CoverageJson {
    attempts: u64,
    first_ended_unix_ms: u64,
    last_ended_unix_ms: u64,
    older_left_out: bool,
}

impl From<Coverage> for CoverageJson {
    fn from(coverage: Coverage) -> Self {
        Self {
            attempts: coverage.attempts,
            first_ended_unix_ms: coverage.first_ended_unix_ms,
            last_ended_unix_ms: coverage.last_ended_unix_ms,
            older_left_out: coverage.older_left_out,
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
pub(in crate::ask) struct StepJson {
    from_unix_ms: u64,
    totals: TotalsJson,
}

impl From<&GetStatsResponse> for StatsJson {
    fn from(stats: &GetStatsResponse) -> Self {
        let totals = |totals: &Option<StatsTotals>| TotalsJson::from(&totals.clone().unwrap_or_default());
        let groups = stats.groups.iter();
        let steps = stats.steps.iter();
        Self {
            totals: totals(&stats.totals),
            groups: groups
                .map(|group| GroupJson { name: group.name.clone(), totals: totals(&group.totals) })
                .collect(),
            steps: steps.map(StepJson::from).collect(),
            regressions: stats.regressions.iter().map(RegressionJson::from).collect(),
            mixed: stats.mixed.iter().map(MixedNeedJson::from).collect(),
            variable: stats.variable.iter().map(VariableJson::from).collect(),
            flaky: stats.flaky.iter().map(FlakyJson::from).collect(),
            currency: stats.currency.clone(),
            coverage: stats.coverage.map(CoverageJson::from),
            notes: stats.notes.clone(),
        }
    }
}

impl From<&Step> for StepJson {
    fn from(step: &Step) -> Self {
        let totals = step.totals.clone().unwrap_or_default();
        Self { from_unix_ms: step.from_unix_ms, totals: TotalsJson::from(&totals) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use plimsoll_proto::v1::{Calibration, Cause, CauseCount, Regression};

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

    #[test]
    fn causes_have_their_names_and_what_was_not_predicted_is_null() {
        let causes = vec![CauseCount { cause: Cause::DiskFull.into(), count: 3 }];
        let calibration = Some(Calibration { attempts: 2, within_limit: 1, ..Calibration::default() });
        let totals = Some(StatsTotals { causes, calibration, ..StatsTotals::default() });
        let stats = GetStatsResponse { totals, currency: "EUR".to_owned(), ..GetStatsResponse::default() };
        let said: Value = serde_json::from_str(&render_stats(&stats)).unwrap();
        let totals = &said["totals"];
        assert_eq!([&totals["causes"], &said["currency"]], [&json!({ "disk_full": 3 }), &json!("EUR")]);
        assert_eq!(totals["calibration"]["within_limit"], json!(1));
        assert_eq!(totals["would_have_been"], Value::Null);
    }
}
