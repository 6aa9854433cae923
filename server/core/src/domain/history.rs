//! The attempts that a prediction may learn from, in memory and bounded.
//!
//! An attempt is stored in the order of arrival, by its id, and on each rung of the ladder. The list of a rung keeps the newest
//! [`History::PER_RUNG`]; the history keeps as many of the newest as [`HistoryLimits`] allow. The oldest is removed everywhere at once, so
//! that nothing leaks.
//!
//! Untrusted attempts are stored apart and never evict trusted ones, take the id of one, or change a sum.

mod jobs;
mod memory_ends;
#[cfg(test)]
mod tests;
mod tier;

use std::sync::Arc;

use self::memory_ends::{JudgedMemoryEnd, JudgedMemoryEnds};
pub(super) use jobs::LINEAGE_STEPS;
pub use tier::HistoryLimits;
use tier::TrustTier;
pub use tier::bytes_of;

use super::{
    AttemptBrief, AttemptId, Bytes, JobMark, Key, Outcome, RetryStatus, Rung, RungObservation, Verdict,
    ladder::PER_RUNG,
};

/// Attempts after which a list that is used up gives its memory back: some MB.
const GIVEN_BACK: usize = 1 << 16;

/// Untrusted attempts kept beside the trusted ones: one for so many of the capacity.
const UNTRUSTED_PART: usize = 16;

/// Finished attempts by id and by similarity.
#[derive(Debug)]
pub struct History {
    /// How often it has changed.
    changes: u64,
    trusted: TrustTier,
    untrusted: TrustTier,
    /// Of the trusted attempts that succeeded: those that were measured, and those with an incomplete need ([`Summary::incomplete`]).
    held_measured: HeldMemory,
    held_incomplete: HeldMemory,
    memory_ends: JudgedMemoryEnds,
    /// Highest need of a trusted attempt that succeeded, also of one that is no longer here; 0 without.
    highest: Bytes,
}

/// What attempts held.
#[derive(Debug, Clone, Copy, Default)]
struct HeldMemory {
    /// GiB x h of all of them.
    sum: f64,
    count: u32,
}

impl HeldMemory {
    /// Adds an attempt, or takes one away if `held` is negative.
    fn add(&mut self, held: f64) {
        let more = !held.is_sign_negative();
        self.count = if more { self.count.saturating_add(1) } else { self.count.saturating_sub(1) };
        // what rounding leaves behind must not outlive the last attempt
        self.sum = if self.count == 0 { 0.0 } else { (self.sum + held).max(0.0) };
    }

    /// Of one of them; 0 if there are none.
    fn mean(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / f64::from(self.count) }
    }
}

impl History {
    /// Newest attempts kept on one rung. More would only average over times long gone.
    pub const PER_RUNG: usize = PER_RUNG;

    /// An empty history of at most `capacity` trusted attempts (at least 1), and a sixteenth as many untrusted ones beside them.
    pub fn new(capacity: usize) -> Self {
        Self::with_room(HistoryLimits { attempts: capacity.max(1), bytes: usize::MAX })
    }

    /// An empty history of trusted attempts within `room`, and of untrusted ones within a sixteenth of it, whose bytes are a part of
    /// the bytes of all.
    pub fn with_room(room: HistoryLimits) -> Self {
        let untrusted = room.part(UNTRUSTED_PART);
        let trusted = HistoryLimits { bytes: room.bytes - untrusted.bytes, ..room };
        Self {
            changes: 0,
            trusted: TrustTier::new(trusted, false),
            untrusted: TrustTier::new(untrusted, true),
            held_measured: HeldMemory::default(),
            held_incomplete: HeldMemory::default(),
            highest: Bytes::default(),
            memory_ends: JudgedMemoryEnds::default(),
        }
    }

    /// Notes how memory ended an attempt, if the verdict on it says so.
    pub fn note_memory_end(&mut self, verdict: &Verdict) {
        if self.memory_ends.note(verdict) {
            self.changes += 1;
        }
    }

    /// Where the need of an attempt was heading when memory ended it; 0 if that is not known.
    pub(crate) fn growth_of(&self, attempt: &AttemptId) -> Bytes {
        self.memory_ends.of(attempt).map_or(Bytes(0), |end| end.growth)
    }

    /// Attempts of exactly this key that memory ended, and that are not in the history.
    pub(crate) fn memory_ends_beside(&self, key: &Key) -> impl Iterator<Item = &JudgedMemoryEnd> {
        self.memory_ends.of_key(key).filter(|(attempt, _)| self.get(attempt).is_none()).map(|(_, end)| end)
    }

    /// Learns many attempts, oldest first: where none like them is known yet, in less time and memory than one by one. Those for which
    /// there is no room are the oldest.
    pub fn learn_all(&mut self, mut attempts: Vec<RungObservation>) {
        if attempts.iter().any(|observation| !self.trust_tier(&observation.brief).newest.is_empty()) {
            return attempts.into_iter().for_each(|observation| self.learn(observation));
        }
        let [mut trusted, mut untrusted] =
            [&mut self.trusted, &mut self.untrusted].map(|tier| tier.fill(&attempts));
        // the list goes as the history grows: both of a million attempts at once would be the most memory that is ever used
        while let Some(observation) = attempts.pop() {
            let bulk = if observation.brief.untrusted { &mut untrusted } else { &mut trusted };
            if let Some(brief) = self.trust_tier(&observation.brief).learn_older(bulk, observation) {
                self.hold(&brief, 1.0);
                self.changes += 1;
            }
            if attempts.len().is_multiple_of(GIVEN_BACK) {
                attempts.shrink_to_fit();
            }
        }
        self.trusted.ladder.filled(trusted);
        self.untrusted.ladder.filled(untrusted);
    }

    /// Learns an attempt. One that is already known is not learnt twice.
    pub fn learn(&mut self, attempt: impl Into<RungObservation>) {
        let observation = attempt.into();
        if self.trust_tier(&observation.brief).get(observation.brief.attempt.as_str()).is_some() {
            return;
        }
        while let Some(oldest) = self.trust_tier(&observation.brief).make_room(&observation.brief) {
            self.hold(&oldest, -1.0);
        }
        let brief = self.trust_tier(&observation.brief).learn(observation);
        self.hold(&brief, 1.0);
        self.changes += 1;
    }

    /// Puts a summary in the place of an earlier one of the same attempt and key; nothing happens if there is none.
    pub fn settle(&mut self, attempt: impl Into<RungObservation>) {
        let mut observation = attempt.into();
        let tier = self.trust_tier(&observation.brief);
        let known =
            tier.get(observation.brief.attempt.as_str()).filter(|known| known.key == observation.brief.key);
        let Some(earlier) = known.map(Arc::clone) else { return };
        observation.share(&earlier.key);
        let settled = Arc::clone(&observation.brief);
        tier.replace(&earlier, observation);
        self.hold(&earlier, -1.0);
        self.hold(&settled, 1.0);
        self.changes += 1;
    }

    /// Unlearns an attempt, as if it had never been; nothing happens if it is not known.
    pub fn unlearn(&mut self, id: &AttemptId) {
        let Some(known) = self.get(id).map(Arc::clone) else { return };
        self.trust_tier(&known).remove(&known);
        self.hold(&known, -1.0);
        if !known.untrusted && known.need_peak == self.highest {
            let counts =
                |brief: &&Arc<AttemptBrief>| brief.outcome == Outcome::Succeeded && brief.proven().is_some();
            let left = self.newest_trusted().filter(counts).map(|brief| brief.need_peak).max();
            self.highest = left.unwrap_or_default();
        }
        self.changes += 1;
    }

    fn trust_tier(&mut self, attempt: &AttemptBrief) -> &mut TrustTier {
        if attempt.untrusted { &mut self.untrusted } else { &mut self.trusted }
    }

    fn hold(&mut self, attempt: &AttemptBrief, sign: f64) {
        if attempt.untrusted || attempt.outcome != Outcome::Succeeded || attempt.proven().is_none() {
            return;
        }
        if sign > 0.0 {
            self.highest = self.highest.max(attempt.need_peak);
        }
        let held = sign * attempt.need_peak.gib_hours(attempt.wall);
        let kind =
            if attempt.incomplete().is_some() { &mut self.held_incomplete } else { &mut self.held_measured };
        kind.add(held);
    }

    /// What an average trusted attempt holds: its highest need for its whole time, in GiB x h; 0 if none is known.
    pub fn mean_held(&self) -> f64 {
        let (measured, incomplete) = (self.held_measured, self.held_incomplete);
        HeldMemory {
            sum: measured.sum + incomplete.sum,
            count: measured.count.saturating_add(incomplete.count),
        }
        .mean()
    }

    /// The same without those with an incomplete need.
    pub(crate) fn mean_held_measured(&self) -> f64 {
        self.held_measured.mean()
    }

    /// Whether the need of a trusted attempt that succeeded is incomplete.
    pub(crate) fn has_incomplete(&self) -> bool {
        self.held_incomplete.count > 0
    }

    /// The highest need that a trusted attempt has shown, of whatever package and project; `None` if none is known.
    pub fn highest_need(&self) -> Option<Bytes> {
        Some(self.highest).filter(|need| need.0 > 0)
    }

    /// The attempt with this id, if it is among those kept in memory; the trusted one of two that claim the id.
    pub fn get(&self, id: &AttemptId) -> Option<&Arc<AttemptBrief>> {
        self.trusted.get(id.as_str()).or_else(|| self.untrusted.get(id.as_str()))
    }

    /// Trusted attempts that share the rung's part of `key`, newest first.
    pub fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &RungObservation> {
        self.trusted.ladder.on_rung(rung, key)
    }

    /// Untrusted attempts that share the rung's part of `key`, newest first.
    pub fn untrusted_on_rung(
        &self,
        rung: Rung,
        key: &Key,
    ) -> impl DoubleEndedIterator<Item = &RungObservation> {
        self.untrusted.ladder.on_rung(rung, key)
    }

    /// Whether an untrusted attempt of the package and project of `key` is known.
    pub(crate) fn has_untrusted(&self, key: &Key) -> bool {
        !self.untrusted.newest.is_empty() && self.untrusted_on_rung(Rung::Package, key).next().is_some()
    }

    /// Attempts of a job, trusted and not, in no order.
    pub(super) fn of_job(&self, job: JobMark) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        [&self.trusted, &self.untrusted].into_iter().flat_map(move |tier| tier.jobs.of(job))
    }

    /// All attempts of jobs that were executed more than once, each with what it is a retry after.
    pub(crate) fn of_repeated_jobs(&self) -> impl Iterator<Item = (&Arc<AttemptBrief>, RetryStatus)> {
        let one_of_each = self
            .untrusted
            .jobs
            .of_all()
            .filter(|brief| brief.job.is_some_and(|job| self.trusted.jobs.of(job).next().is_some()));
        let repeated = [&self.trusted, &self.untrusted].into_iter().flat_map(|tier| tier.jobs.repeated());
        let repeated = repeated.chain(one_of_each.filter_map(|brief| brief.job));
        let mut jobs: Vec<JobMark> = repeated.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter().flat_map(|job| self.of_job(job)).map(|brief| (brief, self.retry_after(brief)))
    }

    /// All attempts, newest first; untrusted ones stand where their end puts them.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        let (mut trusted, mut untrusted) =
            (self.newest_trusted().peekable(), self.untrusted.newest.iter().rev().peekable());
        std::iter::from_fn(move || {
            let Some(doubtful) = untrusted.peek() else { return trusted.next() };
            let later = |brief: &&Arc<AttemptBrief>| brief.ended_unix_ms() >= doubtful.ended_unix_ms();
            if trusted.peek().is_some_and(later) { trusted.next() } else { untrusted.next() }
        })
    }

    /// Trusted attempts, newest first.
    pub fn newest_trusted(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        self.trusted.newest.iter().rev()
    }

    /// How often it has changed: what was worked out from it holds as long as this number stays.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// For how many trusted, and for how many untrusted attempts there is room.
    pub fn room(&self) -> [HistoryLimits; 2] {
        [self.trusted.room, self.untrusted.room]
    }

    /// Bytes of memory that the attempts take, as they are counted by their parts; with their rows in the statistics.
    pub fn bytes(&self) -> usize {
        self.trusted.bytes() + self.untrusted.bytes()
    }

    /// How many attempts are kept.
    pub fn len(&self) -> usize {
        self.trusted.newest.len() + self.untrusted.newest.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
