//! Which attempts speak for a key, and how loudly.
//!
//! Every attempt counts on the most similar rung that it shares with the key, and nowhere else. A rung that holds `n`
//! attempts takes `n / (n + k)` of the weight that the more similar rungs left over; what no rung takes is the default's.
//! Old attempts count less. Attempts that were stopped by memory do not age the others: a failure more must never make
//! a size smaller, and so it may only take weight from all others evenly.

use std::sync::Arc;

use super::memory::stopped_at;
use crate::domain::{History, Key, Outcome, Rung, Summary};

/// `k` of `n / (n + k)`: as many attempts as it takes for a rung to know half of what there is to know.
const HALF_KNOWN: f64 = 3.0;
/// Weight of an attempt against the next newer one of its rung.
const DECAY: f64 = 0.95;
/// An attempt older than this weighs under 5 % of the newest, all of them together 5 % of their rung.
const MAX_AGE: i32 = 60;

/// An attempt that speaks for the key.
#[derive(Debug)]
pub(super) struct Used<'h> {
    pub(super) summary: &'h Summary,
    pub(super) rung: Rung,
    /// 1 for the newest of its rung, less with age.
    pub(super) fresh: f64,
    /// Share of all weight.
    pub(super) weight: f64,
    /// Need in bytes, at the build jobs asked for.
    pub(super) need: f64,
}

impl Used<'_> {
    pub(super) fn succeeded(&self) -> bool {
        self.summary.outcome == Outcome::Succeeded && !self.summary.censored
    }
}

/// The attempts that speak for a key, most similar rung first, newest first within it.
#[derive(Debug, Default)]
pub(super) struct Pool<'h> {
    pub(super) used: Vec<Used<'h>>,
    /// Rungs that hold attempts, with their share of all weight.
    pub(super) shares: Vec<(Rung, f64)>,
    /// Share of the default.
    pub(super) left: f64,
}

impl<'h> Pool<'h> {
    pub(super) fn gather(history: &'h History, key: &Key) -> Self {
        let mut pool = Self { left: 1.0, ..Self::default() };
        for rung in Rung::LADDER {
            pool.climb_down(history, key, rung);
        }
        pool
    }

    fn climb_down(&mut self, history: &'h History, key: &Key, rung: Rung) {
        let first = self.used.len();
        let (mut age, mut known) = (0, 0.0);
        // lists are in order of arrival, and a list holds all that the lists inside it hold of its time: so what is counted
        // already is found by walking them side by side, without reading the attempts
        let mut inside: Vec<_> =
            lists_inside(rung).iter().map(|inner| history.on_rung(*inner, key).peekable()).collect();
        let here = history.on_rung(rung, key).filter(|summary| {
            let counted =
                inside.iter_mut().filter_map(|list| list.next_if(|s| Arc::ptr_eq(s, summary))).count() > 0;
            let same_package = rung == Rung::BuildSystem && is_same_package(key, &summary.key);
            !counted && !same_package && summary.teaches_memory()
        });
        for summary in here {
            if age > MAX_AGE {
                break;
            }
            let fresh = DECAY.powi(age);
            known += fresh;
            age += i32::from(!summary.censored);
            let need = if summary.censored { stopped_at(summary) } else { summary.need_peak }.as_f64();
            self.used.push(Used { summary, rung, fresh, weight: 0.0, need });
        }
        if known <= 0.0 {
            return;
        }
        let share = self.left * known / (known + HALF_KNOWN);
        for used in self.used.iter_mut().skip(first) {
            used.weight = share * used.fresh / known;
        }
        self.shares.push((rung, share));
        self.left -= share;
    }

    /// Number of attempts, on all rungs.
    pub(super) fn attempts(&self) -> u32 {
        u32::try_from(self.used.len()).unwrap_or(u32::MAX)
    }

    /// The rung with the largest share among those that hold attempts.
    pub(super) fn main_rung(&self) -> Rung {
        let heaviest = self.shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
        heaviest.map_or(Rung::Default, |(rung, _)| *rung)
    }
}

/// The widest lists of more similar attempts that lie inside the list of `rung` as a whole.
fn lists_inside(rung: Rung) -> &'static [Rung] {
    match rung {
        // a package may have attempts of other build systems, so its list is not inside that of one: keys are compared
        Rung::Default | Rung::Exact | Rung::BuildSystem => &[],
        Rung::NoVersion => &[Rung::Exact],
        Rung::NoCompiler => &[Rung::NoVersion],
        Rung::Package => &[Rung::NoCompiler],
        Rung::Fleet => &[Rung::Package, Rung::BuildSystem],
    }
}

fn is_same_package(a: &Key, b: &Key) -> bool {
    a.package == b.package && a.project == b.project
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::test_summary as summary;

    fn keys() -> Vec<Key> {
        let mut keys = Vec::new();
        for bits in 0..32_u32 {
            let pick =
                |bit: u32, yes: &str| if bits >> bit & 1 == 1 { yes.to_owned() } else { String::new() };
            keys.push(Key {
                package: format!("p{}", bits & 1),
                version: pick(1, "2"),
                variants: pick(2, "+x"),
                compiler: pick(3, "gcc"),
                build_system: pick(4, "cmake"),
                ..Key::default()
            });
        }
        keys
    }

    #[test]
    fn each_attempt_stands_on_the_first_list_that_holds_it() {
        let mut history = History::new(10_000);
        // an uneven walk over all kinds of keys, long enough for lists to drop their oldest
        for n in 0..2000 {
            let key = keys().swap_remove(n * n / 7 % 32);
            history.learn(Arc::new(Summary { key, ..summary(&n.to_string(), "p", "1", 1) }));
        }
        let most = usize::try_from(MAX_AGE).unwrap() + 1;
        for asked in keys() {
            let pool = Pool::gather(&history, &asked);
            let mut seen = HashSet::new();
            for rung in Rung::LADDER {
                // of the same package, but pushed off its list by others: too old to say anything
                let too_old = |s: &Summary| rung == Rung::BuildSystem && is_same_package(&s.key, &asked);
                let listed = history.on_rung(rung, &asked).filter(|s| seen.insert(&s.attempt) && !too_old(s));
                let expected: Vec<_> = listed.map(|s| &s.attempt).collect();
                let expected: Vec<_> = expected.into_iter().take(most).collect();
                let used = pool.used.iter().filter(|used| used.rung == rung);
                let used: Vec<_> = used.map(|used| &used.summary.attempt).collect();
                assert_eq!(used, expected, "{rung:?} of {asked:?}");
            }
        }
    }

    #[test]
    fn each_attempt_counts_once_and_all_weights_and_the_default_make_one() {
        let mut history = History::new(1000);
        for (n, version) in ["1", "2", "1", "3", "1"].iter().enumerate() {
            history.learn(Arc::new(summary(&n.to_string(), "zlib", version, 10)));
            history.learn(Arc::new(summary(&format!("x{n}"), "hdf5", version, 10)));
        }
        let pool = Pool::gather(&history, &summary("q", "zlib", "1", 0).key);
        assert_eq!((pool.used.len(), pool.main_rung()), (10, Rung::Exact));
        let total: f64 = pool.used.iter().map(|used| used.weight).sum();
        assert!((total + pool.left - 1.0).abs() < 1e-9, "{total} + {}", pool.left);
        assert!(pool.used[0].weight > pool.used[1].weight, "newer weighs more");
    }
}
