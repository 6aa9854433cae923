//! The attempts of one trust tier (trusted or untrusted), limited in number and memory.

use std::{
    borrow::Borrow,
    collections::{HashSet, VecDeque},
    hash::{Hash, Hasher},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{
    super::{
        AttemptBrief, AttemptId, RungObservation,
        ladder::{Ladder, LadderLoader, place_of},
        weight,
    },
    jobs::{self, JobIndex},
};

/// Bytes that an attempt takes besides itself and the ladder: its entries by order and by id, its row in the statistics, and half of the
/// labels counted there.
const INDEX_BYTES: usize =
    size_of::<ById>() * 3 / 2 + weight::table_entry_bytes(size_of::<ById>()) + 56 + 4 + 16;

/// Capacity of a history. The first limit that is reached applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Most attempts that are kept; at least 1.
    pub attempts: usize,
    /// Most bytes of memory, estimated from the parts of each attempt. One attempt is always kept.
    pub bytes: usize,
}

impl HistoryLimits {
    pub(super) const fn divided_by(self, of: usize) -> Self {
        let attempts = self.attempts / of;
        Self { attempts: if attempts == 0 { 1 } else { attempts }, bytes: self.bytes / of }
    }
}

/// The attempts of one trust tier, in the order of their positions, by id, and by similarity.
#[derive(Debug)]
pub(super) struct TrustTier {
    pub(super) untrusted: bool,
    pub(super) limits: HistoryLimits,
    /// Bytes of the attempts, without the bytes that the ladder counts itself.
    bytes: usize,
    /// Position of the newest attempt that was evicted. Older ones are not added: if they had come first, they would be evicted too.
    evicted: Option<(u64, AttemptId)>,
    /// Oldest at the front.
    pub(super) newest_first: VecDeque<Arc<AttemptBrief>>,
    pub(super) by_id: HashSet<ById, RandomState>,
    pub(super) jobs: JobIndex,
    pub(super) ladder: Ladder,
}

/// An attempt that is hashed and compared by its id.
#[derive(Debug)]
pub(super) struct ById(Arc<AttemptBrief>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        self.0.attempt.as_str()
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<str>::borrow(self).hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.attempt == other.0.attempt
    }
}

impl Eq for ById {}

impl TrustTier {
    pub(super) fn new(room: HistoryLimits, untrusted: bool) -> Self {
        Self {
            untrusted,
            limits: room,
            bytes: 0,
            evicted: None,
            newest_first: VecDeque::new(),
            by_id: HashSet::default(),
            jobs: JobIndex::default(),
            ladder: Ladder::default(),
        }
    }

    /// Starts a bulk load of the `attempts` that belong to this tier. The tier must be empty.
    pub(super) fn begin_load(&mut self, attempts: &[RungObservation]) -> LadderLoader {
        let here = || attempts.iter().filter(|observation| observation.brief.untrusted == self.untrusted);
        let count = here().count();
        self.by_id.reserve(count);
        self.newest_first.reserve_exact(count);
        self.jobs.reserve(here().filter(|observation| observation.brief.job.is_some()).count());
        self.ladder.begin_load(here())
    }

    /// Adds an attempt that is older than all others, unless it is known or the tier is full.
    pub(super) fn learn_older(
        &mut self,
        bulk: &mut LadderLoader,
        observation: RungObservation,
    ) -> Option<Arc<AttemptBrief>> {
        if self.is_overfull() || self.by_id.contains(observation.brief.attempt.as_str()) {
            return None;
        }
        let brief = self.ladder.push_older(bulk, observation);
        self.newest_first.push_front(Arc::clone(&brief));
        self.index_attempt(&brief);
        Some(brief)
    }

    /// Adds an attempt, unless it is known or newer ones were evicted. [`Self::evict`] then makes the tier fit its limits again.
    pub(super) fn learn(&mut self, observation: RungObservation) -> Option<Arc<AttemptBrief>> {
        let (ended, attempt) = observation.brief.position();
        let is_too_old = self.evicted.as_ref().is_some_and(|(last, id)| (ended, attempt) <= (*last, id));
        if is_too_old || self.by_id.contains(attempt.as_str()) {
            return None;
        }
        let brief = self.ladder.push(observation);
        let at = place_of(&self.newest_first, |other| other, &brief);
        self.newest_first.insert(at, Arc::clone(&brief));
        self.index_attempt(&brief);
        Some(brief)
    }

    fn index_attempt(&mut self, brief: &Arc<AttemptBrief>) {
        self.bytes += bytes_of(brief);
        self.by_id.insert(ById(Arc::clone(brief)));
        self.jobs.add(brief);
    }

    /// Whether there are more attempts than the limits allow. One attempt is always allowed.
    fn is_overfull(&self) -> bool {
        let attempts = self.newest_first.len();
        attempts > 1 && (attempts > self.limits.attempts || self.bytes() > self.limits.bytes)
    }

    /// Removes and returns the oldest attempt if there are more than the limits allow.
    pub(super) fn evict(&mut self) -> Option<Arc<AttemptBrief>> {
        if !self.is_overfull() {
            return None;
        }
        let oldest = self.newest_first.pop_front()?;
        self.evicted = Some((oldest.ended_unix_ms(), oldest.attempt.clone()));
        self.bytes = self.bytes.saturating_sub(bytes_of(&oldest));
        self.by_id.remove(oldest.attempt.as_str());
        self.jobs.remove(&oldest);
        self.ladder.remove_oldest(&oldest);
        Some(oldest)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.ladder.bytes()
    }

    /// Replaces an attempt by one with the same key and position.
    pub(super) fn replace(&mut self, earlier: &Arc<AttemptBrief>, observation: RungObservation) {
        self.bytes = (self.bytes + bytes_of(&observation.brief)).saturating_sub(bytes_of(earlier));
        // all lists must hold the same pointer, because readers compare attempts by pointer
        let at = place_of(&self.newest_first, |other| other, earlier);
        if let Some(known) = self.newest_first.get_mut(at) {
            *known = Arc::clone(&observation.brief);
        }
        self.jobs.replace(earlier, &observation.brief);
        self.ladder.replace(earlier, &observation);
        self.by_id.replace(ById(observation.brief));
    }

    pub(super) fn remove(&mut self, known: &Arc<AttemptBrief>) {
        self.newest_first.remove(place_of(&self.newest_first, |other| other, known));
        self.bytes = self.bytes.saturating_sub(bytes_of(known));
        self.by_id.remove(known.attempt.as_str());
        self.jobs.remove(known);
        self.ladder.remove(known);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<AttemptBrief>> {
        self.by_id.get(id).map(|known| &known.0)
    }
}

/// Bytes that an attempt takes, without the bytes that the ladder counts.
pub fn bytes_of(brief: &AttemptBrief) -> usize {
    brief.allocated_bytes() + jobs::bytes_of(brief) + INDEX_BYTES
}
