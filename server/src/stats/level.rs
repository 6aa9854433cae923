//! Whether a row of numbers has moved to another level, and where. Pure.
//!
//! A **step** is three values in a row that lie clear of all that was usual before, and that stay there. One or two outliers
//! are none, nor is a key with two modes: there the other mode was seen before, or the values go back to the first one. A
//! **drift** has no such place: the first third and the last third lie apart, and the middle between them.

/// What moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) kind: Kind,
    /// The first value on the new level; 0 for a drift, which has no first one.
    pub(super) at: usize,
    /// Levels before and now, as logarithms to base 2.
    pub(super) before: f64,
    pub(super) now: f64,
}

/// How it moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From one attempt to the next.
    Step,
    /// A step that undoes the one before it.
    Back,
    /// Little by little.
    Drift,
}

/// Values before the first step: with fewer nobody knows what is usual.
const BEFORE: usize = 6;
/// Values that make a level.
const LEVEL: usize = 3;
/// A smaller change is no news: 30 %.
const LEAST: f64 = 0.378_5;
/// A step is this many deviations of what was usual.
const CLEAR: f64 = 3.0;
/// Deviation of one build that is repeated: 3 %.
const NOISE: f64 = 0.043;
/// A row of values is a step if chance alone would make it less often than this.
const CHANCE: f64 = 0.0011;
/// Share of the values that may lie on the other side of the middle between two levels.
const STRAY: f64 = 0.15;
/// Values in which a drift shows.
const DRIFT: usize = 12;

/// The last change in `values` (logarithms to base 2, oldest first), if the newest still lie on that level.
pub(super) fn last_change(values: &[f64]) -> Option<Change> {
    let mut starts = vec![0];
    let mut at = BEFORE;
    while at + LEVEL <= values.len() {
        let start = starts.last().copied().unwrap_or(0);
        if is_step(values.get(start..at)?, values.get(at..)?) {
            starts.push(at);
            at += LEVEL;
        } else {
            at += 1;
        }
    }
    step(values, &starts).or_else(|| drift(values))
}

fn step(values: &[f64], starts: &[usize]) -> Option<Change> {
    let [.., earlier, at] = *starts else { return None };
    let (old, new) = (values.get(earlier..at)?, values.get(at..)?);
    let (before, now) = (median(old), median(new));
    let middle = f64::midpoint(before, now);
    let up = now > before;
    let strays = |values: &[f64], above: bool| {
        let count = values.iter().filter(|value| (**value > middle) == above).count();
        float(count) > STRAY * float(values.len())
    };
    if (now - before).abs() < LEAST || strays(old, up) || strays(new, !up) {
        return None;
    }
    let first = match *starts {
        [.., first, _, _] => values.get(first..earlier).map(median),
        _ => None,
    };
    let kind =
        if first.is_some_and(|first| (first - now).abs() < LEAST / 2.0) { Kind::Back } else { Kind::Step };
    Some(Change { kind, at, before, now })
}

/// Whether what lies `ahead` begins with values clear of `level`, at once, on one side, and too many to be chance.
fn is_step(level: &[f64], ahead: &[f64]) -> bool {
    let usual = median(level);
    let apart: Vec<f64> = level.iter().map(|value| (value - usual).abs()).collect();
    // 1.4826 makes a deviation of a median deviation (Hampel 1974)
    let clear = LEAST.max(CLEAR * (1.4826 * median(&apart)).max(NOISE));
    let side = if ahead.first().is_some_and(|first| *first < usual) { -1.0 } else { 1.0 };
    let beyond = |value: &f64| (value - usual) * side;
    let row: Vec<f64> = ahead.iter().copied().take_while(|value| beyond(value) >= clear).collect();
    if row.len() < LEVEL {
        return false;
    }
    // what was seen on that side before may come again: the chance of a whole row of it (rule of succession, Laplace)
    let seen = level.iter().filter(|value| beyond(value) >= clear / 2.0).count();
    let again = float(seen + 1) / float(level.len() + 2);
    let chance = again.powf(float(row.len()));
    chance <= CHANCE
}

fn drift(values: &[f64]) -> Option<Change> {
    if values.len() < DRIFT {
        return None;
    }
    let third = values.len() / 3;
    let (first, rest) = values.split_at_checked(third)?;
    let (middle, last) = rest.split_at_checked(rest.len() - third)?;
    let (before, between, now) = (median(first), median(middle), median(last));
    // a third stands for its middle, so two of them are two thirds of the way
    let way = (now - before) * 1.5;
    let order = |low: &[f64], high: &[f64]| {
        let most = low.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let strays = high.iter().filter(|value| **value <= most).count();
        float(strays) <= STRAY * float(high.len())
    };
    let apart = if now > before { order(first, last) } else { order(last, first) };
    let part = (between - before) / (now - before);
    // in the middle third it is on its way: neither here nor there
    let on_its_way = (0.25..=0.75).contains(&part);
    let moved = way.abs() >= LEAST && apart && on_its_way;
    moved.then(|| Change { kind: Kind::Drift, at: 0, before: before - way / 6.0, now: now + way / 6.0 })
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same in every run (Knuth's multiplier; the upper bits).
    struct Dice(u64);

    impl Dice {
        /// 0 to 1.
        fn even(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
        }

        /// Around 0 with a deviation of 1: twelve even ones.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.even()).sum::<f64>() - 6.0
        }
    }

    /// Logarithms of `needs` with `noise` as a share.
    fn row(needs: impl IntoIterator<Item = f64>, noise: f64) -> Vec<f64> {
        let mut dice = Dice(7);
        needs.into_iter().map(|need| (need * (1.0 + noise * dice.normal())).log2()).collect()
    }

    fn flat(count: usize, need: f64) -> impl Iterator<Item = f64> {
        std::iter::repeat_n(need, count)
    }

    fn factor(change: &Change) -> f64 {
        (change.now - change.before).exp2()
    }

    #[test]
    fn a_step_is_found_where_it_began_and_with_its_factor() {
        for (needs, at, expected) in [
            (flat(10, 1000.0).chain(flat(3, 2000.0)).collect::<Vec<_>>(), 10, 2.0),
            (flat(6, 1000.0).chain(flat(50, 1400.0)).collect(), 6, 1.4),
            (flat(20, 1000.0).chain(flat(4, 500.0)).collect(), 20, 0.5),
            // one outlier on each side changes nothing
            (
                flat(9, 1000.0)
                    .chain([5000.0])
                    .chain(flat(4, 1000.0))
                    .chain(flat(7, 2000.0))
                    .chain([900.0])
                    .collect(),
                14,
                2.0,
            ),
        ] {
            let change = last_change(&row(needs, 0.03)).expect("a step");
            assert_eq!((change.kind, change.at), (Kind::Step, at), "{change:?}");
            assert!((factor(&change) / expected - 1.0).abs() < 0.1, "{change:?}");
        }
    }

    #[test]
    fn a_step_that_is_undone_is_told_as_back() {
        let needs = flat(10, 1000.0).chain(flat(5, 2000.0)).chain(flat(4, 1010.0));
        let change = last_change(&row(needs, 0.03)).expect("a step back");
        assert_eq!((change.kind, change.at), (Kind::Back, 15));
        assert!((factor(&change) - 0.5).abs() < 0.05, "{change:?}");
        let further = flat(10, 1000.0).chain(flat(5, 2000.0)).chain(flat(4, 4000.0));
        assert_eq!(last_change(&row(further, 0.03)).expect("a second step").kind, Kind::Step);
    }

    #[test]
    fn a_slow_drift_is_a_drift_and_no_step() {
        let growing = (0..60).map(|n| 1000.0 * 1.01_f64.powi(n));
        let change = last_change(&row(growing, 0.02)).expect("a drift");
        assert_eq!(change.kind, Kind::Drift);
        assert!((1.5..2.1).contains(&factor(&change)), "1.8 in all: {}", factor(&change));
        let falling = (0..30).map(|n| 1000.0 * 0.98_f64.powi(n));
        assert!(last_change(&row(falling, 0.01)).is_some_and(|change| factor(&change) < 0.7));
        let slight = (0..60).map(|n| 1000.0 * 1.002_f64.powi(n));
        assert_eq!(last_change(&row(slight, 0.02)), None);
    }

    #[test]
    fn an_outlier_or_two_are_no_change() {
        for outliers in 1..=2 {
            let end = row(flat(20, 1000.0).chain(flat(outliers, 9000.0)), 0.03);
            let within = row(flat(20, 1000.0).chain(flat(outliers, 9000.0)).chain(flat(20, 1000.0)), 0.03);
            assert_eq!((last_change(&end), last_change(&within)), (None, None), "{outliers}");
        }
        assert_eq!(last_change(&[]), None);
        assert_eq!(
            last_change(&row(flat(5, 1000.0).chain(flat(3, 9000.0)), 0.03)),
            None,
            "nothing is usual yet"
        );
    }

    /// Enough to see one false alarm in a hundred.
    const ROWS: usize = 1000;

    /// Rows of 9 to 64 values in which nothing changes; how many of them raise an alarm.
    fn alarms(mut value: impl FnMut(&mut Dice) -> f64) -> usize {
        let mut dice = Dice(11);
        let rows = (0..ROWS).filter(|n| {
            let row: Vec<f64> = (0..9 + n % 56).map(|_| value(&mut dice)).collect();
            last_change(&row).is_some()
        });
        rows.count()
    }

    #[test]
    fn noise_and_two_modes_raise_no_alarm() {
        for noise in [0.01, 0.04, 0.1, 0.3, 0.6] {
            let alarms = alarms(|dice| 30.0 + noise * dice.normal());
            assert!(alarms <= ROWS / 100, "{alarms} false alarms in {ROWS} rows at a deviation of {noise}");
        }
        for share in [0.05, 0.2, 0.5, 0.8] {
            let alarms = alarms(|dice| if dice.even() < share { 32.0 } else { 30.0 } + 0.04 * dice.normal());
            assert!(
                alarms <= ROWS / 100,
                "{alarms} false alarms in {ROWS} rows with a share of {share} four times as large"
            );
        }
    }
}
