//! How much one caller may do, and how much of that he has done. Pure: the moment comes from outside.
//!
//! What is sent and asked has a rate, with a minute's worth at once: an agent that was cut off for hours delivers what it kept. What
//! makes the server remember something for ever (attempts, keys, labels) is counted by the hour, each once.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    hash::{BuildHasher as _, Hash},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use serde::Deserialize;
use tokio::time::Instant;

/// How much of a rate may come at once.
const AT_ONCE: Duration = Duration::from_mins(1);
/// The time for which different things are counted.
const WINDOW: Duration = Duration::from_hours(1);
/// When to come back where nothing says when there is room.
const CROWDED: Duration = Duration::from_secs(30);
/// Callers that are looked through at least before those that are gone are forgotten.
const CALLERS: usize = 1024;

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Streams,
    Samples,
    Bytes,
    Queries,
    Attempts,
    Keys,
    Labels,
}

impl Bound {
    /// Its name in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Samples => "samples",
            Self::Bytes => "bytes",
            Self::Queries => "queries",
            Self::Attempts => "attempts",
            Self::Keys => "keys",
            Self::Labels => "labels",
        }
    }
}

/// How much one caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    streams: u64,
    samples_per_second: u64,
    bytes_per_second: u64,
    queries_per_second: u64,
    attempts_per_hour: u64,
    keys_per_hour: u64,
    labels_per_hour: u64,
}

impl Bounds {
    /// A job's token: some commands at once, each with a sample a second, and a generate job's thousands of questions.
    pub(super) const OF_JOB: Self = Self {
        streams: 64,
        samples_per_second: 1_000,
        bytes_per_second: 256 * 1024,
        queries_per_second: 2_000,
        attempts_per_hour: 1_000,
        keys_per_hour: 1_000,
        labels_per_hour: 2_000,
    };
    /// A token that many runners share: what a fleet of ten thousand builds sends.
    pub(super) const OF_FLEET: Self = Self {
        streams: 20_000,
        samples_per_second: 100_000,
        bytes_per_second: 32 * 1024 * 1024,
        queries_per_second: 20_000,
        attempts_per_hour: 100_000,
        keys_per_hour: 100_000,
        labels_per_hour: 100_000,
    };

    fn of(&self, bound: Bound) -> u64 {
        match bound {
            Bound::Streams => self.streams,
            Bound::Samples => self.samples_per_second,
            Bound::Bytes => self.bytes_per_second,
            Bound::Queries => self.queries_per_second,
            Bound::Attempts => self.attempts_per_hour,
            Bound::Keys => self.keys_per_hour,
            Bound::Labels => self.labels_per_hour,
        }
    }
}

/// What a file says of them; what is not there is as usual.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BoundsTable {
    streams: Option<u32>,
    samples_per_second: Option<u32>,
    bytes_per_second: Option<u32>,
    queries_per_second: Option<u32>,
    attempts_per_hour: Option<u32>,
    keys_per_hour: Option<u32>,
    labels_per_hour: Option<u32>,
}

impl BoundsTable {
    pub(super) fn or(self, usual: Bounds) -> Bounds {
        let or = |said: Option<u32>, usual: u64| said.map_or(usual, u64::from);
        Bounds {
            streams: or(self.streams, usual.streams),
            samples_per_second: or(self.samples_per_second, usual.samples_per_second),
            bytes_per_second: or(self.bytes_per_second, usual.bytes_per_second),
            queries_per_second: or(self.queries_per_second, usual.queries_per_second),
            attempts_per_hour: or(self.attempts_per_hour, usual.attempts_per_hour),
            keys_per_hour: or(self.keys_per_hour, usual.keys_per_hour),
            labels_per_hour: or(self.labels_per_hour, usual.labels_per_hour),
        }
    }
}

/// A caller would go beyond a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) bound: Bound,
    pub(crate) most: u64,
    /// When there is room again.
    pub(crate) after: Duration,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, setting) = match self.bound {
            Bound::Streams => ("streams at once", "streams"),
            Bound::Samples => ("samples a second", "samples_per_second"),
            Bound::Bytes => ("bytes a second", "bytes_per_second"),
            Bound::Queries => ("questions a second", "queries_per_second"),
            Bound::Attempts => ("attempts an hour", "attempts_per_hour"),
            Bound::Keys => ("keys an hour", "keys_per_hour"),
            Bound::Labels => ("labels an hour", "labels_per_hour"),
        };
        let (most, after) = (self.most, self.after.as_secs().max(1));
        write!(
            f,
            "this caller may have {most} {what} (bounds.{setting} of the file of access); come back in {after} s"
        )
    }
}

/// What one caller has done, under whichever of his tokens. What somebody has used is no part of who he is: all are equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage(Arc<Mutex<Used>>);

impl PartialEq for Usage {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Usage {}

#[derive(Debug, Default)]
struct Used {
    streams: u64,
    /// When what was taken is paid for.
    samples: Option<Instant>,
    bytes: Option<Instant>,
    queries: Option<Instant>,
    attempts: Seen,
    keys: Seen,
    labels: Seen,
}

/// Different things, by their hash.
#[derive(Debug, Default)]
struct Seen {
    all: HashSet<u64, foldhash::fast::FixedState>,
    since: Option<Instant>,
}

impl Usage {
    /// Takes `count` of a rate.
    pub(super) fn take(
        &self,
        bounds: &Bounds,
        bound: Bound,
        count: u64,
        now: Instant,
    ) -> Result<(), Exceeded> {
        if count == 0 {
            return Ok(());
        }
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = match bound {
            Bound::Samples => &mut used.samples,
            Bound::Bytes => &mut used.bytes,
            _ => &mut used.queries,
        };
        let most = bounds.of(bound);
        let cost =
            Duration::from_nanos(count.saturating_mul(1_000_000_000).checked_div(most).unwrap_or(u64::MAX));
        let from = paid.map_or(now, |paid| paid.max(now));
        // whatever is sent at once after a pause is taken: it is bounded by the size of a message
        let ahead = from.saturating_duration_since(now);
        if most == 0 || ahead > AT_ONCE {
            return Err(Exceeded { bound, most, after: ahead.saturating_sub(AT_ONCE / 2) });
        }
        *paid = Some(from.checked_add(cost.min(AT_ONCE)).unwrap_or(from));
        Ok(())
    }

    /// Takes note of something, unless it is one too many of this hour.
    pub(super) fn note(
        &self,
        bounds: &Bounds,
        bound: Bound,
        something: impl Hash,
        now: Instant,
    ) -> Result<(), Exceeded> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { all, since } = match bound {
            Bound::Attempts => &mut used.attempts,
            Bound::Keys => &mut used.keys,
            _ => &mut used.labels,
        };
        let began = *since.get_or_insert(now);
        let left = WINDOW.saturating_sub(now.saturating_duration_since(began));
        if left.is_zero() {
            (*all, *since) = (HashSet::default(), Some(now));
        }
        let (most, hash) = (bounds.of(bound), foldhash::fast::FixedState::default().hash_one(something));
        if !all.contains(&hash) && all.len() as u64 >= most {
            return Err(Exceeded { bound, most, after: left });
        }
        all.insert(hash);
        Ok(())
    }

    /// A place for a stream, until it is dropped.
    pub(super) fn stream(&self, bounds: &Bounds) -> Result<Place, Exceeded> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.streams >= bounds.streams {
            return Err(Exceeded { bound: Bound::Streams, most: bounds.streams, after: CROWDED });
        }
        used.streams += 1;
        Ok(Place(Some(self.clone())))
    }
}

/// The place of a stream; of none, where nothing is bounded.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<Usage>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Usage(used)) = &self.0 {
            let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
            used.streams = used.streams.saturating_sub(1);
        }
    }
}

/// What all callers have done that are there, by their names: a caller with another token, or after a reload, is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usages(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<Arc<str>, Weak<Mutex<Used>>>,
    look_at: usize,
}

impl Usages {
    /// That of this caller.
    pub(super) fn of(&self, name: &Arc<str>) -> Usage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_name.len() >= known.look_at {
            known.by_name.retain(|_name, used| used.strong_count() > 0);
            known.look_at = known.by_name.len().saturating_mul(2).max(CALLERS);
        }
        match known.by_name.entry(Arc::clone(name)) {
            Entry::Occupied(mut there) => Usage(there.get().upgrade().unwrap_or_else(|| {
                let used = Arc::default();
                there.insert(Arc::downgrade(&used));
                used
            })),
            Entry::Vacant(place) => {
                let used = Arc::default();
                place.insert(Arc::downgrade(&used));
                Usage(used)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_gives_a_minute_at_once_and_then_what_it_says() {
        let (usage, start) = (Usage::default(), Instant::now());
        let bounds =
            BoundsTable { samples_per_second: Some(10), ..BoundsTable::default() }.or(Bounds::OF_JOB);
        let take =
            |count, at: u64| usage.take(&bounds, Bound::Samples, count, start + Duration::from_secs(at));
        let taken = (0..2000).take_while(|_| take(1, 0).is_ok()).count();
        assert_eq!(taken, 601);
        let exceeded = take(1, 0).unwrap_err();
        assert!(
            exceeded.to_string().contains("10 samples a second (bounds.samples_per_second"),
            "{exceeded}"
        );
        assert!(take(1, exceeded.after.as_secs() + 1).is_ok(), "there is room when it says so");
        assert!(take(1_000_000_000, 3600).is_ok(), "one message is taken, and paid for by a wait");
        assert!(take(1, 3600).is_err() || take(1, 3600).is_err());
        let none = BoundsTable { queries_per_second: Some(0), ..BoundsTable::default() }.or(Bounds::OF_JOB);
        assert!(usage.take(&none, Bound::Queries, 1, start).is_err());
    }

    #[test]
    fn different_things_count_once_an_hour_and_streams_while_they_last() {
        let (usage, start) = (Usage::default(), Instant::now());
        let bounds = BoundsTable { keys_per_hour: Some(2), streams: Some(1), ..BoundsTable::default() };
        let bounds = bounds.or(Bounds::OF_JOB);
        let note = |key: &str, at| usage.note(&bounds, Bound::Keys, key, start + Duration::from_secs(at));
        assert!(note("a", 0).is_ok() && note("b", 1).is_ok() && note("a", 2).is_ok());
        assert_eq!(note("c", 600).unwrap_err().after, Duration::from_mins(50));
        assert!(note("c", 3600).is_ok());
        let first = usage.stream(&bounds).unwrap();
        assert_eq!(usage.stream(&bounds).unwrap_err().bound, Bound::Streams);
        drop(first);
        assert!(usage.stream(&bounds).is_ok());
    }

    #[test]
    fn a_caller_is_the_same_under_another_token_and_forgotten_when_he_is_gone() {
        let usages = Usages::default();
        let of = |name: &str| usages.of(&name.into());
        let (held, again, other) = (of("a"), of("a"), of("b"));
        assert!(Arc::ptr_eq(&held.0, &again.0) && !Arc::ptr_eq(&held.0, &other.0));
        for n in 0..10_000 {
            drop(of(&n.to_string()));
        }
        assert!(usages.0.lock().unwrap().by_name.len() <= 2 * CALLERS);
        assert!(Arc::ptr_eq(&held.0, &of("a").0));
    }
}
