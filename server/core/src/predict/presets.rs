//! How much of their presets other packages needed, for a build with a preset whose package is unknown.
//!
//! Presets of one fleet are chosen in the same way: sizes of packages differ a hundredfold, while the highest share of a preset that is
//! needed is alike. The shares are those of the newest trusted attempts: of the stack and project of the build, or of its project, or of
//! the fleet, whichever is narrowest and has [`FEWEST_PACKAGES`].
//!
//! If packages can be exchanged for each other, the next one needs more than the `j`-th highest of `n` shares with a probability of
//! `j / (n + 1)` (Wilks 1941). Above the highest share the probability falls exponentially with the logarithm of the size (Weissman 1978).
//! If presets were too small before, and the operator set the price of a failure, fewer packages and the usual shares of presets count, too.

use std::collections::BTreeMap;

use super::{
    Settings,
    deviation::{Deviation, WeightedValue},
    distribution::Distribution,
    similar::{FEWEST_PACKAGES, is_same_package},
};
use crate::domain::{AttemptBrief, Bytes, History, Key, Rung, float};

/// Most attempts that are read.
const NEWEST: usize = 1000;
/// Most attempts that are read to find [`NEWEST`] with a preset.
const MOST_READ: usize = 20 * NEWEST;
/// Least probability that a build needs no more than its lowered preset.
pub(super) const COVERED_SHARE: f64 = 0.98;
/// Shares that count as one further package each: people ask for up to eight times the need.
const USUAL_SHARES: [f64; 4] = [1.0, 0.5, 0.25, 0.125];
/// Highest share that counts: a preset that was far too small shows nothing about others.
const HIGHEST_SHARE: f64 = 4.0;

/// The shares of their presets that packages needed.
#[derive(Debug)]
pub(super) struct PresetShares {
    /// The highest share of each package, highest first.
    shares: Vec<f64>,
    /// Mean wall time of the attempts in hours.
    hours: f64,
    pub(super) attempts: u32,
}

/// Whether the preset bounds sizes: not if the operator set the price of a failure, and presets were too small before.
pub(super) fn is_bound_by_preset(history: &History, settings: &Settings) -> bool {
    // those that ran at predicted sizes show nothing of presets
    let newest = history.newest_trusted().take(MOST_READ).filter_map(|brief| brief.share_of_preset());
    let is_free = settings.failure_price.is_some() && !settings.preset_is_most;
    settings.preset && !(is_free && newest.take(NEWEST).any(|share| share >= 1.0))
}

impl PresetShares {
    /// The shares of packages other than that of `key`; `None` if too few packages show one.
    pub(super) fn gather(history: &History, key: &Key, is_bound: bool) -> Option<Self> {
        let newest = history.newest_trusted().take(NEWEST);
        let others = newest.filter(|brief| !is_same_package(key, &brief.key));
        let shown: Vec<(&AttemptBrief, f64)> =
            others.filter_map(|brief| Some((brief.as_ref(), brief.share_of_preset()?))).collect();
        let is_project = |other: &Key| other.project == key.project;
        let is_stack = |other: &Key| is_project(other) && other.stack == key.stack;
        Self::of(&shown, FEWEST_PACKAGES, is_stack)
            .or_else(|| Self::of(&shown, FEWEST_PACKAGES, is_project))
            .or_else(|| Self::of(&shown, if is_bound { FEWEST_PACKAGES } else { 0 }, |_| true))
    }

    fn of(shown: &[(&AttemptBrief, f64)], fewest: usize, is_near: impl Fn(&Key) -> bool) -> Option<Self> {
        let (mut highest, mut hours, mut attempts) = (BTreeMap::new(), 0.0, 0_u32);
        for (brief, share) in shown.iter().filter(|(brief, _)| is_near(&brief.key)) {
            let package = highest.entry((&brief.key.project, &brief.key.package)).or_insert(*share);
            *package = share.max(*package);
            hours += brief.wall.hours();
            attempts += 1;
        }
        let mut shares: Vec<f64> = highest.into_values().collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        let is_enough = shares.len() >= fewest;
        is_enough.then(|| Self { shares, hours: hours / f64::from(attempts.max(1)), attempts })
    }

    /// The share of their presets that packages needed, but for those that may exceed a lowered preset; and the share that a further package
    /// needs at most with a probability of [`COVERED_SHARE`].
    pub(super) fn needed_and_enough(&self) -> [f64; 2] {
        let packages = f64::from(u32::try_from(self.shares.len()).unwrap_or(u32::MAX));
        let exceeding = (1.0 - COVERED_SHARE) * (packages + 1.0);
        let rank = usize::try_from(Bytes::from_f64(exceeding).0).unwrap_or(usize::MAX).max(1);
        let needed = self.shares.get(rank - 1).copied().unwrap_or(1.0);
        // the highest of few shares is exceeded more often than allowed
        let above = Deviation::UNKNOWN.alike * exceeding.min(1.0).recip().ln();
        [needed, needed * above.exp2()]
    }

    /// The expected needs of a package with this preset. If it bounds sizes, the preset itself counts as one further package.
    pub(super) fn expected_needs(&self, preset: Bytes, is_bound: bool) -> Distribution {
        let (highest, usual) = if is_bound { (1.0, 1) } else { (HIGHEST_SHARE, USUAL_SHARES.len()) };
        let point = |share: f64| WeightedValue {
            rung: Rung::Fleet,
            log: (preset.as_f64() * share.min(highest)).max(1.0).log2(),
            weight: 1.0,
            hours: self.hours,
            censored: false,
        };
        let shares = self.shares.iter().chain(USUAL_SHARES.iter().take(usual));
        let points: Vec<WeightedValue> = shares.copied().map(point).collect();
        let mut needs = Distribution::of(&points);
        needs.unseen = 1.0 / float(points.len() + 1);
        if is_bound { needs } else { needs.smoothed() }
    }
}
