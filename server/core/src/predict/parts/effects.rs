//! What each value of each part adds to the logarithm of the need.
//!
//! The need of a configuration is a mean, an effect for each of its values, and noise; effects are drawn from one normal distribution.
//! Their best linear unbiased predictions (Henderson 1975) are a ridge regression (Hoerl and Kennard 1970): effects with little evidence
//! stay near 0, and values that always occur together share theirs. How much effects vary, compared with the noise, is chosen by the error
//! for configurations that are left out (PRESS, Allen 1974), which one fit gives for all of them (Rasmussen and Williams 2006, 5.12). If
//! effects do not lower that error noticeably, none is used.
//!
//! A value that only one configuration has says nothing about others: its effect is 0, so a value unique to each attempt adds nothing.

use super::values::Row;
use crate::domain::float;

/// Variances of all parts together, as multiples of the noise, that are tried. Chosen on the older half of Spack's CI, where 4 alone, or 1
/// besides, are within 4 % of it.
const VARIANCES: [f64; 2] = [4.0, 16.0];
/// Variance of the mean, as a multiple of the noise.
const MEAN_VARIANCE: f64 = 10.0;
/// Least share of the error for configurations that are left out that effects must explain. Chosen on the same rows, where 0.1 has 2 % more
/// surplus and 0.3 has 8 % more.
const LEAST_GAIN: f64 = 0.05;
/// Mean square of the differences between configurations below which they are alike: repeated builds of one configuration differ by 3 %.
const ALIKE_SQUARE: f64 = 0.0018;

/// The effects of the values, for each column that has some.
#[derive(Debug)]
pub(super) struct Effects(Vec<(usize, Vec<f64>)>);

/// Weights of the configurations for one variance, and their errors if they are left out.
struct Fit {
    variance: f64,
    weights: Vec<f64>,
    error: f64,
}

impl Effects {
    /// Learns effects from configurations and their needs, as logarithms.
    pub(super) fn learn(rows: &[&Row], needs: &[f64]) -> Option<Self> {
        let count = float(needs.len());
        let mean = needs.iter().sum::<f64>() / count;
        let needs: Vec<f64> = needs.iter().map(|need| need - mean).collect();
        let squares: f64 = needs.iter().map(|need| need * need).sum();
        let columns = telling_columns(rows);
        if squares < ALIKE_SQUARE * count || columns.is_empty() {
            return None;
        }
        let alike = alike_values(&columns);
        let fits = VARIANCES.into_iter().filter_map(|all| fit(&alike, &needs, all / float(columns.len())));
        let best = fits.reduce(|best, other| if other.error < best.error { other } else { best })?;
        let by_mean = squares * (count / (count - 1.0)).powi(2);
        (best.error <= by_mean * (1.0 - LEAST_GAIN)).then(|| Self::of_weights(&columns, &best))
    }

    fn of_weights(columns: &[(usize, Vec<u16>)], fit: &Fit) -> Self {
        let effects = |values: &[u16]| {
            (0..=values.iter().copied().max().unwrap_or(0)).map(|value| effect(values, value, fit)).collect()
        };
        Self(columns.iter().map(|(column, values)| (*column, effects(values))).collect())
    }

    /// The sum of the effects of a configuration's values.
    pub(super) fn of(&self, row: &Row) -> f64 {
        self.0.iter().map(|(column, effects)| effect_in(effects, value_in(row, *column))).sum()
    }

    /// How much more the value of `asked` adds than the other values in `rows` do, for each column.
    pub(super) fn contrasts(&self, rows: &[&Row], asked: &Row) -> Vec<(usize, f64)> {
        let contrast = |(column, effects): &(usize, Vec<f64>)| {
            let own = value_in(asked, *column);
            let others = rows.iter().map(|row| value_in(row, *column)).filter(|value| *value != own);
            let (count, sum) =
                others.fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + effect_in(effects, value)));
            let effect = effect_in(effects, own);
            (count > 0.0 && effect.abs() > 0.0).then_some((*column, effect - sum / count))
        };
        self.0.iter().filter_map(contrast).collect()
    }
}

/// The effect of one value; 0 if one configuration alone has it.
fn effect(values: &[u16], value: u16, fit: &Fit) -> f64 {
    let weights =
        values.iter().zip(&fit.weights).filter(|(other, _)| **other == value).map(|(_, weight)| weight);
    if weights.clone().count() > 1 { weights.sum::<f64>() * fit.variance } else { 0.0 }
}

fn value_in(row: &Row, column: usize) -> u16 {
    row.get(column).copied().unwrap_or(0)
}

fn effect_in(effects: &[f64], value: u16) -> f64 {
    effects.get(usize::from(value)).copied().unwrap_or(0.0)
}

/// The columns in which configurations differ and some are alike, each with the values of all configurations. Of columns that differ in the
/// same configurations, the first.
fn telling_columns(rows: &[&Row]) -> Vec<(usize, Vec<u16>)> {
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut telling: Vec<(usize, Vec<u16>)> = Vec::new();
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    for column in 0..width {
        let values: Vec<u16> = rows.iter().map(|row| value_in(row, column)).collect();
        // where each value occurred first is the same for columns that differ in the same configurations
        let first = |value: &u16| values.iter().position(|other| other == value).unwrap_or(0);
        let shape: Vec<usize> = values.iter().map(first).collect();
        let distinct = shape.iter().enumerate().filter(|(at, first)| at == *first).count();
        if distinct > 1 && distinct < rows.len() && !shapes.contains(&shape) {
            shapes.push(shape);
            telling.push((column, values));
        }
    }
    telling
}

/// How many values each two configurations have in common. With itself, a configuration has those in common that another one has, too.
fn alike_values(columns: &[(usize, Vec<u16>)]) -> Vec<Vec<f64>> {
    let count = columns.first().map_or(0, |(_, values)| values.len());
    let mut alike = vec![vec![0.0; count]; count];
    for (_, values) in columns {
        for (at, (row, value)) in alike.iter_mut().zip(values).enumerate() {
            let is_shared = values.iter().enumerate().any(|(other, of)| of == value && other != at);
            for (sum, other) in row.iter_mut().zip(values) {
                *sum += f64::from(u8::from(is_shared && other == value));
            }
        }
    }
    alike
}

/// Fits effects with a variance of `variance` noises for each part.
fn fit(alike: &[Vec<f64>], needs: &[f64], variance: f64) -> Option<Fit> {
    let covariance = alike.iter().enumerate().map(|(at, row)| {
        let noise = |other: usize| if other == at { 1.0 } else { 0.0 };
        row.iter().enumerate().map(|(other, alike)| MEAN_VARIANCE + variance * alike + noise(other)).collect()
    });
    let inverse = inverse(covariance.collect())?;
    let weights: Vec<f64> =
        inverse.iter().map(|row| row.iter().zip(needs).map(|(a, need)| a * need).sum()).collect();
    let left_out = inverse
        .iter()
        .zip(&weights)
        .enumerate()
        .filter_map(|(at, (row, weight))| Some((weight / row.get(at)?).powi(2)));
    let error: f64 = left_out.sum();
    error.is_finite().then_some(Fit { variance, weights, error })
}

/// The inverse of a positive definite matrix, by Gauss-Jordan elimination in place; `None` if it is none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for at in 0..matrix.len() {
        let mut row = std::mem::take(matrix.get_mut(at)?);
        let pivot = std::mem::replace(row.get_mut(at)?, 1.0);
        if pivot <= 0.0 || pivot.is_nan() {
            return None;
        }
        for value in &mut row {
            *value /= pivot;
        }
        for other in matrix.iter_mut().filter(|other| !other.is_empty()) {
            let factor = std::mem::replace(other.get_mut(at)?, 0.0);
            other.iter_mut().zip(&row).for_each(|(value, by)| *value -= factor * by);
        }
        *matrix.get_mut(at)? = row;
    }
    Some(matrix)
}
