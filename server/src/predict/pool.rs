//! Which attempts speak for a key, and how loudly.
//!
//! Every attempt counts on the most similar rung that it shares with the key, and nowhere else. A rung that holds `n`
//! attempts takes `n / (n + k)` of the weight that the more similar rungs left over; what no rung takes is the default's.
//! Old attempts count less. Attempts that were stopped by memory do not age the others: a failure more must never make
//! a size smaller, and so it may only take weight from all others evenly.

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
        let here =
            history.on_rung(rung, key).filter(|s| s.teaches_memory() && shared_rung(key, &s.key) == rung);
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

/// The most similar rung that two keys share; the same rule as the lists of [`History`].
fn shared_rung(a: &Key, b: &Key) -> Rung {
    if a.package != b.package || a.project != b.project {
        let same_system = !a.build_system.is_empty() && a.build_system == b.build_system;
        return if same_system { Rung::BuildSystem } else { Rung::Fleet };
    }
    if a.variants != b.variants || a.arch != b.arch || a.build_system != b.build_system {
        Rung::Package
    } else if a.compiler != b.compiler || a.compiler_version != b.compiler_version {
        Rung::NoCompiler
    } else if a.version != b.version {
        Rung::NoVersion
    } else {
        Rung::Exact
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
    fn the_shared_rung_is_the_first_list_of_the_history_that_holds_both() {
        for a in keys() {
            for b in keys() {
                let mut history = History::new(1);
                history.learn(Arc::new(Summary { key: b.clone(), ..summary("1", "p", "1", 1) }));
                let found = Rung::LADDER.into_iter().find(|rung| history.on_rung(*rung, &a).next().is_some());
                assert_eq!(Some(shared_rung(&a, &b)), found, "{a:?} {b:?}");
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
