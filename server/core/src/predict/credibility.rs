//! How much a rung's attempts have proven to need something else than those of wider rungs.
//!
//! Found by leaving one out (Stone 1974): how likely is each attempt by the others of its rung, and how likely by the wider rungs?

use super::similar::WeightedAttempt;
use crate::domain::Rung;

/// Usual deviation of the needs of one key, as a logarithm to base 2 (as in `deviation`), and the number of attempts that it counts as.
const USUAL_DEVIATION: f64 = 0.32;
const USUAL_ATTEMPTS: f64 = 0.5;

/// Attempts that prove nothing: the first of a rung is only a guess, and two more if they do not need more than the usual deviation above the
/// wider rungs, because too small a size fails builds, and too large a one costs memory.
const FIRST_ATTEMPTS: f64 = 1.0;
const FIRST_LOWER_ATTEMPTS: f64 = 3.0;
/// Evidence at which a rung takes half of the weight of the wider ones. Replayed: with half of it a package wastes a little less, and one
/// attempt far from the others lowers the confidence by more than a third.
const HALF_PROVEN: f64 = 1.0;
/// Root mean square distance from the wider rungs' mean, as a logarithm to base 2, up to which a rung's needs are near them (about 23 %).
/// Replayed on Spack's CI: 0.25 wastes 0.4 % more at 0.5 % failures.
const NEAR: f64 = 0.3;

/// Sums over the attempts of one rung, or of several.
#[derive(Debug, Clone, Copy)]
pub(super) struct RungSums {
    pub(super) rung: Rung,
    /// Weight of all attempts by age.
    pub(super) all: f64,
    /// Weight of all attempts by age and distance.
    pub(super) near: f64,
    /// The part of `all` from attempts that memory did not stop.
    pub(super) known: f64,
    /// The part of `near` from attempts that memory did not stop.
    pub(super) near_known: f64,
    /// Weighted sum of the needs of those attempts, and of their squares.
    sum: f64,
    squares: f64,
}

impl Default for RungSums {
    fn default() -> Self {
        Self { rung: Rung::Default, all: 0.0, near: 0.0, known: 0.0, near_known: 0.0, sum: 0.0, squares: 0.0 }
    }
}

impl RungSums {
    /// Sums over `attempts`, which are of one rung.
    pub(super) fn of(attempts: &[WeightedAttempt<'_>]) -> Self {
        let mut sums = Self::default();
        for used in attempts {
            sums.rung = used.rung;
            sums.all += used.age;
            sums.near += used.freshness;
            if !used.observation.censored {
                sums.near_known += used.freshness;
                sums = sums.with(used.age, used.need);
            }
        }
        sums
    }

    fn with(self, age: f64, need: f64) -> Self {
        Self {
            known: self.known + age,
            sum: self.sum + age * need,
            squares: self.squares + age * need * need,
            ..self
        }
    }

    /// The needs of both.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            known: self.known + other.known,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            ..self
        }
    }

    /// Fit of `need` to attempts like these, 0 to 1, and its density up to a constant: Student's t with three degrees of freedom.
    fn fit(&self, need: f64) -> [f64; 2] {
        let mean = self.sum / self.known;
        let squares = (self.squares - self.sum * mean).max(0.0) + USUAL_DEVIATION.powi(2) * USUAL_ATTEMPTS;
        let variance = squares / (self.known + USUAL_ATTEMPTS) * (1.0 + 1.0 / self.known);
        let fit = (1.0 + (need - mean).powi(2) / variance / 3.0).powi(-2);
        [fit, fit / variance.sqrt()]
    }

    /// Root mean square distance of these from the mean of the wider rungs, as a logarithm to base 2.
    fn distance(&self, wider: &Self) -> f64 {
        let mean = wider.sum / wider.known;
        ((self.squares - 2.0 * mean * self.sum) / self.known + mean * mean).max(0.0).sqrt()
    }

    /// The part of the weight that these `attempts` take from the `wider` rungs by what they have proven.
    ///
    /// Each attempt is evidence by how well the others of the rung foresee it, and how much better than the wider rungs do.
    fn proven(&self, attempts: &[WeightedAttempt<'_>], wider: &Self) -> f64 {
        if self.known <= 1.0 {
            return 0.0;
        }
        let mut evidence = 0.0;
        for used in attempts.iter().filter(|used| !used.observation.censored) {
            let [fit, own] = self.with(-used.age, used.need).fit(used.need);
            let [_, other] = wider.fit(used.need);
            evidence += used.age * fit * (own / (own + other)).powi(2);
        }
        let is_more = self.sum / self.known > wider.sum / wider.known + USUAL_DEVIATION;
        let not_counted = if is_more { FIRST_ATTEMPTS } else { FIRST_LOWER_ATTEMPTS };
        let proven = evidence * (1.0 - not_counted / self.known).max(0.0);
        proven / (proven + HALF_PROVEN)
    }
}

/// How a rung of the package compares with the wider ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credibility {
    pub(super) rung: Rung,
    /// The part of the weight that the rung takes from wider ones by what it has proven, 0 to 1.
    pub(super) proven: f64,
    /// 1 if its needs are near those of the wider rungs; less the further they are away.
    pub(super) nearness: f64,
}

impl Credibility {
    /// Nothing is known.
    pub(super) const NONE: Self = Self { rung: Rung::Default, proven: 0.0, nearness: 0.0 };

    /// Compares `attempts` of one rung, with their `sums`, with the `wider` rungs.
    pub(super) fn of(sums: &RungSums, attempts: &[WeightedAttempt<'_>], wider: &RungSums) -> Self {
        let none = Self { rung: sums.rung, ..Self::NONE };
        if !sums.rung.is_of_build() || wider.known <= 0.0 || sums.known <= 0.0 {
            return none;
        }
        let nearness = (NEAR / sums.distance(wider).max(NEAR)).powi(2);
        Self { proven: sums.proven(attempts, wider), nearness, ..none }
    }
}
