//! Adjusts needs to the size of the input.
//!
//! A line is fitted to the logarithms of need and input bytes, over attempts with a similar input. If it explains part of their
//! differences, needs are shifted along it to the requested input. The spread of the needs and the attempts' weights do not change.

use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{Bytes, Key};

/// Fewest attempts to which a line is fitted.
const FEWEST_FOR_LINE: usize = 5;
/// Least share of the needs' variance that the line must explain.
const MIN_EXPLAINED: f64 = 0.2;
/// Ratio of input sizes, as a logarithm to base 2, at which an attempt has a quarter of the weight for the line: 19 %.
const NEAR_DISTANCE: f64 = 0.25;
/// Largest shift, as a logarithm to base 2: beyond a factor of 4 a line is a guess.
const LARGEST_SHIFT: f64 = 2.0;

/// Shifts the needs to the input size of `key` along the line, if there is one.
pub(super) fn adjust_to_input(similar: &mut SimilarAttempts<'_>, key: &Key) {
    let Some(asked) = key.hints.input_bytes.filter(|bytes| *bytes > 0) else { return };
    let asked = Bytes(asked).as_f64().log2();
    let slope = slope(similar, asked);
    if slope.abs() <= 0.0 {
        return;
    }
    for used in &mut similar.attempts {
        if let Some(had) = input_of(used) {
            used.need += (slope * (asked - had)).clamp(-LARGEST_SHIFT, LARGEST_SHIFT);
        }
    }
}

fn input_of(used: &WeightedAttempt<'_>) -> Option<f64> {
    (used.rung.is_of_build() && !used.observation.input.is_nan()).then(|| f64::from(used.observation.input))
}

/// Slope of the line, by weighted least squares over the uncensored attempts. Attempts with a near input weigh most: a line through all of
/// them would follow a few distant ones.
fn slope(similar: &SimilarAttempts<'_>, asked: f64) -> f64 {
    let points = || {
        let fitted = similar.attempts.iter().filter(|used| !used.observation.censored);
        fitted.filter_map(|used| {
            let had = input_of(used)?;
            let far = (had - asked) / NEAR_DISTANCE;
            Some(((1.0 + far * far).powi(-2), had, used.need))
        })
    };
    let (count, x, y) = points().fold((0.0, 0.0, 0.0), |(n, x, y), (w, a, b)| (n + w, x + w * a, y + w * b));
    if points().nth(FEWEST_FOR_LINE - 1).is_none() {
        return 0.0;
    }
    let (x, y) = (x / count, y / count);
    let (xx, xy, yy) = points().fold((0.0, 0.0, 0.0), |(xx, xy, yy), (w, a, b)| {
        (xx + w * (a - x).powi(2), xy + w * (a - x) * (b - y), yy + w * (b - y).powi(2))
    });
    let explained = xy * xy > MIN_EXPLAINED * xx * yy && xx > 0.0;
    if explained { xy / xx } else { 0.0 }
}
