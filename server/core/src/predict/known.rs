//! Confidence in each number except memory, from the attempts that have a value for it. Attempts that memory stopped prove that a memory
//! size was too small, and show nothing about CPU and time. So a build's memory may be well known while its CPU is still a default.

use super::{
    similar::{WeightedAttempt, credibility_k, credibility_weight},
    words,
};
use crate::domain::Rung;

/// Distance from the mean, in standard deviations, that bounds the middle 80 % of a normal distribution.
const MIDDLE_DEVIATIONS: f64 = 1.28;

/// Confidence in one number of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NumberConfidence {
    /// The rung that contributes most.
    pub(super) rung: Rung,
    /// The confidence, 0 to 1; `None` if no attempt shows the number.
    pub(super) confidence: Option<f64>,
}

/// Computes the confidence from attempts and their values (finite logarithms to base 2). Also returns the share that remains unknown: 1
/// without attempts.
pub(super) fn of_values<'p, 'h: 'p>(
    telling: impl Iterator<Item = (&'p WeightedAttempt<'h>, f64)>,
) -> (NumberConfidence, f64) {
    let mut fresh = Rung::LADDER.map(|rung| (rung, 0.0));
    let (mut weight, mut sum, mut squares, mut uncensored) = (0.0, 0.0, 0.0, 0_usize);
    for (used, log) in telling {
        if let Some((_, fresh)) = fresh.iter_mut().find(|(rung, _)| *rung == used.rung) {
            *fresh += used.freshness;
        }
        weight += used.weight;
        sum += used.weight * log;
        squares += used.weight * log * log;
        uncensored += usize::from(!used.observation.censored);
    }
    if weight <= 0.0 {
        return (NumberConfidence { rung: Rung::Default, confidence: None }, 1.0);
    }
    let deviation = (squares / weight - (sum / weight).powi(2)).max(0.0).sqrt();
    let width = (MIDDLE_DEVIATIONS * deviation).exp2() - (-MIDDLE_DEVIATIONS * deviation).exp2();
    let shares = shares(fresh);
    let heaviest = shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    let rung = heaviest.map_or(Rung::Default, |(rung, _)| *rung);
    let unknown = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
    (
        NumberConfidence { rung, confidence: Some(words::confidence(&shares, uncensored, width)) },
        unknown.max(0.0),
    )
}

/// Each rung's share of the total weight, most similar first. `fresh`: the summed weight of each rung's attempts by age.
fn shares(fresh: [(Rung, f64); Rung::LADDER.len()]) -> Vec<(Rung, f64)> {
    let mut shares = Vec::with_capacity(fresh.len());
    let (mut left, mut of_package) = (1.0, 1.0);
    for (rung, fresh) in fresh.into_iter().filter(|(_, fresh)| *fresh > 0.0) {
        let share = credibility_weight(left, fresh, credibility_k(rung));
        left -= share;
        if rung.is_of_build() {
            of_package = left;
        }
        shares.push((rung, share));
    }
    // attempts of the package lower the weight of the default, as for memory
    let taken = 1.0 - of_package + of_package * of_package;
    for (_, share) in &mut shares {
        *share /= taken;
    }
    shares
}

#[cfg(test)]
mod tests;
