//! Corrects a quantile by how often it held: each earlier attempt is compared with what those before it would have predicted. A miss raises
//! the correction and a hit lowers it, so that in the long run the quantile holds for the share that it promises.
//!
//! The rule is the quantile tracker of Angelopoulos, Candes and Tibshirani, "Conformal PID control" (2023), of the family of adaptive
//! conformal inference (Gibbs and Candes, 2021). Its step is a multiple of the spread, so attempts that are all alike change nothing.

/// Number of the newest attempts that are walked.
const NEWEST: usize = 64;
/// Number of attempts from which the next one is predicted.
const FEWEST: usize = 4;
/// Step of the correction, as a multiple of the spread. Chosen with the quantile to start from and the shift of the fleet on the first 60 %
/// of a file of Spack's CI (18,973 rows), scored from its 20 % on: the 95 % time covers 95 % there.
const STEP: f64 = 0.3;
/// Shares between which the spread is measured: one standard deviation of a normal distribution below and above its mean.
const SPREAD: [f64; 2] = [0.16, 0.84];
/// Largest correction, octaves.
const MOST: f64 = 2.0;

/// What to add to the quantile at `base` so that it covers `share` of the values; `attempts`: logarithm and weight, oldest first.
pub(super) fn correction(
    attempts: impl ExactSizeIterator<Item = (f64, f64)>,
    [base, share]: [f64; 2],
) -> f64 {
    let skipped = attempts.len().saturating_sub(NEWEST);
    let mut sorted: Vec<(f64, f64)> = Vec::with_capacity(NEWEST);
    let mut correction: f64 = 0.0;
    for (log, weight) in attempts.skip(skipped) {
        if sorted.len() >= FEWEST {
            let [low, high, predicted] = quantiles(&sorted, [SPREAD[0], SPREAD[1], base]);
            let missed = if log > predicted + correction { share } else { share - 1.0 };
            correction = (correction + STEP * (high - low) / 2.0 * missed).clamp(-MOST, MOST);
        }
        let at = sorted.partition_point(|(other, _)| *other <= log);
        sorted.insert(at, (log, weight));
    }
    correction
}

/// The smallest values that cover the shares of the weight, which ascend.
fn quantiles<const N: usize>(sorted: &[(f64, f64)], shares: [f64; N]) -> [f64; N] {
    let all: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut values = sorted.iter();
    let (mut covered, mut last) = (0.0, 0.0);
    shares.map(|share| {
        // the tolerance absorbs the rounding of summed shares
        while covered < (share - 1e-9) * all {
            let Some((log, weight)) = values.next() else { break };
            (covered, last) = (covered + weight, *log);
        }
        last
    })
}
