//! The figures of a report, each compared with the same figure of the period before.

use std::collections::BTreeMap;

use plimsoll_proto::{
    evidence::cause_name,
    sums,
    v1::{Cause, StatsTotals},
};

use super::ReportData;
use crate::ask::numbers::{self, amount, count};

/// A figure of this period and of the period before, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) now: String,
    pub(super) before: String,
    /// The change, for example `+12 %`; empty if a comparison makes no sense.
    pub(super) change: String,
    /// Whether the change is good; `None` if it is neither good nor bad.
    pub(super) better: Option<bool>,
}

/// Whether an increase of a figure is good, bad, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Increase {
    Good,
    Bad,
    Neither,
}

/// Relative changes below this share are noise, and are not shown.
const NOISE_SHARE: f64 = 0.02;

fn figure(name: &str, (now, before): (f64, f64), more: Increase, say: &dyn Fn(f64) -> String) -> Figure {
    let share = (now - before) / before;
    let moved = before > 0.0 && share.abs() >= NOISE_SHARE;
    let better = match more {
        Increase::Good if moved => Some(share > 0.0),
        Increase::Bad if moved => Some(share < 0.0),
        Increase::Good | Increase::Bad | Increase::Neither => None,
    };
    let change = if moved { format!("{:+.0} %", share * 100.0) } else { String::new() };
    Figure { name: name.to_owned(), now: say(now), before: say(before), change, better }
}

#[expect(clippy::cast_precision_loss, reason = "two or three digits are shown")]
fn counted_figure(name: &str, (now, before): (u64, u64), more: Increase) -> Figure {
    let shown = Figure {
        now: count(now),
        before: count(before),
        ..figure(name, (now as f64, before as f64), more, &amount)
    };
    Figure { name: name.to_owned(), ..shown }
}

/// A figure with a value that may be unknown. An unknown value is shown as a dash, without a comparison.
fn known_figure(name: &str, (now, before): (Option<f64>, Option<f64>), more: Increase) -> Figure {
    match now.zip(before) {
        Some(both) => figure(name, both, more, &amount),
        None => uncompared_figure(name, (now, before), &amount),
    }
}

/// A figure that cannot be compared, because one of its values is unknown.
fn uncompared_figure(
    name: &str,
    (now, before): (Option<f64>, Option<f64>),
    say: &dyn Fn(f64) -> String,
) -> Figure {
    let say = |figure: Option<f64>| numbers::cell(figure, say);
    Figure { name: name.to_owned(), now: say(now), before: say(before), change: String::new(), better: None }
}

/// The figures of the report; the most general figure comes first.
pub(super) fn figures(digest: &ReportData) -> Vec<Figure> {
    let (now, before) = (&digest.now, &digest.before);
    let counts =
        |name, of: &dyn Fn(&StatsTotals) -> u64, more| counted_figure(name, (of(now), of(before)), more);
    let hours =
        |name, of: &dyn Fn(&StatsTotals) -> f64, more| figure(name, (of(now), of(before)), more, &amount);
    let mut all = vec![counts("attempts", &|t| t.attempts, Increase::Neither)];
    all.push(failure_rate("failed, of all", now, before));
    all.push(counts("failed", &|t| t.failed, Increase::Bad));
    all.push(counts("lost", &|t| t.lost, Increase::Bad));
    all.push(counts("ended, exit status not known", &|t| t.ended, Increase::Neither));
    all.push(counts("canceled", &|t| t.canceled, Increase::Neither));
    all.push(hours("time of builds, h", &|t| t.wall_hours, Increase::Neither));
    let known = |name, of: &dyn Fn(&StatsTotals) -> Option<f64>, more| {
        known_figure(name, (of(now), of(before)), more)
    };
    all.push(known("memory asked, GiB·h", &sums::memory_asked, Increase::Neither));
    let used = |t: &StatsTotals| sums::memory_asked(t).map(|_| t.memory_used_of_asked_gib_hours);
    all.push(known("memory put to use, GiB·h", &used, Increase::Neither));
    all.push(known("memory wasted, GiB·h", &sums::memory_wasted_hours, Increase::Bad));
    let wasted = |t: &StatsTotals| sums::cpu_asked(t).map(|_| t.cpu_wasted_core_hours);
    all.push(known("CPU wasted, core·h", &wasted, Increase::Bad));
    all.push(counts("attempts left out: no mean memory", &|t| t.memory_not_measured, Increase::Neither));
    all.push(counts("attempts left out: no memory asked for", &|t| t.memory_not_asked, Increase::Neither));
    if !digest.stats.currency.is_empty() {
        let say = |value: f64| numbers::money(value, &digest.stats.currency);
        all.push(figure("wasted", (now.wasted_money, before.wasted_money), Increase::Bad, &say));
    }
    all.push(counts("retries", &|t| t.retries, Increase::Neither));
    all.push(counts("retries that helped", &|t| t.retries_helped, Increase::Neither));
    all.push(counts("retries that a verdict saved", &|t| t.retries_avoided, Increase::Good));
    // omit figures that are 0 in both periods
    let is_nothing = |shown: &str| ["0", numbers::DASH].contains(&shown);
    all.retain(|figure| {
        !(is_nothing(&figure.now) && is_nothing(&figure.before)) || figure.name == "attempts"
    });
    all
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn failure_rate(name: &str, now: &StatsTotals, before: &StatsTotals) -> Figure {
    let of =
        |totals: &StatsTotals| (totals.attempts > 0).then(|| totals.failed as f64 / totals.attempts as f64);
    let say = |share: f64| format!("{:.1} %", share * 100.0);
    let Some((share, earlier)) = of(now).zip(of(before)) else {
        return uncompared_figure(name, (of(now), of(before)), &say);
    };
    let shown = figure(name, (share, earlier), Increase::Bad, &say);
    let points = (share - earlier) * 100.0;
    // a percentage of a percentage is easily misread, so the change is in points
    let change = if shown.change.is_empty() { String::new() } else { format!("{points:+.1} points") };
    Figure { change, ..shown }
}

/// Failures by cause, the most frequent cause of this period first.
pub(super) fn cause_figures(digest: &ReportData) -> Vec<Figure> {
    let mut both: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    for (cause, failures) in sums::failures_by_cause(&digest.now.causes) {
        both.entry(cause.into()).or_default().0 += failures;
    }
    for (cause, failures) in sums::failures_by_cause(&digest.before.causes) {
        both.entry(cause.into()).or_default().1 += failures;
    }
    let mut rows: Vec<_> = both.into_iter().collect();
    rows.sort_by_key(|(cause, both)| (std::cmp::Reverse(*both), *cause));
    let name = |cause| cause_name(Cause::try_from(cause).unwrap_or_default());
    rows.into_iter().map(|(cause, both)| counted_figure(&name(cause), both, Increase::Bad)).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{empty, full},
        *,
    };

    #[test]
    fn figures_say_what_became_better_and_what_became_worse() {
        let figures = figures(&full());
        let by = |name: &str| {
            let figure = figures.iter().find(|figure| figure.name == name).unwrap();
            (figure.now.clone(), figure.before.clone(), figure.change.clone(), figure.better)
        };
        let row = |now: &str, before: &str, change: &str, better| {
            (now.to_owned(), before.to_owned(), change.to_owned(), better)
        };
        assert_eq!(by("attempts"), row("1,234", "1,100", "+12 %", None));
        assert_eq!(by("failed, of all"), row("2.8 %", "1.0 %", "+1.8 points", Some(false)));
        assert_eq!(by("memory wasted, GiB·h"), row("310", "280", "+11 %", Some(false)));
        assert_eq!(by("wasted"), row("12.3 EUR", "0 EUR", "", None));
        assert!(!figures.iter().any(|figure| figure.name == "lost"), "nothing was lost in either week");
    }

    #[test]
    fn causes_of_both_weeks_are_there() {
        let mut digest = full();
        digest.now.causes.remove(0);
        let rows: Vec<_> =
            cause_figures(&digest).into_iter().map(|row| (row.name, row.now, row.before)).collect();
        let row = |name: &str, now: &str, before: &str| (name.to_owned(), now.to_owned(), before.to_owned());
        assert_eq!(rows, [row("infrastructure", "14", "0"), row("out of memory", "0", "11")]);
        assert!(cause_figures(&empty()).is_empty());
    }
}
