//! Output of `import --prometheus` before anything is stored: for how many builds each value is
//! known, and how much the builds used.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use plimsoll_lab::import::prometheus::{NamespaceTotals, PodAttempts, TimeRange};
use plimsoll_proto::{
    figures::{amount, count, counted, rate},
    tables::{
        FactCell::{Number, Text},
        FactTable, table_of,
    },
    times::date_time,
};

/// Most namespaces that are listed.
const MAX_LISTED: usize = 20;

/// Prints for how many builds the job, only the project or only the namespace is known, and how
/// much the builds of each namespace used.
pub(super) fn show_coverage(
    pod_attempts: &PodAttempts<'_>,
    range: TimeRange,
    empty_ms: u64,
    is_asked: bool,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let coverage = &pod_attempts.coverage;
    let hours = |ms: u64| ms.div_ceil(3_600_000);
    writeln!(
        out,
        "{} to {}: {}; none seen in {} of {}",
        date_time(range.start_ms),
        date_time(range.end_ms),
        counted(coverage.builds, "build"),
        count(hours(empty_ms)),
        counted(hours(range.end_ms - range.start_ms), "hour"),
    )?;
    let rest = coverage.builds - coverage.keyed - coverage.project_alone;
    let alone = if coverage.unfit > 0 {
        "no job of GitLab's list fits alone in time; left out"
    } else {
        "the name of the pod says no more; left out"
    };
    for (what, builds, why) in [
        ("job known", coverage.keyed, ""),
        ("project alone", coverage.project_alone, alone),
        ("namespace alone", rest, "left out"),
    ] {
        let why = if why.is_empty() || builds == 0 { String::new() } else { format!("  {why}") };
        writeln!(out, "{what:<16}{:>9}  {:>7}{why}", count(builds), rate(builds, coverage.builds))?;
    }
    let unheard = if is_asked { coverage.keyed - coverage.ended } else { 0 };
    for (builds, why) in [
        (coverage.by_time, "found by time among GitLab's jobs"),
        (coverage.running, "still running; left for the next import"),
        (coverage.began_before, "began before; a longer --since reads them whole"),
        (coverage.partial, "in partial answers; left for the next import"),
        (
            unheard.saturating_sub(coverage.running + coverage.began_before + coverage.partial),
            "of which GitLab does not say how they ended: they count as succeeded unless they were killed",
        ),
    ] {
        if builds > 0 {
            writeln!(out, "{:<16}{:>9}  {why}", "of them", count(builds))?;
        }
    }
    write!(out, "{}", namespaces(&pod_attempts.totals).lines())?;
    out.flush()
}

/// How much the builds of each namespace used, largest first.
fn namespaces(all: &BTreeMap<String, NamespaceTotals>) -> FactTable {
    let mut totals: Vec<(&String, &NamespaceTotals)> = all.iter().collect();
    totals.sort_by(|(_, a), (_, b)| b.used.total_cmp(&a.used));
    let columns = ["namespace", "builds", "GiB·h used", "requested", "core·h used"];
    table_of(columns, totals.into_iter().take(MAX_LISTED), |(name, of)| {
        let [used, requested, cores] =
            [of.used, of.requested, of.core_hours].map(|hours| Number(amount(hours)));
        [Text(name.clone()), Number(count(of.builds)), used, requested, cores]
    })
}
