//! How much of their presets other packages needed, for a build with a preset whose package is unknown.
//!
//! Presets of one fleet are chosen in the same way: sizes of packages differ a hundredfold, while the highest share of a preset that is
//! needed is alike. The shares are those of the newest trusted attempts: of the stack and project of the build, or of its project, or of
//! the fleet, whichever is narrowest and has [`FEWEST_PACKAGES`].
//!
//! If packages can be exchanged for each other, the next one needs more than the `j`-th highest of `n` shares with a probability of
//! `j / (n + 1)` (Wilks 1941). Above the highest share the probability falls exponentially with the logarithm of the size (Weissman 1978).

use std::collections::BTreeMap;

use super::{
    deviation::{Deviation, WeightedValue},
    distribution::Distribution,
    similar::{FEWEST_PACKAGES, is_same_package},
};
use crate::domain::{AttemptBrief, Bytes, History, Key, Rung};

/// Most attempts that are read.
const NEWEST: usize = 1000;
/// Highest probability that a build needs more than its lowered preset.
const EXCEEDED_SHARE: f64 = 0.02;

/// The shares of their presets that packages needed.
#[derive(Debug)]
pub(super) struct PresetShares {
    /// The highest share of each package, highest first.
    shares: Vec<f64>,
    /// Mean wall time of the attempts in hours.
    hours: f64,
    pub(super) attempts: u32,
}

/// A share of a preset.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnoughShare {
    /// The share that packages needed at most, but for those that may exceed a lowered preset.
    pub(super) needed: f64,
    /// The share that a further package exceeds with a probability of at most [`EXCEEDED_SHARE`].
    pub(super) enough: f64,
}

impl EnoughShare {
    /// Share of the builds that the size covers.
    pub(super) const COVERED: f64 = 1.0 - EXCEEDED_SHARE;
}

impl PresetShares {
    /// The shares of packages other than that of `key`; `None` if too few packages show one.
    pub(super) fn gather(history: &History, key: &Key) -> Option<Self> {
        let newest = history.newest_trusted().take(NEWEST);
        let others = newest.filter(|brief| !is_same_package(key, &brief.key));
        let shown: Vec<(&AttemptBrief, f64)> =
            others.filter_map(|brief| Some((brief.as_ref(), brief.share_of_preset()?))).collect();
        let is_project = |other: &Key| other.project == key.project;
        let is_stack = |other: &Key| is_project(other) && other.stack == key.stack;
        Self::of(&shown, is_stack)
            .or_else(|| Self::of(&shown, is_project))
            .or_else(|| Self::of(&shown, |_| true))
    }

    fn of(shown: &[(&AttemptBrief, f64)], is_near: impl Fn(&Key) -> bool) -> Option<Self> {
        let (mut highest, mut hours, mut attempts) = (BTreeMap::new(), 0.0, 0_u32);
        for (brief, share) in shown.iter().filter(|(brief, _)| is_near(&brief.key)) {
            let package = highest.entry((&brief.key.project, &brief.key.package)).or_insert(*share);
            *package = share.max(*package);
            hours += brief.wall.hours();
            attempts += 1;
        }
        let mut shares: Vec<f64> = highest.into_values().collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        let is_enough = shares.len() >= FEWEST_PACKAGES;
        is_enough.then(|| Self { shares, hours: hours / f64::from(attempts), attempts })
    }

    /// The share of a preset that is enough for a package without attempts.
    pub(super) fn enough(&self) -> EnoughShare {
        let packages = f64::from(u32::try_from(self.shares.len()).unwrap_or(u32::MAX));
        let exceeding = EXCEEDED_SHARE * (packages + 1.0);
        let rank = usize::try_from(Bytes::from_f64(exceeding).0).unwrap_or(usize::MAX).max(1);
        let needed = self.shares.get(rank - 1).copied().unwrap_or(1.0);
        // the highest of few shares is exceeded more often than allowed
        let above = Deviation::UNKNOWN.alike * exceeding.min(1.0).recip().ln();
        EnoughShare { needed, enough: needed * above.exp2() }
    }

    /// The expected needs of a package with this preset; the preset itself counts as one further package.
    pub(super) fn expected_needs(&self, preset: Bytes) -> Distribution {
        let point = |share: f64| WeightedValue {
            rung: Rung::Fleet,
            log: (preset.as_f64() * share.min(1.0)).max(1.0).log2(),
            weight: 1.0,
            hours: self.hours,
            censored: false,
        };
        let points: Vec<WeightedValue> = self.shares.iter().copied().chain([1.0]).map(point).collect();
        Distribution::of(&points)
    }
}
