//! The figures of a report, each compared with the same figure of the period before.

use std::collections::BTreeMap;

use plimsoll_proto::{
    evidence::cause_name,
    figures::{self, amount, count, float, to_whole},
    sums,
    tables::{
        FactCell::{self, Better, Number, Text, Worse},
        FactTable, table_of,
    },
    v1::{Cause, StatsTotals},
};

use super::ReportData;
use crate::ask::numbers;

/// A figure: its name, its value now and before, and the change, for example `+12 %`; empty if a comparison makes no sense.
type Figure = [FactCell; 4];

/// Whether an increase of a figure is good, bad, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Increase {
    Good,
    Bad,
    Neither,
}

/// Relative changes below this share are noise, and are not shown.
const NOISE_SHARE: f64 = 0.02;

/// A figure with its values now and before. An unknown value is a dash, and is not compared.
fn figure(
    name: &str,
    [now, before]: [Option<f64>; 2],
    increase: Increase,
    words: &dyn Fn(f64) -> String,
) -> Figure {
    let both = now.zip(before).filter(|(_, before)| *before > 0.0);
    let share = both.map(|(now, before)| (now - before) / before).filter(|share| share.abs() >= NOISE_SHARE);
    let change = match (increase, share) {
        (Increase::Good, Some(0.0..)) | (Increase::Bad, Some(..0.0)) => Better,
        (Increase::Good | Increase::Bad, Some(_)) => Worse,
        (Increase::Neither, _) | (_, None) => Number,
    };
    let share = share.map(|share| format!("{:+.0} %", share * 100.0)).unwrap_or_default();
    let [now, before] = [now, before].map(|value| Number(figures::cell(value, words)));
    [Text(name.to_owned()), now, before, change(share)]
}

fn counted_figure(name: &str, values: [u64; 2], increase: Increase) -> Figure {
    figure(name, values.map(|number| Some(float(number))), increase, &|number| count(to_whole(number)))
}

/// The figures of the report; the most general figure comes first. Figures that are 0 in both periods are left out.
pub(super) fn figures(digest: &ReportData) -> FactTable {
    use Increase::{Bad, Good, Neither};
    type Count = fn(&StatsTotals) -> u64;
    type Sum = fn(&StatsTotals) -> Option<f64>;
    let both = [&digest.now, &digest.before];
    let counts = |figures: &[(&str, Count, Increase)]| -> Vec<Figure> {
        figures.iter().map(|(name, of, increase)| counted_figure(name, both.map(of), *increase)).collect()
    };
    let sums = |figures: &[(&str, Sum, Increase)]| -> Vec<Figure> {
        figures.iter().map(|(name, of, increase)| figure(name, both.map(of), *increase, &amount)).collect()
    };
    let money = |value: f64| numbers::money(value, &digest.stats.currency);
    let money = (!digest.stats.currency.is_empty())
        .then(|| figure("wasted", both.map(|totals| Some(totals.wasted_money)), Bad, &money));
    let all = [
        counts(&[("attempts", |t| t.attempts, Neither)]),
        vec![failure_rate(both)],
        counts(&[
            ("failed", |t| t.failed, Bad),
            ("lost", |t| t.lost, Bad),
            ("ended, exit status not known", |t| t.ended, Neither),
            ("canceled", |t| t.canceled, Neither),
        ]),
        sums(&[
            ("time of builds, h", |t| Some(t.wall_hours), Neither),
            ("memory asked, GiB·h", sums::memory_asked, Neither),
            (
                "memory put to use, GiB·h",
                |t| sums::memory_asked(t).map(|_| t.memory_used_of_asked_gib_hours),
                Neither,
            ),
            ("memory wasted, GiB·h", sums::memory_wasted_hours, Bad),
            ("CPU wasted, core·h", sums::cpu_wasted_hours, Bad),
        ]),
        counts(&[
            ("attempts left out: no mean memory", |t| t.memory_not_measured, Neither),
            ("attempts left out: no memory asked for", |t| t.memory_not_asked, Neither),
        ]),
        money.into_iter().collect(),
        counts(&[
            ("retries", |t| t.retries, Neither),
            ("retries that helped", |t| t.retries_helped, Neither),
            ("retries that a verdict saved", |t| t.retries_avoided, Good),
        ]),
    ];
    let is_nothing = |cell: &FactCell| ["0", figures::DASH].contains(&&*cell.text());
    let is_shown =
        |(nth, [_, now, before, _]): &(usize, Figure)| *nth == 0 || !is_nothing(now) || !is_nothing(before);
    let shown = all.into_iter().flatten().enumerate().filter(is_shown);
    table_of(["figure", "now", "before", "change"], shown, |(_, figure)| figure)
}

fn failure_rate(both: [&StatsTotals; 2]) -> Figure {
    let rates =
        both.map(|totals| (totals.attempts > 0).then(|| float(totals.failed) / float(totals.attempts)));
    let mut figure = figure("failed, of all", rates, Increase::Bad, &|rate| format!("{:.1} %", rate * 100.0));
    if let (Better(change) | Worse(change), [Some(now), Some(before)]) = (&mut figure[3], rates) {
        // a percentage of a percentage is easily misread, so the change is in points
        *change = format!("{:+.1} points", (now - before) * 100.0);
    }
    figure
}

/// Failures by cause, the most frequent cause of this period first.
pub(super) fn cause_figures(digest: &ReportData) -> FactTable {
    let mut causes: BTreeMap<i32, [u64; 2]> = BTreeMap::new();
    for (cause, failures) in sums::failures_by_cause(&digest.now) {
        causes.entry(cause.into()).or_default()[0] += failures;
    }
    for (cause, failures) in sums::failures_by_cause(&digest.before) {
        causes.entry(cause.into()).or_default()[1] += failures;
    }
    let mut rows: Vec<_> = causes.into_iter().collect();
    rows.sort_by_key(|(cause, both)| (std::cmp::Reverse(*both), *cause));
    table_of(["cause", "now", "before", "change"], rows, |(cause, both)| {
        counted_figure(&cause_name(Cause::try_from(cause).unwrap_or_default()), both, Increase::Bad)
    })
}
