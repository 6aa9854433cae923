//! The attempts that a prediction may learn from, in memory and bounded.
//!
//! An attempt is stored in the order of arrival, by its id, and on each rung of the ladder. The list of a rung keeps the newest
//! [`History::PER_RUNG`]; the history keeps as many of the newest as [`HistoryLimits`] allow. The oldest attempt is removed from all three
//! at once, so that no entry is left behind.
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
    ladder::ATTEMPTS_PER_RUNG,
};

/// Number of attempts removed by a bulk load after which the emptied list frees its memory (some MB).
const GIVEN_BACK: usize = 1 << 16;

/// The capacity for untrusted attempts is that for trusted ones divided by this.
const UNTRUSTED_PART: usize = 16;

/// Finished attempts, by id and by similarity.
#[derive(Debug)]
pub struct History {
    /// Number of changes so far. Caches compare it to find out whether they are out of date.
    changes: u64,
    trusted: TrustTier,
    untrusted: TrustTier,
    /// GiB x h of the trusted attempts that succeeded: this sum is over those with a complete need, `held_incomplete` over the others
    /// (`Summary::incomplete`).
    held_measured: HeldMemory,
    held_incomplete: HeldMemory,
    memory_ends: JudgedMemoryEnds,
    /// Highest need of any trusted attempt that succeeded, even if it was evicted since; 0 if there was none.
    highest: Bytes,
}

/// GiB x h that a set of attempts held: highest need multiplied by duration.
#[derive(Debug, Clone, Copy, Default)]
struct HeldMemory {
    /// Sum over the set, GiB x h.
    sum: f64,
    count: u32,
}

impl HeldMemory {
    /// Adds an attempt that held this many GiB x h; removes one if `held` is negative.
    fn add(&mut self, held: f64) {
        let more = !held.is_sign_negative();
        self.count = if more { self.count.saturating_add(1) } else { self.count.saturating_sub(1) };
        // the sum is set to 0 with the last attempt, so that rounding errors do not remain
        self.sum = if self.count == 0 { 0.0 } else { (self.sum + held).max(0.0) };
    }

    /// Mean GiB x h of one attempt; 0 if the set is empty.
    fn mean(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / f64::from(self.count) }
    }
}

impl History {
    /// Number of the newest attempts kept on one rung. More would average over builds from long ago.
    pub const PER_RUNG: usize = ATTEMPTS_PER_RUNG;

    /// An empty history for at most `capacity` trusted attempts (at least 1) and a sixteenth as many untrusted ones.
    pub fn new(capacity: usize) -> Self {
        Self::with_room(HistoryLimits { attempts: capacity.max(1), bytes: usize::MAX })
    }

    /// An empty history. Trusted attempts are bounded by `room`. Untrusted ones are bounded by a sixteenth of `room`, and their bytes count
    /// toward the total.
    pub fn with_room(room: HistoryLimits) -> Self {
        let untrusted = room.divided_by(UNTRUSTED_PART);
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

    /// Records how memory ended an attempt, if the verdict on it names memory.
    pub fn note_memory_end(&mut self, verdict: &Verdict) {
        if self.memory_ends.note(verdict) {
            self.changes += 1;
        }
    }

    /// The size that the attempt's need would have reached when memory ended it; 0 if unknown.
    pub(crate) fn grown_to_of(&self, attempt: &AttemptBrief) -> Bytes {
        self.memory_ends
            .recorded_end(&attempt.attempt, &attempt.key.project)
            .map_or(Bytes(0), |end| end.grown_to)
    }

    /// Attempts of exactly this key that memory ended and that are missing from the history.
    pub(crate) fn unsealed_memory_ends(&self, key: &Key) -> impl Iterator<Item = &JudgedMemoryEnd> {
        self.memory_ends.of_key(key).filter(|(attempt, _)| self.get(attempt).is_none()).map(|(_, end)| end)
    }

    /// Adds many attempts, oldest first: into an empty history this takes less time and memory than one by one. If not all fit, the oldest
    /// are left out.
    pub fn learn_all(&mut self, mut attempts: Vec<RungObservation>) {
        if attempts.iter().any(|observation| !self.trust_tier(&observation.brief).newest_first.is_empty()) {
            return attempts.into_iter().for_each(|observation| self.learn(observation));
        }
        let [mut trusted, mut untrusted] =
            [&mut self.trusted, &mut self.untrusted].map(|tier| tier.begin_load(&attempts));
        // the list is emptied while the history grows: keeping both, with a million attempts, would be the peak of memory use
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
        self.trusted.ladder.finish_load(trusted);
        self.untrusted.ladder.finish_load(untrusted);
    }

    /// Adds an attempt, unless it is known already.
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

    /// Replaces the values of a known attempt with the same key; does nothing if the attempt is unknown.
    pub fn replace_summary(&mut self, attempt: impl Into<RungObservation>) {
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

    /// Removes an attempt and its effect on all sums; does nothing if it is unknown.
    pub fn unlearn(&mut self, id: &AttemptId) {
        let Some(known) = self.get(id).map(Arc::clone) else { return };
        self.trust_tier(&known).remove(&known);
        self.hold(&known, -1.0);
        if !known.untrusted && known.need_peak == self.highest {
            let counts = |brief: &&Arc<AttemptBrief>| {
                brief.outcome == Outcome::Succeeded && brief.proven_need().is_some()
            };
            let left = self.newest_trusted().filter(counts).map(|brief| brief.need_peak).max();
            self.highest = left.unwrap_or_default();
        }
        self.changes += 1;
    }

    fn trust_tier(&mut self, attempt: &AttemptBrief) -> &mut TrustTier {
        if attempt.untrusted { &mut self.untrusted } else { &mut self.trusted }
    }

    fn hold(&mut self, attempt: &AttemptBrief, sign: f64) {
        if attempt.untrusted || attempt.outcome != Outcome::Succeeded || attempt.proven_need().is_none() {
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

    /// Mean of highest need multiplied by duration over the trusted attempts, GiB x h; 0 if none is known.
    pub fn mean_held(&self) -> f64 {
        let (measured, incomplete) = (self.held_measured, self.held_incomplete);
        HeldMemory {
            sum: measured.sum + incomplete.sum,
            count: measured.count.saturating_add(incomplete.count),
        }
        .mean()
    }

    /// Like [`Self::mean_held`], without attempts with an incomplete need.
    pub(crate) fn mean_held_measured(&self) -> f64 {
        self.held_measured.mean()
    }

    /// Whether any successful trusted attempt has an incomplete need.
    pub(crate) fn has_incomplete(&self) -> bool {
        self.held_incomplete.count > 0
    }

    /// The highest need of any trusted attempt, over all packages and projects; `None` if none is known.
    pub fn highest_need(&self) -> Option<Bytes> {
        Some(self.highest).filter(|need| need.0 > 0)
    }

    /// The attempt with this id, if it is in memory. If a trusted and an untrusted attempt have the same id, the trusted one is returned.
    pub fn get(&self, id: &AttemptId) -> Option<&Arc<AttemptBrief>> {
        self.trusted.get(id.as_str()).or_else(|| self.untrusted.get(id.as_str()))
    }

    /// Trusted attempts that agree with `key` in the fields of the rung, newest first.
    pub fn on_rung(&self, rung: Rung, key: &Key) -> impl DoubleEndedIterator<Item = &RungObservation> {
        self.trusted.ladder.on_rung(rung, key)
    }

    /// Untrusted attempts that agree with `key` in the fields of the rung, newest first.
    pub fn untrusted_on_rung(
        &self,
        rung: Rung,
        key: &Key,
    ) -> impl DoubleEndedIterator<Item = &RungObservation> {
        self.untrusted.ladder.on_rung(rung, key)
    }

    /// Whether an untrusted attempt of the package and project of `key` is known.
    pub(crate) fn has_untrusted(&self, key: &Key) -> bool {
        !self.untrusted.newest_first.is_empty() && self.untrusted_on_rung(Rung::Package, key).next().is_some()
    }

    /// Attempts of a job, trusted and not, in no order.
    pub(super) fn of_job(&self, job: JobMark) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        [&self.trusted, &self.untrusted].into_iter().flat_map(move |tier| tier.jobs.of_job(job))
    }

    /// All attempts of jobs that ran more than once, each with its retry status.
    pub(crate) fn of_repeated_jobs(&self) -> impl Iterator<Item = (&Arc<AttemptBrief>, RetryStatus)> {
        let one_of_each = self
            .untrusted
            .jobs
            .one_of_each_job()
            .filter(|brief| brief.job.is_some_and(|job| self.trusted.jobs.of_job(job).next().is_some()));
        let repeated =
            [&self.trusted, &self.untrusted].into_iter().flat_map(|tier| tier.jobs.repeated_jobs());
        let repeated = repeated.chain(one_of_each.filter_map(|brief| brief.job));
        let mut jobs: Vec<JobMark> = repeated.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter().flat_map(|job| self.of_job(job)).map(|brief| (brief, self.retry_after(brief)))
    }

    /// All attempts, newest first. Untrusted ones are placed among the trusted ones by the time of their end.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        let (mut trusted, mut untrusted) =
            (self.newest_trusted().peekable(), self.untrusted.newest_first.iter().rev().peekable());
        std::iter::from_fn(move || {
            let Some(doubtful) = untrusted.peek() else { return trusted.next() };
            let later = |brief: &&Arc<AttemptBrief>| brief.ended_unix_ms() >= doubtful.ended_unix_ms();
            if trusted.peek().is_some_and(later) { trusted.next() } else { untrusted.next() }
        })
    }

    /// Trusted attempts, newest first.
    pub fn newest_trusted(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        self.trusted.newest_first.iter().rev()
    }

    /// Number of changes so far. A result computed from the history is valid while this number is the same.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Capacity for trusted attempts, and for untrusted ones.
    pub fn capacity(&self) -> [HistoryLimits; 2] {
        [self.trusted.limits, self.untrusted.limits]
    }

    /// Bytes of memory that the attempts take, estimated part by part, including their rows in the statistics.
    pub fn bytes(&self) -> usize {
        self.trusted.bytes() + self.untrusted.bytes()
    }

    /// Number of attempts kept.
    pub fn len(&self) -> usize {
        self.trusted.newest_first.len() + self.untrusted.newest_first.len()
    }

    /// Whether no attempt is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
