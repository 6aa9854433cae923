//! Totals over finished attempts, by group and over time, and the builds whose need has moved. Pure: it gets briefs and gives sums.

mod level;
mod listing;
mod regressions;
mod totals;

use std::{collections::HashMap, sync::Arc};

pub(crate) use level::Kind as ChangeKind;
pub(crate) use listing::{Chosen, Listing, Order, Place};
use plimsoll_proto::limits;
pub(crate) use regressions::{Regression, regressions};
pub(crate) use totals::StatsTotals;

use crate::domain::{Brief, Fault, Outcome};

/// Which attempts count. Empty and `None` mean all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) project: String,
    pub(crate) stack: String,
    pub(crate) package: String,
    /// Ended at or after.
    pub(crate) from_unix_ms: Option<u64>,
    /// Ended before.
    pub(crate) to_unix_ms: Option<u64>,
    pub(crate) outcome: Option<Outcome>,
}

impl Filter {
    /// Whether `attempt` counts.
    pub(crate) fn takes(&self, attempt: &Brief) -> bool {
        let same = |asked: &str, is: &str| asked.is_empty() || asked == is;
        let ended = attempt.ended_unix_ms();
        same(&self.project, &attempt.key.project)
            && same(&self.stack, &attempt.key.stack)
            && same(&self.package, &attempt.key.package)
            && self.from_unix_ms.is_none_or(|from| ended >= from)
            && self.to_unix_ms.is_none_or(|to| ended < to)
            && self.outcome.is_none_or(|outcome| outcome == attempt.outcome)
    }
}

/// What attempts are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupBy {
    Nothing,
    Package,
    Stack,
    Project,
    Cause,
}

impl GroupBy {
    fn name(self, attempt: &Brief) -> &str {
        match self {
            Self::Nothing => "",
            Self::Package => &attempt.key.package,
            Self::Stack => &attempt.key.stack,
            Self::Project => &attempt.key.project,
            Self::Cause => attempt.cause.map_or("", |cause| cause.as_str()),
        }
    }
}

/// Sums with the name of what they are over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) totals: StatsTotals,
}

/// Sums over the attempts that ended within one step of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) from_unix_ms: u64,
    pub(crate) totals: StatsTotals,
}

/// The whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) totals: StatsTotals,
    pub(crate) groups: Vec<Group>,
    pub(crate) steps: Vec<Step>,
}

/// Sums the attempts that `filter` takes. `step_ms` 0 gives no steps.
///
/// # Errors
/// More than [`limits::STATS_STEPS`] steps would be needed.
pub(crate) fn report(
    attempts: &[Arc<Brief>],
    filter: &Filter,
    group_by: GroupBy,
    step_ms: u64,
) -> Result<Report, Fault> {
    let mut report = Report::default();
    let mut groups: HashMap<&str, StatsTotals> = HashMap::new();
    let mut steps: HashMap<u64, StatsTotals> = HashMap::new();
    for attempt in attempts.iter().filter(|attempt| filter.takes(attempt)) {
        report.totals.add(attempt);
        if group_by != GroupBy::Nothing {
            groups.entry(group_by.name(attempt)).or_default().add(attempt);
        }
        if let Some(step) = attempt.ended_unix_ms().checked_div(step_ms) {
            steps.entry(step * step_ms).or_default().add(attempt);
        }
    }
    report.groups = largest_waste_first(groups);
    report.steps = without_gaps(&steps, step_ms)?;
    Ok(report)
}

fn largest_waste_first(groups: HashMap<&str, StatsTotals>) -> Vec<Group> {
    let mut groups: Vec<Group> =
        groups.into_iter().map(|(name, totals)| Group { name: name.to_owned(), totals }).collect();
    let waste = |group: &Group| group.totals.memory_wasted_gib_hours;
    groups.sort_by(|a, b| waste(b).total_cmp(&waste(a)).then_with(|| a.name.cmp(&b.name)));
    if groups.len() > limits::STATS_GROUPS {
        let mut others = StatsTotals::default();
        for group in groups.drain(limits::STATS_GROUPS - 1..) {
            others.merge(&group.totals);
        }
        groups.push(Group { name: "(others)".to_owned(), totals: others });
    }
    groups
}

/// All steps from the first to the last, also those in which nothing ended.
fn without_gaps(steps: &HashMap<u64, StatsTotals>, step_ms: u64) -> Result<Vec<Step>, Fault> {
    let (Some(first), Some(last)) = (steps.keys().min(), steps.keys().max()) else { return Ok(Vec::new()) };
    let count = (last - first) / step_ms + 1;
    if count > limits::STATS_STEPS {
        let description = format!(
            "gives {count} steps, at most {} are allowed; take a longer step or a shorter time",
            limits::STATS_STEPS
        );
        return Err(Fault::new("step_ms", description));
    }
    let at = |n| first + n * step_ms;
    let step = |from| Step { from_unix_ms: from, totals: steps.get(&from).cloned().unwrap_or_default() };
    Ok((0..count).map(|n| step(at(n))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Bytes, Cause, Resources};

    fn attempts() -> Vec<Arc<Brief>> {
        let one = |id: &str, package: &str, ended_h: u64, failed: bool| {
            let mut summary = crate::domain::test_summary(id, package, "1", 1024);
            summary.started_unix_ms = ended_h * 3_600_000 - summary.wall.0;
            summary.resources = Resources { memory_request: Some(Bytes(4 << 30)), ..Resources::default() };
            if failed {
                summary.outcome = Outcome::Failed;
                summary.cause = Some(Cause::Oom);
            }
            Arc::new(summary.into())
        };
        vec![one("1", "zlib", 1, false), one("2", "zlib", 1, true), one("3", "hdf5", 4, false)]
    }

    #[test]
    fn totals_count_outcomes_and_waste() {
        let report = report(&attempts(), &Filter::default(), GroupBy::Nothing, 0).unwrap();
        let totals = report.totals;
        assert_eq!((totals.attempts, totals.succeeded, totals.failed, totals.oom), (3, 2, 1, 1));
        // a minute each: asked 4 GiB, used 0.5 GiB on average; the failed one is all waste
        assert!((totals.memory_asked_gib_hours - 12.0 / 60.0).abs() < 1e-9);
        assert!((totals.memory_wasted_gib_hours - (3.5 + 3.5 + 4.0) / 60.0).abs() < 1e-9);
    }

    #[test]
    fn groups_come_with_the_largest_waste_first() {
        let report = report(&attempts(), &Filter::default(), GroupBy::Package, 0).unwrap();
        let names: Vec<&str> = report.groups.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["zlib", "hdf5"]);
    }

    #[test]
    fn steps_have_no_gaps_and_are_bounded() {
        let hour = 3_600_000;
        let steps = report(&attempts(), &Filter::default(), GroupBy::Nothing, hour).unwrap().steps;
        let counts: Vec<u64> = steps.iter().map(|s| s.totals.attempts).collect();
        assert_eq!(counts, [2, 0, 0, 1]);
        let fault = report(&attempts(), &Filter::default(), GroupBy::Nothing, 1).unwrap_err();
        assert_eq!(fault.field, "step_ms");
    }

    #[test]
    fn a_filter_that_matches_nothing_gives_zeros() {
        let filter = Filter { package: "none".into(), ..Filter::default() };
        assert_eq!(report(&attempts(), &filter, GroupBy::Package, 1000).unwrap(), Report::default());
    }
}
