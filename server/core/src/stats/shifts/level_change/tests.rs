//! Rows of needs that step, drift or stay.

use super::*;
use crate::dice::Dice;

/// Logarithms of `needs` with `noise` as a share.
fn row(needs: impl IntoIterator<Item = f64>, noise: f64) -> Vec<f64> {
    let mut dice = Dice(7);
    needs.into_iter().map(|need| (need * (1.0 + noise * dice.normal())).log2()).collect()
}

fn flat(count: usize, need: f64) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(need, count)
}

fn factor(change: &LevelChange) -> f64 {
    (change.now - change.before).exp2()
}

#[test]
fn a_step_is_located_with_its_factor() {
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
        assert_eq!((change.kind, change.at), (ChangeKind::Step, at), "{change:?}");
        assert!((factor(&change) / expected - 1.0).abs() < 0.1, "{change:?}");
    }
}

#[test]
fn a_reverted_step_is_reported_as_back() {
    let needs = flat(10, 1000.0).chain(flat(5, 2000.0)).chain(flat(4, 1010.0));
    let change = last_change(&row(needs, 0.03)).expect("a step back");
    assert_eq!((change.kind, change.at), (ChangeKind::Back, 15));
    assert!((factor(&change) - 0.5).abs() < 0.05, "{change:?}");
    let further = flat(10, 1000.0).chain(flat(5, 2000.0)).chain(flat(4, 4000.0));
    assert_eq!(last_change(&row(further, 0.03)).expect("a second step").kind, ChangeKind::Step);
}

#[test]
fn a_slow_drift_is_no_step() {
    let growing = (0..60).map(|n| 1000.0 * 1.01_f64.powi(n));
    let change = last_change(&row(growing, 0.02)).expect("a drift");
    assert_eq!(change.kind, ChangeKind::Drift);
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
    assert_eq!(last_change(&row(flat(5, 1000.0).chain(flat(3, 9000.0)), 0.03)), None, "nothing is usual yet");
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
        let alarms = alarms(|dice| if dice.uniform() < share { 32.0 } else { 30.0 } + 0.04 * dice.normal());
        assert!(
            alarms <= ROWS / 100,
            "{alarms} false alarms in {ROWS} rows with a share of {share} four times as large"
        );
    }
}
