//! Rows of one group and of several, made and real.

use super::*;
use crate::dice::Dice;
use crate::domain::History;

type Level = fn(usize) -> f64;

/// A GiB.
const BASE: f64 = 30.0;

/// The share of `rows` made rows in which there are so many groups.
fn share(groups: usize, count: usize, mut value: impl FnMut(&mut Dice, usize) -> f64) -> f64 {
    const ROWS: usize = 400;
    let mut dice = Dice(17);
    let found = (0..ROWS).filter(|_| {
        let row: Vec<f64> = (0..count).map(|n| BASE + value(&mut dice, n)).collect();
        NeedSplit::of(&row).map_or(1, |split| split.count()) == groups
    });
    float(found.count()) / float(ROWS)
}

#[test]
fn one_group_is_seldom_taken_for_several() {
    type Made = fn(&mut Dice, usize) -> f64;
    let shapes: [(&str, Made); 6] = [
        ("equal", |_, _| 0.0),
        ("normal", |dice, _| 0.3 * dice.normal()),
        ("even", |dice, _| 1.5 * dice.uniform()),
        ("exponential", |dice, _| 0.5 * dice.exponential()),
        ("two tails", |dice, _| 0.3 * (dice.exponential() - dice.exponential())),
        ("heavy tails", |dice, _| 0.2 * dice.normal() / (0.1 + dice.uniform())),
    ];
    for (shape, made) in shapes {
        for count in [FEWEST_TO_SPLIT, 12, 20, 40, History::PER_RUNG] {
            let false_alarms = 1.0 - share(1, count, made);
            assert!(false_alarms <= 0.045, "{shape} of {count}: {false_alarms}");
        }
    }
}

#[test]
fn two_groups_are_found_even_if_unbalanced() {
    for (rare, count, least) in
        [(0.5, 20, 0.9), (0.5, 128, 1.0), (0.25, 60, 1.0), (0.12, 60, 0.75), (0.12, 128, 0.8)]
    {
        let found = share(2, count, |dice, _| {
            let up = f64::from(u8::from(dice.uniform() < rare));
            up + 0.1 * dice.normal()
        });
        assert!(found >= least, "{rare} of {count}: {found}");
    }
    // 17 GiB and 41 GiB
    assert!(share(2, 40, |dice, n| if n % 3 == 0 { 1.27 } else { 0.0 } + 0.08 * dice.normal()) > 0.99);
}

#[test]
fn three_and_four_groups_are_distinguished() {
    for groups in [3, 4] {
        let found = share(groups, 96, |dice, n| float(n * 7 % groups) + 0.06 * dice.normal());
        assert!(found > 0.98, "{groups}: {found}");
    }
    let six = share(MAX_GROUPS + 1, 120, |dice, n| float(n * 7 % 6) + 0.02 * dice.normal());
    assert!(six <= 0.0, "no more groups than are shown");
}

#[test]
fn needs_that_have_moved_are_one_group() {
    let shapes: [(&str, Level); 4] = [
        ("little by little", |n| float(n) / 40.0),
        ("at once", |n| if n < 30 { 0.0 } else { 1.2 }),
        ("there and back", |n| if (20..40).contains(&n) { 1.2 } else { 0.0 }),
        ("in two steps", |n| float(n / 20) * 1.2),
    ];
    for (shape, level) in shapes {
        for noise in [0.02, 0.1, 0.3] {
            let one = share(1, 60, |dice, n| level(n) + noise * dice.normal());
            assert!(one > 0.97, "{shape} with {noise}: {one}");
        }
    }
}

#[test]
fn a_group_that_is_over_is_history() {
    let over = share(1, 60, |dice, n| if n < 30 && n % 2 == 0 { 1.2 } else { 0.0 } + 0.05 * dice.normal());
    assert!(over > 0.99, "{over}");
}

#[test]
fn few_attempts_and_small_differences_say_nothing() {
    let few: Vec<f64> = (0..FEWEST_TO_SPLIT - 1).map(|n| BASE + float(n % 2)).collect();
    assert_eq!(NeedSplit::of(&few), None);
    let row = |base: f64, apart: f64| (0..40).map(|n| base + apart * float(n % 2)).collect::<Vec<_>>();
    assert!(NeedSplit::of(&row(BASE, 1.0)).is_some());
    assert_eq!(NeedSplit::of(&row(BASE, 0.4)), None, "a third more is no other build");
    assert_eq!(NeedSplit::of(&row(25.0, 1.0)), None, "32 MiB more");
}

#[test]
fn a_need_belongs_to_the_enclosing_group() {
    let row: Vec<f64> = (0..30).map(|n| BASE + float(n % 3)).collect();
    let split = NeedSplit::of(&row).unwrap();
    let groups = [0.0, BASE, BASE + 0.9, BASE + 1.0, BASE + 2.0, 60.0].map(|need| split.group_of(need));
    assert_eq!((groups, split.count()), ([0, 0, 0, 1, 2, 2], 3));
}
