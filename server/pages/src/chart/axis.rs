//! Axes of charts: their ends, and the labels of their marks.

use crate::{figures, times};

const SECOND: f64 = 1000.0;
const MINUTE: f64 = 60.0 * SECOND;
const DAY: f64 = 1440.0 * MINUTE;

/// Possible distances between marks on a calendar axis, minutes.
const CALENDAR_MINUTES: [u32; 16] =
    [1, 5, 15, 60, 180, 360, 720, 1440, 2880, 7200, 10_080, 20_160, 43_200, 129_600, 525_600, 5_256_000];

/// Possible distances between marks on an axis of elapsed time, tenths of a second.
const ELAPSED_TENTHS: [u32; 19] = [
    1, 5, 10, 20, 50, 100, 300, 600, 1200, 3000, 6000, 18_000, 36_000, 72_000, 216_000, 432_000, 864_000,
    6_048_000, 25_920_000,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisKind {
    /// An axis with dates, in milliseconds since 1970.
    Calendar,
    /// An axis with the time since a start, in milliseconds.
    Elapsed,
    /// An axis with whole numbers.
    Whole,
    Number,
}

/// The horizontal or the vertical axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    kind: AxisKind,
    unit: &'static str,
}

impl Axis {
    /// A calendar axis between two times, in milliseconds since 1970.
    pub(crate) fn calendar(from: f64, to: f64) -> Self {
        Self { from, to: if to > from { to } else { from + MINUTE }, kind: AxisKind::Calendar, unit: "UTC" }
    }

    /// An axis of elapsed time from 0 to `to`, milliseconds.
    pub(crate) fn elapsed(to: f64) -> Self {
        Self { from: 0.0, to: to.max(SECOND), kind: AxisKind::Elapsed, unit: "" }
    }

    /// An axis for whole numbers, with half a step of space at both ends.
    pub(crate) fn whole(from: u32, to: u32) -> Self {
        let (from, to) = (f64::from(from.min(to)), f64::from(to.max(from)));
        Self { from: from - 0.5, to: to + 0.5, kind: AxisKind::Whole, unit: "" }
    }

    /// An axis from zero to a round number at or above `highest`.
    pub(crate) fn from_zero(highest: f64, unit: &'static str) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest * 1.04 } else { 1.0 };
        let step = round_step(highest, 5);
        Self { from: 0.0, to: (highest / step).ceil() * step, kind: AxisKind::Number, unit }
    }

    /// Like [`Self::from_zero`], for whole numbers.
    pub(crate) fn counts(highest: f64, unit: &'static str) -> Self {
        let axis = Self::from_zero(highest, unit);
        Self { to: axis.to.ceil().max(1.0), kind: AxisKind::Whole, ..axis }
    }

    pub(crate) fn end(&self) -> f64 {
        self.to
    }

    pub(crate) fn unit(&self) -> &'static str {
        self.unit
    }

    /// The values that get a mark; at most `most + 1` of them.
    pub(super) fn marks(&self, most: u32) -> Vec<f64> {
        let length = self.to - self.from;
        let step = match self.kind {
            AxisKind::Calendar => fitting_step(&CALENDAR_MINUTES, MINUTE, length, most),
            AxisKind::Elapsed => fitting_step(&ELAPSED_TENTHS, 0.1 * SECOND, length, most),
            AxisKind::Whole => round_step(length, most).max(1.0).round(),
            AxisKind::Number => round_step(length, most),
        };
        let first = (self.from / step).ceil() * step;
        let marks = (0..=most + 1).map(|n| first + f64::from(n) * step);
        marks.take_while(|at| *at <= self.to + step * 1e-9).collect()
    }

    /// The label of the mark at this value; `step` is the distance between two marks.
    pub(super) fn label(&self, at: f64, step: f64) -> String {
        let ms = figures::to_whole(at);
        match self.kind {
            AxisKind::Calendar if step < DAY && !ms.is_multiple_of(86_400_000) => times::time_of_day(ms),
            AxisKind::Calendar if step >= 80.0 * DAY => {
                times::minute(ms).get(..7).unwrap_or_default().to_owned()
            }
            AxisKind::Calendar => times::day(ms),
            AxisKind::Elapsed if ms == 0 => "0".to_owned(),
            AxisKind::Elapsed => {
                // all marks have the unit of the distance between them
                let (unit, name) = elapsed_unit(step);
                format!("{} {name}", figures::amount(at / unit))
            }
            AxisKind::Whole => figures::count(ms),
            AxisKind::Number => figures::amount(at),
        }
    }
}

/// The largest unit of which `step` is a whole number, milliseconds, and its name.
fn elapsed_unit(step: f64) -> (f64, &'static str) {
    let units = [(DAY, "d"), (60.0 * MINUTE, "h"), (MINUTE, "min")];
    units.into_iter().find(|(unit, _)| step % unit == 0.0).unwrap_or((SECOND, "s"))
}

/// The unit of an axis of memory up to `highest` bytes: its bytes, and its name.
pub(crate) fn memory_unit(highest: f64) -> (f64, &'static str) {
    const MIB: f64 = 1_048_576.0;
    const GIB: f64 = 1024.0 * MIB;
    if highest >= GIB { (GIB, "GiB") } else { (MIB, "MiB") }
}

/// A value above this multiple of the usual values is an outlier: it would make all other values too flat.
const FAR_FROM_USUAL: f64 = 6.0;

/// A height for an axis that shows all `values` except outliers, which are far above nearly all other values.
/// The chart must name those in words.
pub(crate) fn without_outliers(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite() && *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    // nine tenths of the values are not higher than this
    let usual =
        values.len().checked_sub(1).and_then(|last| values.get(last * 9 / 10)).copied().unwrap_or(0.0);
    values.into_iter().rfind(|value| *value <= usual * FAR_FROM_USUAL).unwrap_or(0.0)
}

/// The smallest of the distances `steps`, in units of `unit` milliseconds, with which there are at most `most` marks.
fn fitting_step(steps: &[u32], unit: f64, length: f64, most: u32) -> f64 {
    let fits = steps.iter().map(|step| f64::from(*step) * unit).find(|step| length / step <= f64::from(most));
    fits.unwrap_or_else(|| length / f64::from(most.max(1)))
}

/// The smallest distance of the form 1, 2 or 5 times a power of ten with which there are at most `most` marks.
fn round_step(length: f64, most: u32) -> f64 {
    let raw = length / f64::from(most.max(1));
    if !raw.is_finite() || raw <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(raw.log10().floor());
    let fits = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw * 0.999);
    fits.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, most: u32) -> Vec<String> {
        let marks = axis.marks(most);
        let step = marks.get(1).map_or(1.0, |second| second - marks[0]);
        marks.iter().map(|at| axis.label(*at, step)).collect()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "one of the values that went in")]
    fn outliers_do_not_stretch_an_axis() {
        assert_eq!(without_outliers([2.0, 3.0, 100.0]), 3.0);
        assert_eq!(without_outliers([2.0, 100.0]), 2.0);
        assert_eq!(without_outliers([2.0, 3.0, 11.0]), 11.0);
        assert_eq!(without_outliers([0.0, f64::NAN, 100.0]), 100.0, "nothing else is there to be seen");
        let most = without_outliers(std::iter::repeat_n(1.0, 8).chain([100.0, 100.0]));
        assert_eq!(most, 100.0, "a fifth is not a few");
        assert_eq!(without_outliers([]), 0.0);
    }

    #[test]
    fn marks_stand_at_round_places() {
        assert_eq!(labels(&Axis::from_zero(7.3, "GiB"), 5), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(&Axis::from_zero(0.0, "GiB"), 5)[1], "0.2");
        assert_eq!(labels(&Axis::counts(2.0, "attempts"), 5), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::elapsed(95_000.0), 4), ["0", "30 s", "60 s", "90 s"]);
        assert_eq!(labels(&Axis::elapsed(180.0 * MINUTE), 4), ["0", "1 h", "2 h", "3 h"]);
        assert_eq!(labels(&Axis::whole(1, 4), 8), ["1", "2", "3", "4"]);
        let at = 1_795_219_200_000.0;
        let two_days = labels(&Axis::calendar(at, at + 2.0 * DAY), 4);
        assert_eq!(two_days, ["21 Nov", "12:00", "22 Nov", "12:00", "23 Nov"]);
        assert!(labels(&Axis::calendar(at, at), 4).len() <= 6);
    }
}
