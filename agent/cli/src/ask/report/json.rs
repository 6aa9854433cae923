//! A report as JSON.

use plimsoll_proto::json::Json;
use serde::Serialize;

use super::{MAX_NAMED_PACKAGES, ReportData, next};
use crate::ask::json::{self, to_json};

/// The JSON of a report: this period, compared with the period before.
#[derive(Debug, Serialize)]
struct DigestJson {
    from_unix_ms: u64,
    to_unix_ms: u64,
    /// Description of the attempts that the report covers.
    of: String,
    now: Json,
    /// The totals of the period before, which has the same length.
    before: Json,
    steps: Json,
    /// Packages that waste memory, the most wasteful first.
    wasters: Vec<WasterJson>,
    /// Groups of equal failures, most attempts first.
    failures: Json,
    regressions: Json,
    /// Builds that hide groups with different needs, the most expensive first.
    mixed: Json,
    currency: String,
    /// Suggestions, one sentence each.
    next: Vec<String>,
    /// Notes on what the numbers leave out, as sentences.
    notes: Vec<String>,
}

/// A package that wastes memory, with its totals.
#[derive(Debug, Serialize)]
struct WasterJson {
    package: String,
    totals: Json,
}

/// The report as one JSON object.
pub(super) fn render(digest: &ReportData) -> String {
    let wasters = digest.wasters();
    json::render(&DigestJson {
        from_unix_ms: digest.range.from_unix_ms,
        to_unix_ms: digest.range.to_unix_ms,
        of: crate::ask::filter_words::filter_words(&digest.filter),
        now: to_json(&digest.now),
        before: to_json(&digest.before),
        steps: to_json(&digest.stats.steps),
        wasters: wasters
            .map(|(group, sums)| WasterJson { package: group.name.clone(), totals: to_json(&sums) })
            .collect(),
        failures: to_json(&first_named(&digest.stats.failures)),
        regressions: to_json(&first_named(&digest.stats.regressions)),
        mixed: to_json(&first_named(&digest.stats.mixed)),
        currency: digest.stats.currency.clone(),
        next: next::next(digest),
        notes: digest.stats.notes.clone(),
    })
}

fn first_named<T: Clone>(all: &[T]) -> Vec<T> {
    all.iter().take(MAX_NAMED_PACKAGES).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use plimsoll_proto::fixtures::{Fill, assert_pinned, message};

    use super::{super::tests::full, *};

    #[test]
    fn programs_read_the_same_bytes_as_ever() {
        let mut all = String::new();
        for fill in [Fill::Rich, Fill::Zero, Fill::Empty] {
            let totals = || message("StatsTotals", fill);
            let stats = message("GetStatsResponse", fill);
            let digest = ReportData { now: totals(), before: totals(), stats, ..full() };
            let _written = writeln!(all, "## {fill:?}");
            all += &render(&digest);
        }
        assert_pinned(&all, include_str!("../json/golden/digest.txt"), "agent_digest");
    }
}
