//! How many failures it takes until a rule that is wrong in an installation loses its say: a simulation over the records that a server
//! keeps. Each failure of one project is retried; the share of retries that show the rule right is given.

use std::{fmt::Write as _, sync::Arc};

use plimsoll_core::{
    domain::{Cause, History, Key, MatchedRule, Outcome, Summary, test_summary, test_verdict},
    retry::{Corrections, KnownFailures, RuleExperience},
};

/// Installations that are simulated for each share.
const INSTALLATIONS: usize = 40;
/// Failures in each.
const FAILURES: usize = 60;

/// After how many failures the rule lost its say first, and whether it has it in the end.
fn simulate(share: f64, uniform: &mut impl FnMut() -> f64) -> (Option<usize>, bool) {
    let (mut seen, mut history) = (KnownFailures::new(FAILURES), History::new(FAILURES));
    let corrections = Corrections::new(1);
    let (mut lost, mut is_reliable) = (None, true);
    for n in 1..=FAILURES {
        let key = Key { package: format!("package-{n}"), ..Key::default() };
        let mut verdict = test_verdict(&format!("f{n}"), Some("a line"));
        verdict.given_unix_ms = Some(n as u64);
        verdict.basis.spoken = vec![MatchedRule { rule: "rule".into(), cause: Cause::Deterministic }];
        seen.learn(&key, &verdict);
        let outcome = if uniform() < share { Outcome::Failed } else { Outcome::Succeeded };
        let retries = Some(verdict.attempt);
        history.learn(Arc::new(Summary {
            key,
            outcome,
            retries,
            ..test_summary(&format!("r{n}"), "", "", 1)
        }));
        let experience = RuleExperience { seen: &seen, history: &history, corrections: &corrections };
        is_reliable = experience.record("rule", "").is_reliable();
        if !is_reliable && lost.is_none() {
            lost = Some(n);
        }
    }
    (lost, is_reliable)
}

#[test]
fn the_table_of_how_many_failures_it_takes_is_the_one_that_is_printed() {
    let mut state = 1_u64;
    // Knuth's multiplier for MMIX, the upper bits
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
    };
    let mut table = String::from("right   lose it   after (half of them)   have it in the end\n");
    for percent in [0, 10, 22, 35, 50, 60, 70, 80, 93] {
        let ends: Vec<_> =
            (0..INSTALLATIONS).map(|_| simulate(f64::from(percent) / 100.0, &mut uniform)).collect();
        let mut lost: Vec<usize> = ends.iter().filter_map(|(lost, _)| *lost).collect();
        lost.sort_unstable();
        let half = lost.get(lost.len() / 2).map_or_else(|| "-".to_owned(), ToString::to_string);
        let kept = ends.iter().filter(|(_, is_reliable)| *is_reliable).count();
        let of = INSTALLATIONS;
        let _written = writeln!(
            table,
            "{percent:>3} %  {:>2} of {of}  {half:>13} failures  {kept:>10} of {of}",
            lost.len()
        );
    }
    let file = std::env::temp_dir().join("lost_say.txt");
    std::fs::write(&file, &table).unwrap();
    assert_eq!(table, include_str!("golden/lost_say.txt"), "see {}", file.display());
}
