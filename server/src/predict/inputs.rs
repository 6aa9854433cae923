//! Input size: what it explains of the need.
//!
//! Where a line through the logarithms (need against input bytes) explains a part of what attempts of the same package differ in,
//! their needs are shifted along it to the input that is asked about. Everything else stays: the attempts' own spread, and
//! how loudly the near ones speak (`pool`).

use super::pool::{Pool, Used};
use crate::domain::{Bytes, Key, Rung};

/// Attempts below which a line says nothing.
const FEWEST: f64 = 5.0;
/// Share of the variance that the line must explain before it is believed.
const EXPLAINED: f64 = 0.2;
/// A shift is at most this, as a logarithm to base 2: beyond a factor of 4 a line is a guess.
const FARTHEST: f64 = 2.0;

/// Shifts needs along the line, if there is one.
pub(super) fn adjust(pool: &mut Pool<'_>, key: &Key) {
    let Some(asked) = key.hints.input_bytes.filter(|bytes| *bytes > 0) else { return };
    let asked = Bytes(asked).as_f64().log2();
    let slope = slope(pool);
    if slope.abs() <= 0.0 {
        return;
    }
    for used in &mut pool.used {
        if let Some(had) = input(used) {
            used.need += (slope * (asked - had)).clamp(-FARTHEST, FARTHEST);
        }
    }
}

fn input(used: &Used<'_>) -> Option<f64> {
    (used.rung >= Rung::Package && !used.fact.input.is_nan()).then(|| f64::from(used.fact.input))
}

/// Least squares over the attempts that fitted.
fn slope(pool: &Pool<'_>) -> f64 {
    let points = || {
        pool.used.iter().filter(|used| !used.fact.censored).filter_map(|used| Some((input(used)?, used.need)))
    };
    let (count, x, y) =
        points().fold((0.0, 0.0, 0.0), |(n, x, y), point| (n + 1.0, x + point.0, y + point.1));
    if count < FEWEST {
        return 0.0;
    }
    let (x, y) = (x / count, y / count);
    let (xx, xy, yy) = points().fold((0.0, 0.0, 0.0), |(xx, xy, yy), (a, b)| {
        (xx + (a - x).powi(2), xy + (a - x) * (b - y), yy + (b - y).powi(2))
    });
    let explained = xy * xy > EXPLAINED * xx * yy && xx > 0.0;
    if explained { xy / xx } else { 0.0 }
}
