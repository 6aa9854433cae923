//! Charts of statistics over time.

mod bars;

use std::collections::BTreeMap;

use maud::html;
use plimsoll_proto::{
    sums,
    v1::{self as pb, Cause},
};

use super::{
    chart::{Axis, Chart, Layer, Shape, Tone, without_outliers},
    figures,
    table::table,
    times,
    view::ReaderChoice,
    words,
};

/// Number of causes with a colour of their own; rarer causes are drawn together.
const DRAWN_CAUSES: usize = 5;

/// The unit of charts that count attempts.
const ATTEMPTS_UNIT: &str = "attempts";

/// Statistics over time, for charts: the steps, and the time that each covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow<'a> {
    pub(super) view: &'a ReaderChoice,
    pub(super) steps: &'a [pb::Step],
    pub(super) step_ms: u64,
}

/// One quantity: its value in each step.
struct Series {
    tone: Tone,
    name: String,
    values: Vec<f64>,
}

/// A tone that no series uses yet, because two causes with one colour could not be distinguished. There are
/// more spare tones than [`DRAWN_CAUSES`].
fn unused_tone(tone: Tone, series: &[Series]) -> Tone {
    let spare = [tone, Tone::Other, Tone::Same, Tone::Predicted, Tone::Memory, Tone::Ink];
    let is_free = |tone: &Tone| series.iter().all(|other| other.tone != *tone);
    spare.into_iter().find(is_free).unwrap_or(tone)
}

impl Flow<'_> {
    /// The chart of requested memory: what was used of it, and what was wasted.
    pub(super) fn memory(&self) -> Chart {
        let series = |tone, name: &str, pick: fn(&pb::StatsTotals) -> f64| Series {
            tone,
            name: name.to_owned(),
            values: self.totals().map(pick).collect(),
        };
        let asked: f64 = self.totals().map(|totals| totals.memory_asked_gib_hours).sum();
        let series = if asked > 0.0 {
            vec![
                series(Tone::Used, "put to use", |totals| totals.memory_used_of_asked_gib_hours),
                series(Tone::Waste, "wasted", |totals| totals.memory_wasted_gib_hours),
            ]
        } else {
            vec![series(Tone::Used, "used", |totals| totals.memory_used_gib_hours)]
        };
        let wasted: f64 = self.totals().map(|totals| totals.memory_wasted_gib_hours).sum();
        let description = if asked > 0.0 {
            let (wasted, share) = (figures::amount(wasted), figures::share(wasted, asked));
            format!("{wasted} of {} GiB·h that were asked for were wasted ({share}).", figures::amount(asked))
        } else {
            words::sentence(&format!("{}, so only what was used is shown", sums::NOTHING_ASKED_AND_MEASURED))
        };
        let title = if asked > 0.0 { "Memory asked for" } else { "Memory used" };
        self.stacked_chart("memory-flow", (title, "GiB·h"), description, &series)
    }

    /// The chart of failures by cause.
    pub(super) fn failures(&self) -> Chart {
        let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
        for (cause, count) in self.totals().flat_map(failures_by_cause).filter(|(_, count)| *count > 0) {
            *sums.entry(cause).or_default() += count;
        }
        let mut sums: Vec<(Cause, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all: u64 = sums.iter().map(|(_, count)| count).sum();
        let drawn: Vec<Cause> = sums.iter().take(DRAWN_CAUSES).map(|(cause, _)| *cause).collect();
        let count = |totals: &pb::StatsTotals, takes: &dyn Fn(Cause) -> bool| {
            figures::float(
                failures_by_cause(totals).filter(|(cause, _)| takes(*cause)).map(|(_, count)| count).sum(),
            )
        };
        let mut series: Vec<Series> = Vec::new();
        for cause in &drawn {
            let tone = Tone::of_cause(*cause);
            let tone = unused_tone(tone, &series);
            let values = self.totals().map(|totals| count(totals, &|is| is == *cause)).collect();
            series.push(Series { tone, name: cause_title(*cause), values });
        }
        if sums.len() > drawn.len() {
            let values = self.totals().map(|totals| count(totals, &|is| !drawn.contains(&is))).collect();
            series.push(Series { tone: Tone::Phase, name: "others".into(), values });
        }
        let shown =
            |(cause, count): &(Cause, u64)| format!("{} {}", figures::count(*count), cause_title(*cause));
        let most: Vec<String> = sums.iter().take(DRAWN_CAUSES).map(shown).collect();
        let description = match all {
            0 => "Nothing failed.".to_owned(),
            all => format!("{}: {}.", figures::counted(all, "failure"), most.join(", ")),
        };
        self.stacked_chart("failures", ("Failures by cause", ATTEMPTS_UNIT), description, &series)
    }

    fn totals(&self) -> impl Iterator<Item = &pb::StatsTotals> {
        self.steps.iter().filter_map(|step| step.totals.as_ref())
    }

    fn axis(&self) -> Axis {
        let first = self.steps.first().map_or(self.view.now_unix_ms, |step| step.from_unix_ms);
        let end = self.steps.last().map_or(self.view.now_unix_ms, |step| step.from_unix_ms + self.step_ms);
        let from = self.view.since_unix_ms().map_or(first, |from| from - from % self.step_ms);
        let to = if self.view.since_unix_ms().is_some() { end.max(self.view.now_unix_ms) } else { end };
        Axis::calendar(figures::float(from.min(first)), figures::float(to))
    }

    fn stacked_chart(
        &self,
        id: &'static str,
        (title, unit): (&'static str, &'static str),
        description: String,
        series: &[Series],
    ) -> Chart {
        let sums = |step: usize| series.iter().filter_map(move |one| one.values.get(step)).sum::<f64>();
        let heights: Vec<f64> = (0..self.steps.len()).map(sums).collect();
        let highest = heights.iter().copied().fold(0.0, f64::max);
        // counts have no outliers: the chart of failures must show a day with many failures in full
        let end = if unit == ATTEMPTS_UNIT { highest } else { without_outliers(heights.iter().copied()) };
        let y = if unit == ATTEMPTS_UNIT { Axis::counts(end, unit) } else { Axis::from_zero(end, unit) };
        let mut layers = self.bars(series, &heights, y.end());
        let mut cut = String::new();
        if let Some(breaks) = self.broken_bars(&heights, y.end()) {
            let bars = match breaks.len() {
                1 => "The bar with a break is".to_owned(),
                bars => format!("{bars} bars with a break are"),
            };
            let most = if breaks.len() == 1 { "" } else { " at most" };
            cut = format!(
                " {bars} higher than the chart, {} {unit}{most}: its colours show the shares.",
                figures::amount(highest)
            );
            layers.push(Layer::new(Tone::Sheet, "", Shape::Breaks(breaks)));
        }
        let caption = format!("{title}, {unit}, for each {}", figures::millis(self.step_ms));
        let heads =
            std::iter::once("From".to_owned()).chain(series.iter().map(|one| format!("#{}", one.name)));
        let rows = self.steps.iter().enumerate().map(|(n, step)| {
            let values = series.iter().map(move |one| one.values.get(n).copied().unwrap_or_default());
            std::iter::once(times::time(step.from_unix_ms))
                .chain(values.map(|value| html! { (figures::amount(value)) }))
        });
        let table = html! { p.quiet { (caption) } (table(&caption, heads, rows)) };
        Chart { id, title, description: description + &cut, x: self.axis(), y, layers, table }
    }
}

fn cause_title(cause: Cause) -> String {
    if cause == Cause::Unspecified { "without a cause".to_owned() } else { words::cause(cause).to_owned() }
}

/// Failures by cause; without a cause if none of them has one.
fn failures_by_cause(totals: &pb::StatsTotals) -> impl Iterator<Item = (Cause, u64)> {
    let is_unknown = totals.causes.iter().all(|one| one.count == 0);
    sums::counts_by_cause(&totals.causes).chain(is_unknown.then_some((Cause::Unspecified, totals.failed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::TimeRange;

    fn steps() -> Vec<pb::Step> {
        let totals = pb::StatsTotals {
            failed: 5,
            oom: 2,
            memory_asked_gib_hours: 10.0,
            memory_used_of_asked_gib_hours: 6.0,
            memory_wasted_gib_hours: 4.0,
            causes: vec![
                pb::CauseCount { cause: Cause::Oom.into(), count: 2 },
                pb::CauseCount { cause: Cause::Timeout.into(), count: 3 },
            ],
            ..pb::StatsTotals::default()
        };
        let step = |n: u64| pb::Step { from_unix_ms: n * 3_600_000, totals: Some(totals.clone()) };
        (0..2).map(step).collect()
    }

    #[test]
    fn failures_are_charted_by_descending_cause_frequency() {
        let (steps, view) = (steps(), ReaderChoice { range: TimeRange::All, ..ReaderChoice::default() });
        let flow = Flow { view: &view, steps: &steps, step_ms: 3_600_000 };
        let chart = flow.failures();
        let names: Vec<&str> = chart.legend().iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["time-out", "out of memory"]);
        assert_eq!(chart.description, "10 failures: 6 time-out, 4 out of memory.");
        assert!(flow.memory().description.contains("8 of 20 GiB·h"), "{}", flow.memory().description);
    }

    #[test]
    fn no_two_causes_have_one_colour() {
        let kinds =
            [Cause::Oom, Cause::ToolOom, Cause::Unspecified, Cause::Infra, Cause::Preempted, Cause::NodeLost];
        let causes = kinds.map(|cause| pb::CauseCount { cause: cause.into(), count: 1 }).to_vec();
        let totals = pb::StatsTotals { failed: 6, causes, ..pb::StatsTotals::default() };
        let steps = [pb::Step { from_unix_ms: 0, totals: Some(totals) }];
        let view = ReaderChoice { range: TimeRange::All, ..ReaderChoice::default() };
        let chart = Flow { view: &view, steps: &steps, step_ms: 3_600_000 }.failures();
        let tones: Vec<&str> = chart.legend().iter().map(|layer| layer.tone.name()).collect();
        let distinct: std::collections::BTreeSet<&str> = tones.iter().copied().collect();
        assert_eq!((tones.len(), distinct.len()), (DRAWN_CAUSES + 1, DRAWN_CAUSES + 1), "{tones:?}");
    }

    #[test]
    fn failures_without_counts_by_cause_are_not_hidden() {
        let totals = pb::StatsTotals { failed: 5, ..pb::StatsTotals::default() };
        let counts: Vec<_> = failures_by_cause(&totals).filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(Cause::Unspecified, 5)]);
    }

    #[test]
    fn an_outlier_day_is_clipped_and_named() {
        let asked = |asked| pb::StatsTotals {
            memory_asked_gib_hours: asked,
            memory_used_of_asked_gib_hours: asked / 4.0,
            memory_wasted_gib_hours: asked * 0.75,
            ..pb::StatsTotals::default()
        };
        let step = |(n, gib_hours): (u64, f64)| pb::Step {
            from_unix_ms: n * 3_600_000,
            totals: Some(asked(gib_hours)),
        };
        let steps: Vec<pb::Step> = (0..).zip([1.0, 2.0, 1.5, 400.0, 2.0]).map(step).collect();
        let view = ReaderChoice { range: TimeRange::All, ..ReaderChoice::default() };
        let chart = Flow { view: &view, steps: &steps, step_ms: 3_600_000 }.memory();
        assert_eq!(chart.y, Axis::from_zero(2.0, "GiB·h"));
        let shown = " The bar with a break is higher than the chart, 400 GiB·h: its colours show the shares.";
        assert!(chart.description.ends_with(shown), "{}", chart.description);
        assert!(chart.table.clone().into_string().contains("300"), "the numbers stay what they are");
        // a quarter was put to use: a quarter of the broken bar is of that colour
        let [Shape::Bars(used), Shape::Bars(wasted), Shape::Breaks(breaks)] =
            [0, 1, 2].map(|nth: usize| &chart.layers[nth].shape)
        else {
            panic!("{:?}", chart.layers)
        };
        let ((.., foot, middle), (.., again, head)) = (used[3], wasted[3]);
        assert!(foot == 0.0 && (again - middle).abs() < 1e-9 && (head - chart.y.end()).abs() < 1e-9);
        assert!((middle / head - 0.25).abs() < 1e-9, "{middle} of {head}");
        assert_eq!(breaks.len(), 1, "the break is marked");
        assert_eq!(breaks[0].2.as_str(), "400", "with the true height");
        assert!(chart.figure().into_string().contains("data-tone=\"sheet\""), "the mark is drawn");
    }

    #[test]
    fn no_steps_are_a_chart_of_nothing() {
        let view = ReaderChoice { now_unix_ms: 1_795_219_200_000, ..ReaderChoice::default() };
        let flow = Flow { view: &view, steps: &[], step_ms: 3_600_000 };
        assert_eq!(flow.failures().description, "Nothing failed.");
        assert!(flow.memory().figure().into_string().contains("<svg"));
    }
}
