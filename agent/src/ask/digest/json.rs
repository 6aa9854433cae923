//! A report as JSON.

use serde::Serialize;

use super::{Digest, NAMED, next};
use crate::ask::json::{self, MixedNeedJson, RegressionJson, StepJson, TotalsJson};

/// A stretch of time against the one before.
#[derive(Debug, Serialize)]
struct DigestJson {
    from_unix_ms: u64,
    to_unix_ms: u64,
    /// Whose attempts, in words.
    of: String,
    now: TotalsJson,
    /// Of the stretch as long before it.
    before: TotalsJson,
    steps: Vec<StepJson>,
    /// Packages, the most wasteful first.
    wasters: Vec<WasterJson>,
    regressions: Vec<RegressionJson>,
    /// Builds that hide groups with different needs, the most expensive first.
    mixed: Vec<MixedNeedJson>,
    currency: String,
    /// What to do next, a sentence each.
    next: Vec<String>,
    /// What the numbers cannot tell.
    notes: Vec<String>,
}

/// A package that wastes.
#[derive(Debug, Serialize)]
struct WasterJson {
    package: String,
    totals: TotalsJson,
}

/// One JSON object.
pub(super) fn render(digest: &Digest) -> String {
    let wasters = digest.wasters();
    json::render(&DigestJson {
        from_unix_ms: digest.from_unix_ms,
        to_unix_ms: digest.to_unix_ms,
        of: crate::ask::asked::filter(&digest.filter),
        now: TotalsJson::from(&digest.now),
        before: TotalsJson::from(&digest.before),
        steps: digest.stats.steps.iter().map(StepJson::from).collect(),
        wasters: wasters
            .map(|(group, sums)| WasterJson { package: group.name.clone(), totals: TotalsJson::from(&sums) })
            .collect(),
        regressions: digest.stats.regressions.iter().take(NAMED).map(RegressionJson::from).collect(),
        mixed: digest.stats.mixed.iter().take(NAMED).map(MixedNeedJson::from).collect(),
        currency: digest.stats.currency.clone(),
        next: next::next(digest),
        notes: digest.stats.notes.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::tests::full, *};

    #[test]
    fn a_report_for_programs_has_the_names_of_the_wire() {
        let said: Value = serde_json::from_str(&render(&full())).unwrap();
        assert_eq!([&said["now"]["failed"], &said["before"]["failed"]], [&json!(34), &json!(11)]);
        assert_eq!(said["wasters"][0]["totals"]["memory_wasted_gib_hours"], json!(200.0));
        assert_eq!(
            [&said["steps"][6]["totals"]["attempts"], &said["currency"]],
            [&json!(106), &json!("EUR")]
        );
        assert_eq!(
            (said["next"].as_array().unwrap().len(), &said["regressions"][0]["factor"]),
            (7, &json!(2.5))
        );
    }
}
