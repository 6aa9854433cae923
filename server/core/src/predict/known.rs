//! How much each rung counts in confidence, CPU and time, and the confidence in each number except memory, from the attempts that have a
//! value for it. Attempts that memory stopped prove that a memory size was too small, and show nothing about CPU and time. So a build's
//! memory may be well known while its CPU is still a default.

use super::{
    odd,
    similar::{WeightedAttempt, credibility_k, credibility_weight},
    words,
};
use crate::domain::Rung;

/// Distance from the mean, in standard deviations, that bounds the middle 80 % of a normal distribution.
const MIDDLE_DEVIATIONS: f64 = 1.28;

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

/// Confidence in one number of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NumberConfidence {
    /// The rung that contributes most.
    pub(super) rung: Rung,
    /// The confidence, 0 to 1; `None` if no attempt shows the number.
    pub(super) confidence: Option<f64>,
}

/// What the values of one quantity tell.
#[derive(Debug)]
pub(super) struct KnownValues {
    pub(super) confidence: NumberConfidence,
    /// The weight of each value.
    pub(super) weights: Vec<f64>,
    /// The share that remains unknown: 1 without attempts.
    pub(super) unknown: f64,
}

/// Weighs attempts, most similar first, by their values (finite logarithms to base 2).
pub(super) fn of_values(telling: &[(&WeightedAttempt<'_>, f64)]) -> KnownValues {
    let sum = |rung: &[(&WeightedAttempt<'_>, f64)], untrusted: bool| {
        let counted = rung.iter().filter(|(used, _)| untrusted || !used.observation.brief.untrusted);
        counted.map(|(used, _)| used.freshness).sum::<f64>()
    };
    let rungs = telling.chunk_by(|(a, _), (b, _)| a.rung == b.rung).filter_map(|of| {
        let rung = of.first()?.0.rung;
        Some(KnownRung { rung, known: sum(of, true), trusted: sum(of, false) })
    });
    let (shares, unknown) = pooled_shares(&rungs.collect::<Vec<_>>());
    let heaviest = shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((rung, _)) = heaviest.copied() else {
        let confidence = NumberConfidence { rung: Rung::Default, confidence: None };
        return KnownValues { confidence, weights: Vec::new(), unknown: 1.0 };
    };
    let weight_of = weight_of(&shares, &telling.iter().map(|(used, _)| *used));
    let weights: Vec<f64> = telling.iter().map(|(used, _)| weight_of(used)).collect();
    let width = |up_to: f64| {
        let counted = telling.iter().zip(&weights).filter(|((_, log), _)| *log <= up_to);
        let (weight, sum, squares) =
            counted.fold((0.0, 0.0, 0.0), |(all, sum, squares), ((_, log), weight)| {
                (all + weight, sum + weight * log, squares + weight * log * log)
            });
        let deviation = (squares / weight - (sum / weight).powi(2)).max(0.0).sqrt();
        (MIDDLE_DEVIATIONS * deviation).exp2() - (-MIDDLE_DEVIATIONS * deviation).exp2()
    };
    let width = odd::width_despite_highest(telling.iter().map(|(_, log)| *log), width);
    let uncensored = telling.iter().filter(|(used, _)| !used.observation.censored).count();
    let confidence = Some(words::confidence(&shares, uncensored, width));
    KnownValues { confidence: NumberConfidence { rung, confidence }, weights, unknown }
}

/// The weight of each of the `attempts`, from the shares of their rungs.
pub(super) fn weight_of<'u, 'h: 'u, A: Iterator<Item = &'u WeightedAttempt<'h>> + Clone>(
    shares: &[(Rung, f64)],
    attempts: &A,
) -> impl Fn(&WeightedAttempt<'_>) -> f64 + use<'u, 'h, A> {
    let of_rung = |(rung, share): &(Rung, f64)| {
        let fresh: f64 = attempts.clone().filter(|used| used.rung == *rung).map(|used| used.freshness).sum();
        (*rung, share / fresh.max(f64::MIN_POSITIVE))
    };
    let each: Vec<(Rung, f64)> = shares.iter().map(of_rung).collect();
    move |used| {
        let of_rung = each.iter().find(|(rung, _)| *rung == used.rung);
        of_rung.map_or(0.0, |(_, weight)| weight * used.freshness)
    }
}

/// Each rung's share of the weight in confidence, CPU and time, and the share that is unknown. `rungs`: most similar first.
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
