//! How far apart builds of one key lie, as a logarithm to base 2.
//!
//! What was seen is mixed with what is usual, until enough was seen: a single attempt says nothing about it, and five that are
//! equal are no proof that the sixth will be.

use super::{pool::Pool, spread::Point};

/// What is usual before anything was seen, and how many attempts it counts as.
#[derive(Debug, Clone, Copy)]
struct Usual {
    deviation: f64,
    attempts: f64,
}

/// Builds of one key (Spack's CI: 0.25 of the peak in the median). Little, so that a key that repeats is soon believed to repeat.
const ALIKE: Usual = Usual { deviation: 0.32, attempts: 0.1 };
/// Jumps above all that was seen: after one attempt the next one needs more than 1.8 times as much in one case of ten, after five
/// more than 1.1 times (replayed on Spack's CI).
const JUMPS: Usual = Usual { deviation: 0.45, attempts: 0.5 };

/// Values on the logarithmic axis that lie closer are equal: far more than sums of a thousand values lose, and far less than a byte.
const ROUNDING: f64 = 1e-11;

/// Two readings of the same attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deviation {
    /// Of the next attempt, if it is like those that were seen.
    pub(super) alike: f64,
    /// Mean length of the jump, if it is not.
    pub(super) jump: f64,
}

impl Deviation {
    /// Before anything is known.
    pub(super) const UNKNOWN: Self = Self { alike: ALIKE.deviation, jump: JUMPS.deviation };

    /// From the points of the pool. Attempts that were stopped have no say.
    pub(super) fn of(pool: &Pool<'_>, points: &[Point]) -> Self {
        let Some(variance) = variance(points) else { return Self::UNKNOWN };
        let attempts: f64 = pool.used.iter().filter(|used| !used.fact.censored).map(|used| used.fresh).sum();
        let mixed = |usual: Usual| {
            let sum = variance * attempts + usual.deviation.powi(2) * usual.attempts;
            (sum / (attempts + usual.attempts)).sqrt()
        };
        Self { alike: mixed(ALIKE), jump: mixed(JUMPS) }
    }
}

/// Mean square distance from the mean of the same rung, since how far rungs lie apart is no news; of those above their mean alone
/// if that is less. A few that are far below say nothing about how far the next one may be above.
fn variance(points: &[Point]) -> Option<f64> {
    let (mut weight, mut all, mut heavy, mut above) = (0.0, 0.0, 0.0, 0.0);
    for rung in points.chunk_by(|a, b| a.rung == b.rung) {
        let fitted = || rung.iter().filter(|point| !point.censored);
        let (share, sum) =
            fitted().fold((0.0, 0.0), |(w, s), point| (w + point.weight, s + point.log * point.weight));
        let mean = sum / share;
        weight += share;
        for point in fitted() {
            let square = (point.log - mean).powi(2) * point.weight;
            all += square;
            // a mean is rounded: one value alone, or equal ones, are not above it
            if point.log > mean + ROUNDING {
                heavy += point.weight;
                above += square;
            }
        }
    }
    if weight <= 0.0 {
        return None;
    }
    let all = all / weight;
    Some(if heavy > 0.0 { all.min(above / heavy) } else { all })
}
