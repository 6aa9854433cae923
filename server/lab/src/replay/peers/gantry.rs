//! spack-gantry (gantry/routes/prediction.py): the mean of the last five, over six combinations of the key.
//!
//! Gantry takes the mean of the *mean* use, which as a limit would kill nearly every build; here it is the mean of the peaks, the
//! kinder reading. It makes no retry larger: doubled, as GitLab users do by hand. Architecture is not used, as there.

use std::collections::{HashMap, VecDeque};

use plimsoll_core::domain::Key;

use crate::replay::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

/// Builds that it wants.
const WANTED_BUILDS: usize = 5;
/// Builds that it is content with.
const ENOUGH_BUILDS: usize = 4;
/// Memory for a spec that nothing is known of: 2 GB.
const DEFAULT_MEMORY: f64 = 2e9;

/// Gantry's policy: history by combination of package, version and compiler.
#[derive(Debug, Default)]
pub(in crate::replay) struct Gantry {
    seen: HashMap<String, VecDeque<f64>>,
}

/// The combinations, from all parts of the spec down to package and variants.
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
            if let Some(last) = self.seen.get(&name).filter(|last| last.len() >= ENOUGH_BUILDS) {
                let count = last.iter().fold(0.0, |count, _| count + 1.0);
                return last.iter().sum::<f64>() / count;
            }
        }
        DEFAULT_MEMORY
    }

    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        failed * 2.0
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        // it learns nothing from failures
        if done.stopped {
            return;
        }
        for name in combinations(&ask.key) {
            let last = self.seen.entry(name).or_default();
            if last.len() >= WANTED_BUILDS {
                last.pop_front();
            }
            last.push_back(done.peak);
        }
    }
}
