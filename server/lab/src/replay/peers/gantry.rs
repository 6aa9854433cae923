//! spack-gantry (gantry/routes/prediction.py): the mean of the last five, over six combinations of the key.
//!
//! Gantry takes the mean of the *mean* use. As a limit this would kill nearly every build, so this policy takes
//! the mean of the peaks, which is better for Gantry. Gantry does not enlarge retries; this policy doubles
//! them, as users of GitLab do by hand. Like Gantry, it ignores the architecture.

use std::collections::{HashMap, VecDeque};

use plimsoll_core::domain::Key;

use crate::replay::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

/// Number of builds that Gantry averages.
const WANTED_BUILDS: usize = 5;
/// Least number of builds with which Gantry predicts.
const MIN_BUILDS: usize = 4;
/// Memory for a spec without history: 2 GB.
const DEFAULT_MEMORY: f64 = 2e9;

/// Gantry's policy. It has the history of each combination of package, version and compiler.
#[derive(Debug, Default)]
pub(in crate::replay) struct Gantry {
    needs_by_combination: HashMap<String, VecDeque<f64>>,
}

/// The combinations of the key's parts for which history is kept, from the most to the least specific: from all
/// parts down to package and variants.
fn combinations(key: &Key) -> [String; 6] {
    let (version, compiler) = (&key.version, &key.compiler);
    let exact = format!("{compiler}@{}", key.compiler_version);
    let parts: [[&str; 2]; 6] =
        [[version, &exact], [version, compiler], [version, ""], ["", &exact], ["", compiler], ["", ""]];
    let mut rung = 0;
    parts.map(|[version, compiler]| {
        rung += 1;
        format!("{rung}\u{1f}{}\u{1f}{}\u{1f}{version}\u{1f}{compiler}", key.package, key.variants)
    })
}

impl SizingPolicy for Gantry {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        for name in combinations(&ask.key) {
            if let Some(last) = self.needs_by_combination.get(&name).filter(|last| last.len() >= MIN_BUILDS) {
                let count = last.iter().fold(0.0, |count, _| count + 1.0);
                return last.iter().sum::<f64>() / count;
            }
        }
        DEFAULT_MEMORY
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        // Gantry does not use the memory of failed builds
        if done.stopped {
            return;
        }
        for name in combinations(&ask.key) {
            let last = self.needs_by_combination.entry(name).or_default();
            if last.len() >= WANTED_BUILDS {
                last.pop_front();
            }
            last.push_back(done.peak);
        }
    }
}
