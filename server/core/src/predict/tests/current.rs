//! An answer that counts as current equals the one that is computed now, whatever happened to the history since.

use std::collections::HashMap;

use super::super::*;
use crate::domain::{AnswerVersion, Millis, Summary, test_summary};

/// The next of a sequence of random numbers (Marsaglia, Xorshift RNGs, 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

const PACKAGES: [&str; 5] = ["zlib", "hdf5", "test 1/2", "test 2/2", "seldom"];

/// Attempt `n` of a package: some are killed, some untrusted, some measured in part.
fn attempt(n: u64, dice: u64) -> Summary {
    let package = PACKAGES[usize::try_from(dice % 9).unwrap().min(4)];
    let version = ["1", "2"][usize::try_from(dice >> 8 & 1).unwrap()];
    let mut summary = test_summary(&n.to_string(), package, version, 100 + (dice >> 16) % 4000);
    summary.censored = (dice >> 24).is_multiple_of(6);
    summary.opening.untrusted = (dice >> 32).is_multiple_of(5);
    summary.wall = Millis(60_000 + (dice >> 40) % 600_000);
    summary
}

#[test]
fn current_answers_equal_computed_ones() {
    let (mut history, mut state, mut repeated) = (History::new(40), 0x9e37_79b9_7f4a_7c15, 0);
    let settings = Settings::default();
    let mut cached: HashMap<Key, (AnswerVersion, Prediction)> = HashMap::new();
    let packages = PACKAGES.into_iter().chain(["unknown"]);
    let keys: Vec<Key> = packages
        .flat_map(|package| ["1", "3"].map(|version| test_summary("q", package, version, 0).key))
        .collect();
    for n in 0..400 {
        let dice = next(&mut state);
        match dice >> 48 & 15 {
            0 => history.unlearn(&AttemptId::parse(&(n / 2).to_string()).unwrap()),
            1 => {
                let changed = attempt(n / 2, dice);
                drop(history.replace_summary(&changed));
            }
            _ => history.learn(attempt(n, dice)),
        }
        for key in &keys {
            let now = predict(&history, key, &settings);
            let known = cached.get(key).filter(|(known, _)| history.is_current(known));
            assert_eq!(known.map_or(&now, |(_, answer)| answer), &now, "{} after {n}", key.describe());
            if known.is_some() {
                repeated += 1;
            } else {
                cached.insert(key.clone(), (history.answer_version(key, now.is_of_package), now));
            }
        }
    }
    assert!(repeated > 1000, "{repeated} of 4800 were repeated");
}
