//! Who gets what is predicted, and what the others would have got.

use super::*;
use crate::domain::{Bytes, Outcome, PredictionSnapshot, test_summary};

fn key(stack: &str, n: usize) -> Key {
    Key { stack: stack.to_owned(), package: format!("package-{n}"), ..Key::default() }
}

fn applied(settings: &Settings, stack: &str) -> Vec<usize> {
    (0..10_000).filter(|n| !settings.withholds(&key(stack, *n))).collect()
}

fn with(apply: &[(&str, f64)]) -> Settings {
    let apply = apply.iter().map(|(stack, share)| ((*stack).to_owned(), *share)).collect();
    Settings { is_on: true, apply }
}

#[test]
fn only_shadow_mode_withholds_predictions() {
    assert_eq!(applied(&Settings::default(), "e4s").len(), 10_000);
    assert_eq!(applied(&with(&[]), "e4s"), Vec::<usize>::new());
    assert_eq!(applied(&with(&[("e4s", 1.0)]), "e4s").len(), 10_000, "all is all");
}

#[test]
fn a_share_applies_by_stack_and_grows_monotonically() {
    let settings = with(&[("e4s", 0.1), ("none", 0.0), ("*", 0.5)]);
    let tenth = applied(&settings, "e4s");
    assert!((900..1100).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(applied(&settings, "none"), Vec::<usize>::new());
    assert!((4800..5200).contains(&applied(&settings, "another").len()));
    let fifth = applied(&with(&[("e4s", 0.2)]), "e4s");
    assert!(tenth.iter().all(|n| fifth.contains(n)), "a build changed sides");
}

#[test]
fn a_project_has_a_share_of_its_own() {
    let settings = with(&[("e4s", 1.0), ("g/off", 0.0), ("g/half", 0.5), ("*", 1.0)]);
    let count = |stack: &str, project: &str| {
        let of = |n| Key { project: project.to_owned(), ..key(stack, n) };
        (0..1000).filter(|n| !settings.withholds(&of(*n))).count()
    };
    assert_eq!([count("", "g/off"), count("e4s", "g/off"), count("e4s", "g/on")], [0, 0, 1000]);
    assert!((400..600).contains(&count("e4s", "g/half")), "the smaller share counts");
}

#[test]
fn a_builds_share_position_is_stable() {
    let zlib = Key { package: "zlib".into(), ..Key::default() };
    assert!((position(&zlib) - 0.680_614_663_912).abs() < 1e-9, "{}", position(&zlib));
}

#[test]
fn branch_owner_labels_and_hints_keep_the_share() {
    let settings = with(&[("*", 0.5)]);
    for n in 0..100 {
        let plain = key("e4s", n);
        let mut other = Key { git_ref: "pr-1".into(), owner: "me".into(), ..plain.clone() };
        other.labels.insert("commit".into(), "abc".into());
        other.hints.build_jobs = Some(8);
        assert_eq!(settings.withholds(&plain), settings.withholds(&other));
    }
}

fn predicted(mib: u64) -> Summary {
    let mut summary = test_summary("a", "zlib", "1", 100);
    summary.resources.memory_request = Some(Bytes(400 << 20));
    let limit = Bytes(mib << 20);
    let predicted =
        PredictionSnapshot { memory_request: limit, memory_limit: limit, ..PredictionSnapshot::default() };
    summary.opening.predicted = Some(predicted);
    summary
}

#[test]
fn needs_above_the_predicted_limit_would_fail() {
    for (limit, fails) in [(99, true), (100, false), (200, false)] {
        let would = ShadowComparison::of(&predicted(limit)).unwrap();
        assert_eq!((would.failed, would.would_fail), (false, fails), "{limit}");
        let expected = 400.0 / f64::from(u32::try_from(limit).unwrap());
        assert!((would.asked / would.predicted - expected).abs() < 1e-9);
    }
}

#[test]
fn killed_attempts_judge_only_smaller_limits() {
    let stopped =
        |mib| Summary { outcome: Outcome::Failed, cause: Some(Cause::Oom), censored: true, ..predicted(mib) };
    let would = |mib| ShadowComparison::of(&stopped(mib)).map(|would| (would.failed, would.would_fail));
    assert_eq!((would(50), would(100)), (Some((true, true)), Some((true, true))));
    assert_eq!(would(101), Some((true, false)), "it is not known, so it does not count");
    assert_eq!(holds(&stopped(101), 101 << 20), None);
}

#[test]
fn attempts_without_prediction_or_ask_are_not_compared() {
    let mut silent = predicted(100);
    (silent.resources.memory_request, silent.resources.memory_limit) = (None, None);
    let mut old = predicted(100);
    old.opening.predicted = None;
    assert_eq!((ShadowComparison::of(&silent), ShadowComparison::of(&old)), (None, None));
}
