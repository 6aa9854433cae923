//! What each part of a key adds to the need: a variant, the first parts of the version, the compiler, the arch, the stack, the part of a
//! parallel job.
//!
//! Effects are learnt from the trusted attempts of the package that memory did not stop. Spread and weights of the attempts do not change.
//! Build jobs and input size are adjusted before.

mod effects;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod tests;
mod values;

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use self::{
    effects::Effects,
    values::{PartTable, Row},
};
use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{Bytes, Key, PartEffect, Rung, median};

/// Fewest configurations of a package from which effects are learnt, the asked one among them.
const FEWEST_CONFIGURATIONS: usize = 8;
/// Most configurations from which effects are learnt, the most similar and newest first. The work grows with their third power.
const MAX_CONFIGURATIONS: usize = 24;
/// Most keys whose parts are looked at, the most similar first. Needs of further ones are not moved.
const MAX_KEYS: usize = 96;
/// Attempts of exactly the key from which nothing is adjusted: they take nine tenths of the weight.
const ENOUGH_EXACT: usize = 5;
/// Largest shift, as a logarithm to base 2: a factor of 4, as for inputs.
const LARGEST_SHIFT: f64 = 2.0;
/// Least effect that is explained, as a logarithm to base 2: 10 %.
const LEAST_NAMED: f64 = 0.1375;
/// Most effects that are explained.
const MOST_NAMED: usize = 4;

/// Attempts with equal keys.
struct Configuration {
    row: Row,
    /// Sums over the attempts that effects are learnt from.
    weight: f64,
    need: f64,
}

/// Moves the needs of other configurations by what the parts of `key` add, if that is known.
pub(super) fn adjust_to_parts(similar: &mut SimilarAttempts<'_>, key: &Key) {
    let exact = similar.attempts.iter().filter(|used| used.rung == Rung::Exact && teaches(used)).count();
    if exact >= ENOUGH_EXACT {
        return;
    }
    let mut keys: HashMap<*const Key, usize, RandomState> = HashMap::default();
    let mut distinct: Vec<&Key> = Vec::new();
    for used in similar.attempts.iter().filter(|used| used.rung.is_of_build()) {
        let (key, at) = (&used.observation.brief.key, distinct.len());
        if *keys.entry(Arc::as_ptr(key)).or_insert(at) == at && at < MAX_KEYS {
            distinct.push(key);
        }
    }
    if distinct.len() + 1 < FEWEST_CONFIGURATIONS {
        return;
    }
    let mut table = PartTable::default();
    let asked = table.row(key);
    let rows: Vec<Row> = distinct.iter().map(|key| table.row(key)).collect();
    let row_of = |used: &WeightedAttempt<'_>| {
        keys.get(&Arc::as_ptr(&used.observation.brief.key)).and_then(|at| rows.get(*at))
    };
    let known = configurations(similar, row_of);
    let is_new = known.iter().all(|configuration| configuration.row != asked);
    if known.len() + usize::from(is_new) < FEWEST_CONFIGURATIONS {
        return;
    }
    let needs: Vec<f64> = known.iter().map(|one| one.need / one.weight).collect();
    let learnt: Vec<&Row> = known.iter().map(|one| &one.row).collect();
    let Some(effects) = Effects::learn(&learnt, &needs) else { return };
    let target = effects.of(&asked);
    let shifts: Vec<f64> =
        rows.iter().map(|row| (target - effects.of(row)).clamp(-LARGEST_SHIFT, LARGEST_SHIFT)).collect();
    for used in similar.attempts.iter_mut().filter(|used| used.rung.is_of_build()) {
        let at = keys.get(&Arc::as_ptr(&used.observation.brief.key));
        used.need += at.and_then(|at| shifts.get(*at)).copied().unwrap_or(0.0);
    }
    similar.parts = named(similar, &effects.contrasts(&learnt, &asked), &table, key);
}

/// Whether effects are learnt from the attempt.
fn teaches(used: &WeightedAttempt<'_>) -> bool {
    let seen = used.observation;
    !seen.censored && !seen.brief.untrusted && seen.incomplete.is_none() && used.need.is_finite()
}

/// The configurations of the attempts that effects are learnt from.
fn configurations<'r>(
    similar: &SimilarAttempts<'_>,
    row_of: impl Fn(&WeightedAttempt<'_>) -> Option<&'r Row>,
) -> Vec<Configuration> {
    let mut known: Vec<Configuration> = Vec::with_capacity(MAX_CONFIGURATIONS);
    for used in similar.attempts.iter().filter(|used| used.rung.is_of_build() && teaches(used)) {
        let Some(row) = row_of(used) else { continue };
        let (weight, need) = (used.freshness, used.freshness * used.need);
        let has_room = known.len() < MAX_CONFIGURATIONS;
        match known.iter_mut().find(|one| one.row == *row) {
            Some(one) => {
                one.weight += weight;
                one.need += need;
            }
            None if has_room => {
                known.push(Configuration { row: row.clone(), weight, need });
            }
            None => {}
        }
    }
    known
}

/// The effects of the asked key's parts that people should know, the largest first. `contrasts`: how much more each column of the table
/// makes it need than the other values of the column do.
fn named(
    similar: &SimilarAttempts<'_>,
    contrasts: &[(usize, f64)],
    table: &PartTable<'_>,
    key: &Key,
) -> Vec<PartEffect> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (column, part) in table.parts(key) {
        let Some((_, contrast)) = contrasts.iter().find(|(of, _)| *of == column) else { continue };
        let part = part.describe();
        match sums.iter_mut().find(|(other, _)| *other == part) {
            Some((_, sum)) => *sum += contrast,
            None => sums.push((part, *contrast)),
        }
    }
    sums.retain(|(_, sum)| sum.abs() >= LEAST_NAMED);
    sums.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    sums.truncate(MOST_NAMED);
    let needs = similar.of_package().filter(|used| teaches(used)).map(|used| used.need);
    let usual = median(needs.collect()).exp2();
    let effect = |(part, sum): (String, f64)| {
        let change = usual - usual * (-sum).exp2();
        PartEffect { part, needs_more: change > 0.0, change: Bytes::from_f64(change.abs()) }
    };
    sums.into_iter().map(effect).collect()
}
