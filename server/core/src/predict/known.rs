//! The confidence in a number, and how much each rung counts in CPU and time.
//!
//! The confidence in a prediction is the share of the next builds that are expected to stay within the memory limit. A configured default
//! has none, because it says nothing about the build. `replay` compares it with what was observed.
//!
//! CPU and time have a confidence of their own, from the attempts that have a value for them. Attempts that memory stopped prove that a
//! memory size was too small, and show nothing about CPU and time. So a build's memory may be well known while its CPU is still a default.

use super::similar::{WeightedAttempt, credibility_k, credibility_weight};
use crate::domain::{Rung, float};

/// Attempts of the same build after which a distribution is as far off as it is without any, times [`FEW_ALIKE_SLOPE`]. Chosen, with the
/// slope, by the likelihood of the first 40 % of Spack's CI at failure ceilings of 1 to 50 %; on the rest, bins of
/// confidence differ from what was observed by at most 10 points, those of more than a thousand builds by at most 4.
const FEW_ALIKE: f64 = 4.0;
/// Share of the logarithmic odds of a distribution that is left without attempts of the same build.
const FEW_ALIKE_SLOPE: f64 = 0.5;
/// Share of builds that CPU limits and times are enough for, where attempts show all of their values.
const USUAL_COVER: f64 = 0.99;
/// Bounds a share away from 0 and 1, where its odds would be infinite.
const LEAST_SHARE: f64 = 1e-4;

/// Attempts, by age, from which a rung counts in full beside wider ones of its package.
const ENOUGH_ATTEMPTS: f64 = 4.0;
/// Most attempts of wider rungs beside which one attempt counts as one.
const MOST_WIDER: f64 = 20.0;

/// The attempts of one rung.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownRung {
    pub(super) rung: Rung,
    /// Weight by age of the attempts that memory did not stop.
    pub(super) known: f64,
    /// The part of `known` from trusted attempts: others make no trusted attempt count less.
    pub(super) trusted: f64,
}

/// What the values of one quantity tell.
#[derive(Debug)]
pub(super) struct KnownValues {
    /// The rung that contributes most, and the confidence, 0 to 1; `None` if no attempt shows the number.
    pub(super) confidence: Option<(Rung, f64)>,
    /// The weight of each value.
    pub(super) weights: Vec<f64>,
    /// The share that remains unknown: 1 without attempts.
    pub(super) unknown: f64,
}

/// The share of the next builds that stay within a size that covers `covered` of a predicted distribution; `alike`: attempts of the same
/// build behind it. Few attempts do not show how far off the next one may be, so the odds of the distribution are flattened (Platt's
/// scaling, 1999, with a slope that grows with the attempts).
pub(super) fn share_that_fits(covered: f64, alike: usize) -> f64 {
    let covered = covered.clamp(LEAST_SHARE, 1.0 - LEAST_SHARE);
    let alike = float(alike);
    let slope = (alike + FEW_ALIKE * FEW_ALIKE_SLOPE) / (alike + FEW_ALIKE);
    1.0 / (1.0 + (covered / (1.0 - covered)).powf(-slope))
}

/// The number of attempts of the same build, but for its version, that memory did not stop.
pub(super) fn alike<'u, 'h: 'u>(attempts: impl Iterator<Item = &'u WeightedAttempt<'h>>) -> usize {
    attempts.filter(|used| used.rung >= Rung::NoVersion && !used.observation.censored).count()
}

/// Weighs attempts, most similar first, by their values (finite logarithms to base 2).
pub(super) fn of_values(telling: &[(&WeightedAttempt<'_>, f64)]) -> KnownValues {
    let sum = |rung: &[(&WeightedAttempt<'_>, f64)], untrusted: bool| {
        let counted = rung.iter().filter(|(used, _)| untrusted || !used.observation.brief.untrusted);
        counted.map(|(used, _)| used.freshness).sum::<f64>()
    };
    let of_rungs = || telling.chunk_by(|(a, _), (b, _)| a.rung == b.rung);
    let known_rung = |of: &[(&WeightedAttempt<'_>, f64)]| {
        let rung = of.first()?.0.rung;
        Some(KnownRung { rung, known: sum(of, true), trusted: sum(of, false) })
    };
    let rungs: Vec<KnownRung> = of_rungs().filter_map(known_rung).collect();
    let (shares, unknown) = pooled_shares(&rungs);
    let heaviest = shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((rung, _)) = heaviest.copied() else {
        return KnownValues { confidence: None, weights: Vec::new(), unknown: 1.0 };
    };
    let weights = of_rungs().zip(&rungs).zip(&shares).flat_map(|((of, rung), (_, share))| {
        let weight = share / rung.known.max(f64::MIN_POSITIVE);
        of.iter().map(move |(used, _)| weight * used.freshness)
    });
    let weights: Vec<f64> = weights.collect();
    let own = || telling.iter().map(|(used, _)| *used).filter(|used| used.rung.is_of_build());
    let confidence = if own().next().is_some() { share_that_fits(USUAL_COVER, alike(own())) } else { 0.0 };
    KnownValues { confidence: Some((rung, confidence)), weights, unknown }
}

/// Each rung's share of the weight in CPU and time, and the share that is unknown. `rungs`: most similar first.
///
/// Memory sizes follow attempts of a finer key at once, because too small a size ends builds. Here up to [`ENOUGH_ATTEMPTS`] of them count
/// about as one each beside the others of the package, so that one odd attempt moves no number by more than its share.
pub(super) fn pooled_shares(rungs: &[KnownRung]) -> (Vec<(Rung, f64)>, f64) {
    let mut shares = Vec::with_capacity(rungs.len());
    let (mut unknown, mut left, mut of_package) = (1.0, 1.0, 1.0);
    for (at, KnownRung { rung, known, .. }) in rungs.iter().enumerate() {
        let k = credibility_k(*rung);
        let wider = rungs.iter().skip(at + 1).filter(|wider| wider.rung >= Rung::Package);
        let wider: f64 = wider.map(|wider| wider.trusted).sum();
        let few = ((ENOUGH_ATTEMPTS - known) / (ENOUGH_ATTEMPTS - 1.0)).clamp(0.0, 1.0).powi(2);
        let share = credibility_weight(left, *known, k + few * (wider.min(MOST_WIDER) - k).max(0.0));
        left -= share;
        unknown -= credibility_weight(unknown, *known, k);
        if rung.is_of_build() {
            of_package = unknown;
        }
        shares.push((*rung, share));
    }
    // a larger `k` moves weight to wider rungs and leaves no more unknown; attempts of the package lower the default's weight, as for memory
    let taken = (1.0 - of_package + of_package * of_package) * (1.0 - left).max(f64::MIN_POSITIVE);
    let known = (1.0 - unknown) / taken;
    for (_, share) in &mut shares {
        *share *= known;
    }
    let unknown = 1.0 - shares.iter().fold(0.0, |all, (_, share)| all + share);
    (shares, unknown.max(0.0))
}

#[cfg(test)]
mod tests;
