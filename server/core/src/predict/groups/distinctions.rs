//! Finds the recorded field that distinguishes groups of need, if there is one. Pure.
//!
//! Each field is scored by how well its value predicts the group (information gain divided by the entropy of the groups: Theil's
//! uncertainty coefficient), minus what a random field with as many values would score (Miller 1955). Rare values are ignored, so a field
//! with a different value for each attempt, such as commit or pipeline, never wins.

use std::borrow::Cow;

use crate::domain::{Distinction, float};

/// Least number of attempts with a value; rarer values are counted together as one.
const MIN_ATTEMPTS_OF_VALUE: usize = 3;
/// Least share of the groups' entropy that a field must explain.
const MIN_EXPLAINED: f64 = 0.4;
/// How far the score must be from that of a random field, in standard deviations (the G-test, Sokal and Rohlf 1981): with some twenty
/// fields, chance alone passes in one data set of a thousand.
const MIN_DEVIATIONS: f64 = 8.0;
/// Most values listed for a group.
const MAX_LISTED_VALUES: usize = 6;

/// A field of an attempt: its name and its value, which is empty if unknown.
pub type FieldValue<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The index of an attempt's group, and the attempt's fields. A field that only other attempts have is empty.
pub type GroupedAttempt<'a> = (usize, Vec<FieldValue<'a>>);

/// How often one value occurs in each group.
#[derive(Debug, Clone)]
struct ValueCounts<'a> {
    text: &'a str,
    by_group: Vec<usize>,
}

impl ValueCounts<'_> {
    fn count(&self) -> usize {
        self.by_group.iter().sum()
    }

    /// The group that most attempts with this value belong to (`None` in case of a tie), and the number of those attempts.
    fn main(&self) -> (Option<usize>, usize) {
        let most = self.by_group.iter().copied().max().unwrap_or(0);
        let mut places =
            self.by_group.iter().enumerate().filter(|(_, count)| **count == most).map(|(at, _)| at);
        let first = places.next();
        (first.filter(|_| places.next().is_none()), most)
    }
}

/// Finds the field that distinguishes the groups best; the first one in case of a tie. `asked`: the fields of the requested build.
pub fn find_distinction(
    groups: usize,
    attempts: &[GroupedAttempt<'_>],
    asked: &[FieldValue<'_>],
) -> Option<Distinction> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in attempts.iter().flat_map(|(_, fields)| fields) {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    let open = entropy((0..groups).map(|group| attempts.iter().filter(|(of, _)| *of == group).count()));
    let scored = names.into_iter().filter_map(|name| {
        let values = value_counts(groups, attempts, name);
        let answered = explained_share(&values, groups, open)?;
        Some((answered, name, values))
    });
    let (_, name, values) = scored.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    let right: usize = values.iter().map(|value| value.main().1).sum();
    let of_asked = asked.iter().find(|(field, _)| field == name);
    let value_of = |text: &str| values.iter().find(|value| value.text == text && !text.is_empty());
    Some(Distinction {
        field: name.to_owned(),
        values: (0..groups).map(|group| typical_values(&values, group)).collect(),
        accuracy: float(right) / float(attempts.len().max(1)),
        asked: of_asked.and_then(|(_, text)| value_of(text)).and_then(|value| value.main().0),
    })
}

/// The values of a field with their counts in each group; rare values are counted together under an empty text.
fn value_counts<'a>(groups: usize, attempts: &'a [GroupedAttempt<'_>], name: &str) -> Vec<ValueCounts<'a>> {
    let of = |fields: &'a [FieldValue<'_>]| {
        fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    };
    let mut all: Vec<(&str, usize)> = attempts.iter().map(|(group, fields)| (of(fields), *group)).collect();
    all.sort_unstable();
    let mut values: Vec<ValueCounts<'_>> = Vec::new();
    let mut rare = vec![0; groups];
    for alike in all.chunk_by(|a, b| a.0 == b.0) {
        let counts = |group: usize| alike.iter().filter(|(_, of)| *of == group).count();
        let counts: Vec<usize> = (0..groups).map(counts).collect();
        if alike.len() < MIN_ATTEMPTS_OF_VALUE {
            rare.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        } else if let Some((text, _)) = alike.first() {
            values.push(ValueCounts { text, by_group: counts });
        }
    }
    if rare.iter().sum::<usize>() > 0 {
        values.push(ValueCounts { text: "", by_group: rare });
    }
    values
}

/// The share of the groups' entropy that the values explain; `None` if it is too little or may be chance.
fn explained_share(values: &[ValueCounts<'_>], groups: usize, open: f64) -> Option<f64> {
    let count: f64 = values.iter().map(|value| float(value.count())).sum();
    if values.len() < 2 || open <= 0.0 || count <= 0.0 {
        return None;
    }
    let left: f64 = values
        .iter()
        .map(|value| entropy(value.by_group.iter().copied()) * float(value.count()) / count)
        .sum();
    let freedom = float((values.len() - 1) * (groups.saturating_sub(1)));
    let by_chance = freedom / (2.0 * count);
    let gain = open - left;
    let likely = 2.0 * count * gain <= freedom + MIN_DEVIATIONS * (2.0 * freedom).sqrt();
    let share = (gain - by_chance) / open;
    (share >= MIN_EXPLAINED && !likely).then_some(share)
}

/// Entropy of a distribution given as counts, in nats.
fn entropy(counts: impl Iterator<Item = usize> + Clone) -> f64 {
    let all: f64 = counts.clone().map(float).sum();
    counts.filter(|count| *count > 0).map(|count| float(count) / all).map(|share| -share * share.ln()).sum()
}

/// The values that most often belong to this group, those with most attempts first.
fn typical_values(values: &[ValueCounts<'_>], group: usize) -> Vec<String> {
    let count = |value: &ValueCounts<'_>| value.by_group.get(group).copied().unwrap_or(0);
    let mut own: Vec<&ValueCounts<'_>> =
        values.iter().filter(|value| value.main().0 == Some(group) && !value.text.is_empty()).collect();
    own.sort_by(|a, b| count(b).cmp(&count(a)).then_with(|| a.text.cmp(b.text)));
    own.into_iter().take(MAX_LISTED_VALUES).map(|value| value.text.to_owned()).collect()
}

#[cfg(test)]
mod tests;
