//! Detects whether a series of numbers changed its level, and where. Pure.
//!
//! A **step** is three values in a row that are clearly outside the earlier range, with later values staying there. One or two outliers are
//! not a step. Neither are two groups of values that alternate: values of the second group occurred before, or later values return to the
//! first. A **drift** has no such point: the first and the last third differ, and the middle third is in between.

use plimsoll_proto::v1::ChangeKind;

use crate::domain::{float, median};

/// A change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::stats) struct LevelChange {
    pub(in crate::stats) kind: ChangeKind,
    /// Index of the first value on the new level; 0 for a drift, which has no such value.
    pub(in crate::stats) at: usize,
    /// Levels before and after the change, as logarithms to base 2.
    pub(in crate::stats) before: f64,
    pub(in crate::stats) now: f64,
}

/// Fewest values before a step: with fewer, their usual range is not known.
const FEWEST_BEFORE: usize = 6;
/// Number of values in a row that show a new level.
const LEVEL_VALUES: usize = 3;
/// Least change that is reported: 30 %.
const MIN_CHANGE: f64 = 0.378_5;
/// Least height of a step, in standard deviations of the values before it.
const MIN_DEVIATIONS: f64 = 3.0;
/// Usual deviation of one build that is repeated, as a logarithm to base 2: 3 %.
const REPEAT_DEVIATION: f64 = 0.043;
/// Highest probability that a step occurs by chance.
const MAX_CHANCE_PROBABILITY: f64 = 0.0011;
/// Largest share of the values of a level that may be beyond the middle between the two levels.
const STRAY_SHARE: f64 = 0.15;
/// Fewest values in which a drift is searched for.
const FEWEST_FOR_DRIFT: usize = 12;

/// The last change of level in `values` (logarithms to base 2, oldest first), if the newest values are still on the new level.
pub(in crate::stats) fn last_change(values: &[f64]) -> Option<LevelChange> {
    let mut starts = vec![0];
    let mut at = FEWEST_BEFORE;
    while at + LEVEL_VALUES <= values.len() {
        let start = starts.last().copied().unwrap_or(0);
        if is_step(values.get(start..at)?, values.get(at..)?) {
            starts.push(at);
            at += LEVEL_VALUES;
        } else {
            at += 1;
        }
    }
    find_step(values, &starts).or_else(|| find_drift(values))
}

fn find_step(values: &[f64], starts: &[usize]) -> Option<LevelChange> {
    let [.., earlier, at] = *starts else { return None };
    let (old, new) = (values.get(earlier..at)?, values.get(at..)?);
    let (before, now) = (median(old.to_vec()), median(new.to_vec()));
    let middle = f64::midpoint(before, now);
    let up = now > before;
    let strays = |values: &[f64], above: bool| {
        let count = values.iter().filter(|value| (**value > middle) == above).count();
        float(count) > STRAY_SHARE * float(values.len())
    };
    if (now - before).abs() < MIN_CHANGE || strays(old, up) || strays(new, !up) {
        return None;
    }
    let first = match *starts {
        [.., first, _, _] => values.get(first..earlier).map(|values| median(values.to_vec())),
        _ => None,
    };
    let kind = if first.is_some_and(|first| (first - now).abs() < MIN_CHANGE / 2.0) {
        ChangeKind::Back
    } else {
        ChangeKind::Step
    };
    Some(LevelChange { kind, at, before, now })
}

/// Whether the values `ahead` start clearly outside `level_change`, on one side of it, with too many in a row to be chance.
fn is_step(level: &[f64], ahead: &[f64]) -> bool {
    let usual = median(level.to_vec());
    let apart: Vec<f64> = level.iter().map(|value| (value - usual).abs()).collect();
    // 1.4826 converts a median absolute deviation to a standard deviation (Hampel 1974)
    let clear = MIN_CHANGE.max(MIN_DEVIATIONS * (1.4826 * median(apart)).max(REPEAT_DEVIATION));
    let side = if ahead.first().is_some_and(|first| *first < usual) { -1.0 } else { 1.0 };
    let beyond = |value: &f64| (value - usual) * side;
    let row: Vec<f64> = ahead.iter().copied().take_while(|value| beyond(value) >= clear).collect();
    if row.len() < LEVEL_VALUES {
        return false;
    }
    // if such values occurred before, they may recur: the probability that all values of the row do (rule of succession, Laplace)
    let seen = level.iter().filter(|value| beyond(value) >= clear / 2.0).count();
    let again = float(seen + 1) / float(level.len() + 2);
    let chance = again.powf(float(row.len()));
    chance <= MAX_CHANCE_PROBABILITY
}

fn find_drift(values: &[f64]) -> Option<LevelChange> {
    if values.len() < FEWEST_FOR_DRIFT {
        return None;
    }
    let third = values.len() / 3;
    let (first, rest) = values.split_at_checked(third)?;
    let (middle, last) = rest.split_at_checked(rest.len() - third)?;
    let (before, between, now) = (median(first.to_vec()), median(middle.to_vec()), median(last.to_vec()));
    // the medians of the outer thirds are two thirds of the whole drift apart
    let way = (now - before) * 1.5;
    let order = |low: &[f64], high: &[f64]| {
        let most = low.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let strays = high.iter().filter(|value| **value <= most).count();
        float(strays) <= STRAY_SHARE * float(high.len())
    };
    let apart = if now > before { order(first, last) } else { order(last, first) };
    let part = (between - before) / (now - before);
    // whether the middle third is between both levels
    let on_its_way = (0.25..=0.75).contains(&part);
    let moved = way.abs() >= MIN_CHANGE && apart && on_its_way;
    moved.then(|| LevelChange {
        kind: ChangeKind::Drift,
        at: 0,
        before: before - way / 6.0,
        now: now + way / 6.0,
    })
}

#[cfg(test)]
mod tests;
