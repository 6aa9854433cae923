//! What tells groups apart, and what does not.

use super::*;

/// A field, and its value by the number of the attempt and the place of its group.
type Made<'f> = (&'f str, &'f dyn Fn(usize, usize) -> String);

/// Attempts by turns of the groups, with these fields.
fn attempts(count: usize, groups: usize, fields: &[Made<'_>]) -> Vec<GroupedAttempt<'static>> {
    let one = |n: usize| {
        let group = n % groups;
        let of = |(name, value): &Made<'_>| (Cow::from((*name).to_owned()), Cow::from(value(n, group)));
        (group, fields.iter().map(of).collect())
    };
    (0..count).map(one).collect()
}

#[test]
fn the_distinguishing_field_is_reported_with_its_values() {
    let all = attempts(
        40,
        2,
        &[
            ("commit", &|n, _| n.to_string()),
            ("arch", &|_, _| "x86_64".to_owned()),
            ("weekday", &|n, _| (n / 2 % 7).to_string()),
            ("variants", &|_, group| ["~cuda", "+cuda"][group].to_owned()),
        ],
    );
    let found = find_distinction(2, &all, &[("variants".into(), "+cuda".into())]).unwrap();
    assert_eq!((found.field.as_str(), found.asked), ("variants", Some(1)));
    assert_eq!(found.values, [["~cuda"], ["+cuda"]]);
    assert!((found.accuracy - 1.0).abs() < 1e-9);
}

#[test]
fn unique_values_distinguish_no_groups() {
    let all =
        attempts(128, 2, &[("commit", &|n, _| n.to_string()), ("pipeline", &|n, _| (n / 2).to_string())]);
    assert_eq!(find_distinction(2, &all, &[]), None);
}

#[test]
fn chance_is_not_taken_for_a_reason() {
    // twenty fields of four values each, that have nothing to do with the groups
    let mut number = 1_u64;
    let mut dice = move || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number >> 33
    };
    let mut row = |n: usize| {
        let value = |name: u64| (Cow::from(name.to_string()), Cow::from((dice() % 4).to_string()));
        (n % 2, (0..20).map(value).collect())
    };
    for count in [8, 16, 40, 128] {
        let named = (0..400).filter(|_| {
            let all: Vec<GroupedAttempt<'_>> = (0..count).map(&mut row).collect();
            find_distinction(2, &all, &[]).is_some()
        });
        assert!(named.count() <= 4, "of {count} attempts");
    }
}

#[test]
fn a_distinguishing_field_must_be_accurate_enough() {
    let cache = |often: usize, n: usize, group: usize| {
        let wrong = usize::from((n / 2).is_multiple_of(often));
        ["warm", "cold"][group ^ wrong].to_owned()
    };
    let right = |often: usize| attempts(90, 2, &[("label cache", &move |n, group| cache(often, n, group))]);
    let found = find_distinction(2, &right(10), &[]).unwrap();
    assert!((0.85..0.95).contains(&found.accuracy), "{found:?}");
    assert_eq!(find_distinction(2, &right(3), &[]), None);
}

#[test]
fn partial_fields_can_distinguish_but_rare_values_cannot() {
    let mut all = attempts(30, 2, &[("phase test", &|_, _| "ran".to_owned())]);
    all.iter_mut().filter(|(group, _)| *group == 0).for_each(|(_, fields)| fields.clear());
    let found = find_distinction(2, &all, &[]).unwrap();
    assert_eq!(
        (found.field.as_str(), &found.values[..]),
        ("phase test", &[vec![], vec!["ran".to_owned()]][..])
    );
    assert_eq!(found.asked, None);
}

#[test]
fn three_groups_have_their_values_each() {
    let all = attempts(45, 3, &[("version", &|n, group| format!("{group}.{}", n % 2))]);
    let mut found = find_distinction(3, &all, &[("version".into(), "9".into())]).unwrap();
    found.values.iter_mut().for_each(|values| values.sort());
    assert_eq!(found.values, [["0.0", "0.1"], ["1.0", "1.1"], ["2.0", "2.1"]]);
    assert_eq!(found.asked, None, "that was never built");
    assert_eq!(find_distinction(3, &[], &[]), None);
}
