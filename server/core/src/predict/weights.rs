//! How much each rung weighs, and so each attempt.
//!
//! All attempts of the package weigh the same, except that a rung that has proven to need something else than the wider rungs takes weight
//! from them ([`Credibility`]). The default gets what little is unknown. So one odd attempt counts as one, however similar its key is.
//!
//! For sizes, a rung whose needs are near those of the wider rungs takes the weight `n / (n + k)` at once: it shows where within the
//! usual range this key is, and cannot move a size far.

use super::{
    credibility::{Credibility, RungSums},
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::Rung;

/// Weight of attempts at which they get half of the weight: the `k` of the credibility `n / (n + k)` of Buehlmann (1967), for attempts of
/// the package beside the default, and of a rung beside wider ones with needs near its own (replayed: 0.3 to 1.5 are within 2 % of each
/// other on Spack's CI, 3 wastes 5 % more).
const CREDIBILITY_K: f64 = 0.7;
/// Like [`CREDIBILITY_K`] for rungs of other packages: they show what builds are like in general, not what this one needs.
const HALF_KNOWN_WIDE: f64 = 3.0;

/// Which rungs get more than the share of their attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RungWeights {
    /// Only those that have proven to differ: for the confidence, CPU and time.
    Pooled,
    /// Also those with needs near the wider rungs: for memory sizes.
    Near,
}

/// The part of the weight of its rung and all `wider` ones that a rung takes, 0 to 1. `known`: the weight of its attempts by age.
fn part_of(credibility: Credibility, known: f64, wider: f64, weights: RungWeights) -> f64 {
    let Credibility { proven, nearness, .. } = credibility;
    let pooled = proven + (1.0 - proven) * known / (known + wider);
    match weights {
        RungWeights::Pooled => pooled,
        RungWeights::Near => pooled + nearness * (known / (known + CREDIBILITY_K) - pooled).max(0.0),
    }
}

impl SimilarAttempts<'_> {
    /// Computes the share of each rung, and the weight of each attempt.
    pub(super) fn weigh(&mut self) {
        let of_one = |a: &WeightedAttempt<'_>, b: &WeightedAttempt<'_>| a.rung == b.rung;
        let rungs: Vec<RungSums> = self.attempts.chunk_by(of_one).map(RungSums::of).collect();
        let compare = |(at, here): (usize, &[WeightedAttempt<'_>])| {
            let wider = rungs.iter().skip(at + 1).fold(RungSums::default(), RungSums::plus);
            rungs.get(at).map_or(Credibility::NONE, |sums| Credibility::of(sums, here, &wider))
        };
        self.credibility = self.attempts.chunk_by(of_one).enumerate().map(compare).collect();
        let fitted: Vec<_> = rungs.iter().map(|sums| (sums.rung, sums.known)).collect();
        self.unknown_share = unknown_of(&fitted);
        let (sized, mut default) = self.shares_of(&fitted, self.unknown_share, RungWeights::Near);
        self.fitted_shares = self.shares_of(&fitted, self.unknown_share, RungWeights::Pooled).0;
        let rate = |shares: &[(Rung, f64)], sums: &RungSums| {
            let share = shares.iter().find(|(rung, _)| *rung == sums.rung);
            share.map(|(_, share)| share / sums.near_known)
        };
        let pooled: Vec<f64> =
            rungs.iter().map(|sums| rate(&self.fitted_shares, sums).unwrap_or(0.0)).collect();
        // attempts that memory stopped take weight from all others evenly, so each weighs as much as another one of its rung
        let known: f64 = rungs.iter().filter(|sums| sums.rung.is_of_build()).map(|sums| sums.known).sum();
        let stopped = (1.0 - default) / known;
        let mut rates: Vec<f64> = rungs.iter().map(|sums| rate(&sized, sums).unwrap_or(stopped)).collect();
        if known <= 0.0 {
            let all: Vec<_> = rungs.iter().map(|sums| (sums.rung, sums.all)).collect();
            let shares;
            (shares, default) = self.shares_of(&all, 1.0, RungWeights::Pooled);
            rates = shares.iter().zip(&rungs).map(|((_, share), sums)| share / sums.near).collect();
        }
        let total = rungs.iter().zip(&rates).fold(default, |total, (sums, rate)| total + sums.near * rate);
        for ((here, rate), pooled) in self.attempts.chunk_by_mut(of_one).zip(&rates).zip(pooled) {
            for used in here {
                used.weight = used.freshness * rate / total;
                used.pooled = used.freshness * pooled;
            }
        }
        self.default_share = default / total;
        self.shares =
            rungs.iter().zip(rates).map(|(sums, rate)| (sums.rung, sums.near * rate / total)).collect();
    }

    /// Each rung's share of the weight, most similar first, and the share of the default. `known`: the summed weight of each rung's attempts
    /// by age.
    ///
    /// The default is a guess, so its weight is multiplied by the `unknown` share a second time: it is two fifths after one attempt, and a
    /// fifteenth after ten, of what it would be otherwise.
    pub(super) fn shares_of(
        &self,
        known: &[(Rung, f64)],
        unknown: f64,
        weights: RungWeights,
    ) -> (Vec<(Rung, f64)>, f64) {
        let mut wider: f64 =
            known.iter().filter(|(rung, _)| rung.is_of_build()).map(|(_, known)| known).sum();
        let (mut left, mut others) = (1.0 - unknown_of(known), unknown_of(known));
        let mut shares = Vec::with_capacity(known.len());
        for (rung, known) in known.iter().filter(|(_, known)| *known > 0.0) {
            let from = if rung.is_of_build() { &mut left } else { &mut others };
            let part = if rung.is_of_build() {
                wider = (wider - known).max(0.0);
                let credibility = self.credibility.iter().find(|there| there.rung == *rung);
                part_of(credibility.copied().unwrap_or(Credibility::NONE), *known, wider, weights)
            } else {
                known / (known + HALF_KNOWN_WIDE)
            };
            shares.push((*rung, *from * part));
            *from -= *from * part;
        }
        let default = others * unknown;
        let taken = 1.0 - others + default;
        for (_, share) in &mut shares {
            *share /= taken;
        }
        (shares, default / taken)
    }
}

/// How little is known after attempts of the package with this total weight by age, from 1 (no attempt) towards 0.
pub(super) fn unknown_after(known: f64) -> f64 {
    CREDIBILITY_K / (known + CREDIBILITY_K)
}

/// How little is known of the package after attempts of these rungs, each with its total weight by age.
pub(super) fn unknown_of(known: &[(Rung, f64)]) -> f64 {
    unknown_after(known.iter().filter(|(rung, _)| rung.is_of_build()).map(|(_, known)| known).sum())
}
