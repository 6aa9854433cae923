//! Finds builds with several groups of need: one size for all of them wastes memory for most. Pure.

use crate::stats::shifts::regressions::ProvenNeed;
use crate::{
    domain::{Key, NeedGroup, NeedGroups, Outcome},
    predict::groups,
};

/// Fields that predictions already use to tell attempts apart: groups that these explain are not reported.
const KNOWN_FIELDS: [&str; 3] = ["version", "compiler", "compiler_version"];

/// A build with attempts that form several groups of need.
#[derive(Debug, Clone, PartialEq)]
pub struct MixedNeed {
    /// Key of the newest attempt.
    pub key: Key,
    /// End of that attempt, milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// The groups, and the field that distinguishes them.
    pub groups: NeedGroups,
    /// Memory that a size for the highest group wastes in attempts of the other groups, GiB x h.
    pub extra_gib_hours: f64,
}

/// The groups of need in one line of builds (oldest attempt first); `None` if there is one group, or if predictions distinguish them
/// already.
pub(in crate::stats) fn mixed_need(line: &[ProvenNeed<'_>]) -> Option<MixedNeed> {
    let teaches = |(brief, _): &&ProvenNeed<'_>| brief.outcome == Outcome::Succeeded && !brief.untrusted;
    let needs: Vec<groups::LogNeed<'_>> =
        line.iter().filter(teaches).map(|(brief, need)| (need.as_f64().max(1.0).log2(), *brief)).collect();
    let (_, newest) = needs.last()?;
    let (found, places) = groups::among(&needs, &groups::fields_of_key(&newest.key))?;
    if found.told_apart_by.as_ref().is_some_and(|by| KNOWN_FIELDS.contains(&by.field.as_str())) {
        return None;
    }
    let most = |group: &NeedGroup| group.need[2];
    let highest = found.groups.last().map(most)?;
    let extra = needs.iter().zip(places).filter_map(|((_, brief), place)| {
        let own = found.groups.get(place).map(most)?;
        Some(highest.saturating_sub(own).gib_hours(brief.wall))
    });
    Some(MixedNeed {
        key: Key::clone(&newest.key),
        ended_unix_ms: newest.ended_unix_ms(),
        extra_gib_hours: extra.sum(),
        groups: found,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        domain::{Millis, Summary, test_summary},
        stats::{Filter, PoolPrices, Question, Settings, Stats},
    };

    /// An hour of a build, of which three of ten need `large` GiB and the others 2.
    fn attempt(n: usize, package: &str, large: u64) -> Summary {
        let need = if n * 7 % 10 < 3 { large } else { 2 };
        let mut summary = test_summary(&format!("{package}-{n}"), package, "1", need << 10);
        summary.started_unix_ms = 1_700_000_000_000 + 3_600_000 * n as u64;
        summary.wall = Millis(3_600_000);
        summary
    }

    fn found(attempts: &[Summary], filter: Filter) -> Vec<MixedNeed> {
        let stats = Stats::new(Settings::default());
        for summary in attempts {
            stats.add(&summary.into(), &Arc::new(summary.into()));
        }
        let question = Question { filter, ..Question::default() };
        stats.report(&question, &PoolPrices::default()).unwrap().mixed
    }

    fn of(package: &str, large: u64) -> Vec<Summary> {
        (0..40).map(|n| attempt(n, package, large)).collect()
    }

    #[test]
    fn mixed_builds_are_found_most_expensive_first() {
        let all = [of("zlib", 4), of("llvm", 20), of("one", 2)].concat();
        let mixed = found(&all, Filter::default());
        let names: Vec<&str> = mixed.iter().map(|mixed| mixed.key.package.as_str()).collect();
        assert_eq!(names, ["llvm", "zlib"]);
        // 28 hours of 18 GiB more than they need
        assert!((mixed[0].extra_gib_hours - 504.0).abs() < 1e-6, "{}", mixed[0].extra_gib_hours);
        assert_eq!(mixed[0].groups.groups.len(), 2);
        let asked = Filter { package: "zlib".into(), ..Filter::default() };
        assert_eq!(found(&all, asked).len(), 1);
        let elsewhere = Filter { owner: "science".into(), ..Filter::default() };
        assert!(found(&all, elsewhere).is_empty());
    }

    #[test]
    fn groups_a_prediction_separates_are_not_mixed() {
        let mut versions = of("zlib", 20);
        for summary in versions.iter_mut().filter(|summary| summary.need_peak.0 > 3 << 30) {
            summary.key.version = "2".to_owned();
        }
        assert!(found(&versions, Filter::default()).is_empty());
        let mut stacks = of("zlib", 20);
        for summary in stacks.iter_mut().filter(|summary| summary.need_peak.0 > 3 << 30) {
            summary.key.stack = "gpu".to_owned();
        }
        let mixed = found(&stacks, Filter::default());
        assert_eq!(mixed[0].groups.told_apart_by.as_ref().unwrap().field, "stack");
    }
}
