//! How much of its bounds a caller uses. The time is passed in.
//!
//! Samples, bytes and queries are limited by a rate with a burst of one minute, because an agent
//! that was disconnected for hours delivers its spool at once. What the server stores for ever
//! (attempts, keys, labels) is limited by the hour, and each item is counted once.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::{BuildHasher as _, Hash, RandomState},
    net::IpAddr,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::bounds::{Bound, Bounds, ExceededBound};

/// Size of a burst, as time at the permitted rate.
const BURST_TIME: Duration = Duration::from_mins(1);
/// Period in which different items (attempts, keys, labels) are counted.
const COUNT_WINDOW: Duration = Duration::from_hours(1);
/// Suggested wait if it is unknown when a slot becomes free.
const CROWDED_WAIT: Duration = Duration::from_secs(30);
/// Suggested wait for slots that are held briefly.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Number of callers above which those without recent use are removed.
const MAX_IDLE_CALLERS: usize = 1024;

/// Random for each process: with a known hash, a caller could find many items with the same hash,
/// which would count as one.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The use of one caller, over all its tokens. Two identities that differ only in their use are
/// equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage(Arc<Mutex<UsageCounts>>);

impl PartialEq for Usage {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Usage {}

#[derive(Debug, Default)]
struct UsageCounts {
    streams: u64,
    waits: u64,
    connections: u64,
    calls: u64,
    verdicts: u64,
    open_attempts: u64,
    /// Concurrent calls by source address, of an anonymous caller. Addresses without calls are
    /// removed.
    calls_from: HashMap<IpAddr, u64>,
    /// The time at which the allowed rate makes up for all samples so far.
    samples: Option<Instant>,
    /// The same for bytes.
    bytes: Option<Instant>,
    /// The same for requests.
    queries: Option<Instant>,
    attempts: SeenItems,
    /// Build keys.
    keys: SeenItems,
    labels: SeenItems,
}

impl UsageCounts {
    /// Whether rates and hourly counts no longer restrict the caller, so that this entry may be
    /// removed.
    fn restricts_nothing(&self, now: Instant) -> bool {
        let is_paid = |paid: &Option<Instant>| paid.is_none_or(|paid| paid <= now);
        [self.samples, self.bytes, self.queries].iter().all(is_paid)
            && [&self.attempts, &self.keys, &self.labels].iter().all(|seen| seen.counted_for(now).is_zero())
    }

    /// Number of taken slots of this kind.
    fn slots_taken(&mut self, bound: Bound) -> &mut u64 {
        match bound {
            Bound::Calls => &mut self.calls,
            Bound::Waits => &mut self.waits,
            Bound::Connections => &mut self.connections,
            Bound::Verdicts => &mut self.verdicts,
            Bound::OpenAttempts => &mut self.open_attempts,
            _ => &mut self.streams,
        }
    }
}

/// Different items counted in the current hour, by their hash.
#[derive(Debug, Default)]
struct SeenItems {
    items: HashSet<u64, foldhash::fast::RandomState>,
    since: Option<Instant>,
}

impl SeenItems {
    /// Time until the current hour ends and the items no longer count.
    fn counted_for(&self, now: Instant) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| COUNT_WINDOW.saturating_sub(now.saturating_duration_since(since)))
    }
}

impl Usage {
    /// Whether the entry must be kept: an identity or a slot refers to it, or it still restricts
    /// the caller.
    fn is_needed(&self, now: Instant) -> bool {
        let is_held = Arc::strong_count(&self.0) > 1;
        is_held || !self.0.lock().unwrap_or_else(PoisonError::into_inner).restricts_nothing(now)
    }

    /// Takes `count` units from a rate.
    pub(super) fn take_rate(
        &self,
        bounds: &Bounds,
        bound: Bound,
        count: u64,
        now: Instant,
    ) -> Result<(), ExceededBound> {
        if count == 0 {
            return Ok(());
        }
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = match bound {
            Bound::Samples => &mut used.samples,
            Bound::Bytes => &mut used.bytes,
            _ => &mut used.queries,
        };
        let most = bounds.limit_of(bound);
        let cost =
            Duration::from_nanos(count.saturating_mul(1_000_000_000).checked_div(most).unwrap_or(u64::MAX));
        let from = paid.map_or(now, |paid| paid.max(now));
        // a message is accepted whenever at most a burst is used, even if it uses more than the
        // rest: its size is bounded
        let ahead = from.saturating_duration_since(now);
        if most == 0 || ahead > BURST_TIME {
            return Err(ExceededBound {
                bound,
                limit: most,
                retry_after: ahead.saturating_sub(BURST_TIME / 2),
            });
        }
        *paid = Some(from.checked_add(cost.min(BURST_TIME)).unwrap_or(from));
        Ok(())
    }

    /// Counts an item, once an hour. Refuses a new item if the limit of this hour is reached.
    pub(super) fn count_item(
        &self,
        bounds: &Bounds,
        bound: Bound,
        something: impl Hash,
        now: Instant,
    ) -> Result<(), ExceededBound> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = match bound {
            Bound::Attempts => &mut used.attempts,
            Bound::Keys => &mut used.keys,
            _ => &mut used.labels,
        };
        if seen.counted_for(now).is_zero() {
            *seen = SeenItems { items: HashSet::default(), since: Some(now) };
        }
        let (most, hash) = (bounds.limit_of(bound), HASHER.hash_one(something));
        if !seen.items.contains(&hash) && seen.items.len() as u64 >= most {
            return Err(ExceededBound { bound, limit: most, retry_after: seen.counted_for(now) });
        }
        seen.items.insert(hash);
        Ok(())
    }

    /// Takes a slot, which is freed when the result is dropped.
    pub(super) fn take_slot(&self, bounds: &Bounds, bound: Bound) -> Result<UsageSlot, ExceededBound> {
        self.take_slot_from(bounds, bound, None)
    }

    /// Takes a slot for a call of an anonymous caller from this address. Once half of the slots are
    /// taken, one address may hold at most a quarter of them, so that it cannot shut out others.
    pub(super) fn take_call_slot(&self, bounds: &Bounds, from: IpAddr) -> Result<UsageSlot, ExceededBound> {
        self.take_slot_from(bounds, Bound::Calls, Some(from))
    }

    fn take_slot_from(
        &self,
        bounds: &Bounds,
        bound: Bound,
        from: Option<IpAddr>,
    ) -> Result<UsageSlot, ExceededBound> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, most) = (*used.slots_taken(bound), bounds.limit_of(bound));
        let own = from.and_then(|from| used.calls_from.get(&from)).copied();
        let is_greedy = own.is_some_and(|own| taken >= most.div_ceil(2) && own >= most.div_ceil(4));
        if taken >= most || is_greedy {
            let is_short = matches!(bound, Bound::Calls | Bound::Verdicts);
            return Err(ExceededBound {
                bound,
                limit: most,
                retry_after: if is_short { BUSY_WAIT } else { CROWDED_WAIT },
            });
        }
        *used.slots_taken(bound) += 1;
        if let Some(from) = from {
            *used.calls_from.entry(from).or_default() += 1;
        }
        Ok(UsageSlot(Some(HeldSlot { usage: self.clone(), bound, from })))
    }
}

/// A taken slot, freed on drop. The default value holds none: the caller has no bounds.
#[derive(Debug, Default)]
pub(crate) struct UsageSlot(Option<HeldSlot>);

#[derive(Debug)]
struct HeldSlot {
    usage: Usage,
    bound: Bound,
    /// Source address, if the caller is anonymous.
    from: Option<IpAddr>,
}

impl Drop for UsageSlot {
    fn drop(&mut self) {
        let Some(HeldSlot { usage: Usage(used), bound, from }) = &self.0 else { return };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = used.slots_taken(*bound);
        *taken = taken.saturating_sub(1);
        if let Some(Entry::Occupied(mut own)) = from.map(|from| used.calls_from.entry(from)) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// The use of all callers, by name. A caller keeps its use when it changes its token, when the
/// access file is reloaded, and when it returns while its use still counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usages(Arc<Mutex<KnownCallers>>);

#[derive(Debug, Default)]
struct KnownCallers {
    by_name: HashMap<Arc<str>, Usage>,
    next_search_at: usize,
}

impl Usages {
    /// Number of known callers.
    pub(crate) fn callers(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_name.len()
    }

    /// The use of the caller with this name.
    pub(super) fn usage_of(&self, name: &Arc<str>, now: Instant) -> Usage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_name.len() >= known.next_search_at {
            known.by_name.retain(|_name, usage| usage.is_needed(now));
            known.next_search_at = known.by_name.len().saturating_mul(2).max(MAX_IDLE_CALLERS);
        }
        known.by_name.entry(Arc::clone(name)).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::bounds::BoundsTable;

    #[test]
    fn a_rate_allows_a_minutes_burst() {
        let (usage, start) = (Usage::default(), Instant::now());
        let bounds =
            BoundsTable { samples_per_second: Some(10), ..BoundsTable::default() }.or_default(Bounds::OF_JOB);
        let take =
            |count, at: u64| usage.take_rate(&bounds, Bound::Samples, count, start + Duration::from_secs(at));
        let taken = (0..2000).take_while(|_| take(1, 0).is_ok()).count();
        assert_eq!(taken, 601);
        let exceeded = take(1, 0).unwrap_err();
        let refused = exceeded.to_string();
        assert!(refused.contains("10 samples a second (bounds.samples_per_second"), "{refused}");
        assert!(take(1, exceeded.retry_after.as_secs() + 1).is_ok(), "there is room when it says so");
        assert!(take(1_000_000_000, 3600).is_ok(), "one message is taken, and paid for by a wait");
        assert!(take(1, 3600).is_err() || take(1, 3600).is_err());
        let none =
            BoundsTable { queries_per_second: Some(0), ..BoundsTable::default() }.or_default(Bounds::OF_JOB);
        assert!(usage.take_rate(&none, Bound::Queries, 1, start).is_err());
    }

    #[test]
    fn distinct_items_count_hourly_and_slots_while_held() {
        let (usage, start) = (Usage::default(), Instant::now());
        let bounds = BoundsTable { keys_per_hour: Some(2), streams: Some(1), ..BoundsTable::default() };
        let bounds = bounds.or_default(Bounds::OF_JOB);
        let note =
            |key: &str, at| usage.count_item(&bounds, Bound::Keys, key, start + Duration::from_secs(at));
        assert!(note("a", 0).is_ok() && note("b", 1).is_ok() && note("a", 2).is_ok());
        assert_eq!(note("c", 600).unwrap_err().retry_after, Duration::from_mins(50));
        assert!(note("c", 3600).is_ok());
        let first = usage.take_slot(&bounds, Bound::Streams).unwrap();
        assert_eq!(usage.take_slot(&bounds, Bound::Streams).unwrap_err().bound, Bound::Streams);
        assert!(usage.take_slot(&bounds, Bound::Calls).is_ok(), "each has places of its own");
        drop(first);
        assert!(usage.take_slot(&bounds, Bound::Streams).is_ok());
    }

    #[test]
    fn one_address_takes_at_most_half_the_calls() {
        let usage = Usage::default();
        let bounds = BoundsTable { calls: Some(8), ..BoundsTable::default() }.or_default(Bounds::OF_JOB);
        let call = |host: u8| usage.take_call_slot(&bounds, IpAddr::from([127, 0, 0, host]));
        let greedy: Vec<UsageSlot> = (0..20).map_while(|_| call(1).ok()).collect();
        assert_eq!(greedy.len(), 4, "half of them");
        let others: Vec<UsageSlot> = (2..9).filter_map(|host| call(host).ok()).collect();
        assert_eq!(others.len(), 4);
        drop((greedy, others));
        assert!(usage.0.lock().unwrap().calls_from.is_empty());
        assert!(call(1).is_ok());
    }

    #[test]
    fn usage_is_kept_per_caller_and_idle_pruned() {
        let usages = Usages::default();
        let now = Instant::now();
        let of = |name: &str| usages.usage_of(&name.into(), now);
        let (held, again, other) = (of("a"), of("a"), of("b"));
        assert!(Arc::ptr_eq(&held.0, &again.0) && !Arc::ptr_eq(&held.0, &other.0));
        for n in 0..10_000 {
            drop(of(&n.to_string()));
        }
        assert!(usages.callers() <= 2 * MAX_IDLE_CALLERS);
        assert!(Arc::ptr_eq(&held.0, &of("a").0));
    }

    #[test]
    fn hourly_usage_outlasts_a_callers_absence() {
        let (usages, start) = (Usages::default(), Instant::now());
        let bounds =
            BoundsTable { keys_per_hour: Some(1), ..BoundsTable::default() }.or_default(Bounds::OF_JOB);
        let after = |minutes: u64| start + Duration::from_mins(minutes);
        let note = |key: &str, minutes: u64| {
            let usage = usages.usage_of(&"a".into(), after(minutes));
            usage.count_item(&bounds, Bound::Keys, key, after(minutes)).is_ok()
        };
        let crowd = |minutes: u64| {
            for n in 0..3 * MAX_IDLE_CALLERS {
                drop(usages.usage_of(&n.to_string().into(), after(minutes)));
            }
        };
        assert!(note("one", 0));
        crowd(59);
        assert!(!note("two", 59), "a caller that was away has no more than one that stayed");
        crowd(60);
        assert!(!usages.0.lock().unwrap().by_name.contains_key("a"), "after its hour it is forgotten");
        assert!(note("two", 60));
    }

    #[test]
    fn usage_with_rate_debt_is_not_forgotten() {
        let (usages, start) = (Usages::default(), Instant::now());
        let usage = usages.usage_of(&"a".into(), start);
        usage.take_rate(&Bounds::OF_JOB, Bound::Queries, 20_000, start).unwrap();
        assert!(!usage.0.lock().unwrap().restricts_nothing(start + Duration::from_secs(9)));
        assert!(usage.0.lock().unwrap().restricts_nothing(start + Duration::from_secs(10)));
    }
}
