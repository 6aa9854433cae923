//! Several groups of need among the attempts that a prediction learns from.
//!
//! ```text
//! similar attempts -> split          needs of the most similar attempts: one group or several
//!                  -> distinctions   which field distinguishes the groups
//!                  -> words          describes them, and what the sizes cover
//! ```
//!
//! The prediction is not changed: it is the cheapest size over all groups. This module reports that there are groups.
//!
//! The cost is one sort of at most a few hundred needs and, if there are groups, one sort of the values of each field.

mod distinctions;
mod split;
#[cfg(test)]
mod tests;
mod words;

pub use distinctions::{FieldValue, GroupedAttempt, find_distinction};
pub(super) use split::NeedSplit;
pub use words::describe;

use std::collections::BTreeSet;

use super::similar::{SimilarAttempts, WeightedAttempt};
use crate::domain::{AttemptBrief, Bytes, Key, NeedGroup, NeedGroups, Phase, Summary};

/// Number of attempts from which wider rungs are not added.
const MIN_ATTEMPTS: usize = 10;

/// Least number of days on which attempts must have started before the time of day is compared. On fewer days, as in an import without
/// times, it would only reflect their order.
const MIN_DAYS: usize = 3;
/// Least number of days on which attempts must have started before the day of the week is compared, so that each day of the week occurred
/// twice.
const MIN_DAYS_FOR_WEEKDAY: usize = 14;
/// Suffix of the names of fields about time.
const UTC_SUFFIX: &str = " (UTC)";
const WEEKDAY: &str = "day of week (UTC)";

/// Hours of one part of a day.
const PART_OF_DAY: u64 = 6;

/// Attempts that fall into groups of need, and the groups.
#[derive(Debug)]
pub(super) struct FoundGroups<'p, 'h> {
    /// Each attempt, with the index of its group.
    pub(super) members: Vec<(usize, &'p WeightedAttempt<'h>)>,
    /// The groups themselves.
    pub(super) groups: NeedGroups,
}

/// Finds groups among the most similar successful attempts of the package; `None` if there is one group, or too few attempts.
pub(super) fn find<'p, 'h>(similar: &'p SimilarAttempts<'h>, key: &Key) -> Option<FoundGroups<'p, 'h>> {
    let used = oldest_first(similar);
    let needs: Vec<LogNeed<'_>> = used.iter().map(|used| (used.need, &*used.observation.brief)).collect();
    let (groups, places) = among(&needs, &fields_of_key(key))?;
    Some(FoundGroups { members: places.into_iter().zip(used).collect(), groups })
}

/// A need as a finite logarithm to base 2 of bytes, with its attempt.
pub type LogNeed<'b> = (f64, &'b AttemptBrief);

/// Finds groups among attempts, and returns them with each attempt's group index; `None` if there is one group. `asked`: the fields of the
/// requested key.
pub fn among(oldest_first: &[LogNeed<'_>], asked: &[FieldValue<'_>]) -> Option<(NeedGroups, Vec<usize>)> {
    let needs: Vec<f64> = oldest_first.iter().map(|(need, _)| *need).collect();
    let split = NeedSplit::of(&needs)?;
    let places: Vec<usize> = needs.iter().map(|need| split.group_of(*need)).collect();
    let of_group = |group| needs.iter().copied().filter(|need| split.group_of(*need) == group).collect();
    let mut grouped: Vec<GroupedAttempt<'_>> =
        places.iter().zip(oldest_first).map(|(place, (_, brief))| (*place, fields_of(brief))).collect();
    keep_long_times(&mut grouped, oldest_first.iter().map(|(_, brief)| brief.started_unix_ms));
    let groups = NeedGroups {
        groups: (0..split.count()).map(|group| summed(of_group(group), needs.len())).collect(),
        told_apart_by: find_distinction(split.count(), &grouped, asked),
        unrecorded: unrecorded(&grouped),
        looked_at_all: false,
    };
    Some((groups, places))
}

/// Successful attempts of the package, added rung by rung until they suffice, ordered by time.
fn oldest_first<'p, 'h>(similar: &'p SimilarAttempts<'h>) -> Vec<&'p WeightedAttempt<'h>> {
    let mut taken: Vec<&WeightedAttempt<'_>> = Vec::with_capacity(similar.attempts.len());
    let mut rungs = 0;
    for rung in similar.attempts.chunk_by(|a, b| a.rung == b.rung) {
        if taken.len() >= MIN_ATTEMPTS {
            break;
        }
        let fitted = |used: &&WeightedAttempt<'_>| {
            let counts = !used.observation.censored && !used.observation.brief.untrusted;
            counts && used.rung.is_of_build() && used.need.is_finite()
        };
        taken.extend(rung.iter().filter(fitted));
        rungs += 1;
    }
    taken.reverse();
    if rungs > 1 {
        taken.sort_by_key(|used| used.observation.brief.ended_unix_ms());
    }
    taken
}

fn summed(mut needs: Vec<f64>, all: usize) -> NeedGroup {
    needs.sort_unstable_by(f64::total_cmp);
    let bytes = |need: Option<&f64>| need.map_or(Bytes(0), |need| Bytes::from_f64(need.exp2()));
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    NeedGroup {
        attempts: count(needs.len()),
        share: f64::from(count(needs.len())) / f64::from(count(all.max(1))),
        need: [bytes(needs.first()), bytes(needs.get(needs.len() / 2)), bytes(needs.last())],
    }
}

/// Removes time fields if the attempts started on too few days.
pub fn keep_long_times(grouped: &mut [GroupedAttempt<'_>], started_unix_ms: impl Iterator<Item = u64>) {
    let days: BTreeSet<u64> = started_unix_ms.map(|started| started / 86_400_000).collect();
    let is_kept = |name: &str| match days.len() {
        ..MIN_DAYS => !name.ends_with(UTC_SUFFIX),
        MIN_DAYS..MIN_DAYS_FOR_WEEKDAY => name != WEEKDAY,
        _ => true,
    };
    for (_, fields) in grouped {
        fields.retain(|(name, _)| is_kept(name));
    }
}

/// The fields of an attempt that are known from memory: its key without labels, and its time.
pub(crate) fn fields_of(brief: &AttemptBrief) -> Vec<FieldValue<'_>> {
    let mut fields = built_fields(&brief.key);
    fields.push(("build_jobs".into(), jobs(brief.jobs.into())));
    fields.extend(run_fields(brief.number.into(), brief.started_unix_ms));
    fields
}

/// The fields of an attempt that its summary on disk has, without its labels.
pub fn fields_of_summary(summary: &Summary) -> Vec<FieldValue<'_>> {
    let mut fields = fields_of_key(&summary.key);
    fields.push(("ref".into(), summary.key.git_ref.as_str().into()));
    fields.push(("owner".into(), summary.key.owner.as_str().into()));
    fields.push(("pool".into(), summary.opening.pool.as_str().into()));
    fields.extend(run_fields(summary.number, summary.started_unix_ms));
    let ran = |phase: &'_ Phase| (format!("phase {}", phase.name).into(), "ran".into());
    fields.extend(summary.phases.iter().map(ran));
    let highest = summary.peak_phase().map_or("", |phase| &phase.name);
    fields.push(("phase of the highest need".into(), highest.into()));
    fields
}

/// Fields for whether an attempt is a retry, and for its time.
fn run_fields<'a>(number: u32, started_unix_ms: u64) -> Vec<FieldValue<'a>> {
    let mut fields: Vec<FieldValue<'_>> =
        vec![("attempt".into(), if number > 1 { "a retry".into() } else { "the first".into() })];
    if started_unix_ms > 0 {
        let hours = started_unix_ms / 3_600_000;
        let hour = hours % 24;
        let from = hour / PART_OF_DAY * PART_OF_DAY;
        // the list starts with Thursday, because 1970-01-01 was one
        let days = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
        let day = usize::try_from(hours / 24 % 7).ok().and_then(|day| days.get(day));
        fields.push(("part of day (UTC)".into(), format!("{from:02} to {:02} h", from + PART_OF_DAY).into()));
        fields.push(("hour of day (UTC)".into(), format!("{hour:02} h").into()));
        fields.push((WEEKDAY.into(), day.copied().unwrap_or_default().into()));
    }
    fields
}

/// The fields of the requested key.
pub fn fields_of_key(key: &Key) -> Vec<FieldValue<'_>> {
    let mut fields = built_fields(key);
    fields.push(("build_jobs".into(), jobs(key.hints.build_jobs.unwrap_or(0))));
    fields
}

fn built_fields(key: &Key) -> Vec<FieldValue<'_>> {
    let others = [("build_system", key.build_system.as_str()), ("stack", &key.stack)];
    let texts = key.distinguishing_texts().into_iter().chain(others);
    texts.map(|(name, text)| (name.into(), text.into())).collect()
}

fn jobs<'a>(jobs: u32) -> std::borrow::Cow<'a, str> {
    if jobs == 0 { "".into() } else { format!("-j{jobs}").into() }
}

/// Names of fields that people may know about a build and that are empty in all attempts.
fn unrecorded(attempts: &[GroupedAttempt<'_>]) -> Vec<&'static str> {
    let is_known = |name: &&'static str| {
        let mut fields = attempts.iter().flat_map(|(_, fields)| fields);
        fields.any(|(field, value)| field == name && !value.is_empty())
    };
    ["version", "variants", "build_jobs"].into_iter().filter(|name| !is_known(name)).collect()
}
