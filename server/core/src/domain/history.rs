//! The attempts that a prediction may learn from, in memory and bounded.
//!
//! An attempt is stored by its [position](AttemptBrief::position) (end, then id), by its id, and on each rung of the ladder. The list of a
//! rung keeps the newest [`History::PER_RUNG`]; the history keeps as many of the newest as [`HistoryLimits`] allow. The oldest attempt is
//! removed from all three at once, so that no entry is left behind.
//!
//! Nothing depends on the order in which attempts arrive: the lists are ordered by position, what is evicted too, and sums are of
//! integers. So servers that know the same attempts predict the same. An exception is an attempt that [`History::unlearn`] removes: what
//! was evicted before in its place comes back only with a restart.
//!
//! Untrusted attempts are stored apart and never evict trusted ones, take the id of one, or change a sum.

mod highest_need;
mod jobs;
mod memory_ends;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;
/// Trusted or untrusted attempts.
mod tier;
mod time_shift;
mod versions;

use std::sync::{Arc, OnceLock};

use self::{
    highest_need::HighestNeed,
    memory_ends::{JudgedMemoryEnd, JudgedMemoryEnds},
    tier::TrustTier,
    time_shift::NewestTimes,
};
pub(super) use jobs::LINEAGE_STEPS;
pub use tier::{HistoryLimits, bytes_of};
pub(crate) use time_shift::{LATE_FROM, deviation_of_times};
pub use versions::AnswerVersion;
use versions::Versions;

use super::{
    AttemptBrief, AttemptId, Bytes, JobMark, Key, Millis, RetryStatus, Rung, RungObservation, Verdict,
    ladder::{ATTEMPTS_PER_RUNG, are_same_but_arch},
};

/// Number of attempts removed by a bulk load after which the emptied list frees its memory (some MB).
const GIVEN_BACK: usize = 1 << 16;

/// Steps of a mean in one octave (1.1 % each). It changes with each attempt that ends, but seldom by a step, so that answers computed from
/// it stay valid.
const MEAN_STEPS: f64 = 64.0;

/// The capacity for untrusted attempts is that for trusted ones divided by this.
const UNTRUSTED_PART: usize = 16;

/// Finished attempts, by id and by similarity.
#[derive(Debug)]
pub struct History {
    /// The changes so far. Caches compare them to find out whether they are out of date.
    versions: Versions,
    trusted: TrustTier,
    untrusted: TrustTier,
    /// GiB x h of the trusted attempts that succeeded: of those with a complete need, and of the others (`Summary::incomplete`).
    held: [HeldMemory; 2],
    memory_ends: JudgedMemoryEnds,
    /// Highest need of the trusted attempts that succeeded.
    highest: HighestNeed,
    newest_times: OnceLock<NewestTimes>,
}

/// Memory that a set of attempts held: highest need multiplied by duration.
#[derive(Debug, Clone, Copy, Default)]
struct HeldMemory {
    /// Sum over the set, bytes x ms. The sum of floating-point numbers would depend on their order.
    sum: u128,
    count: u32,
}

impl HeldMemory {
    /// Most bytes x ms that count for one attempt, so that no sum overflows: a million times what a TiB for ten years is.
    const MAX_BYTE_MILLIS: u128 = 1 << 96;

    fn of(attempt: &AttemptBrief) -> Self {
        let held = u128::from(attempt.need_peak.0) * u128::from(attempt.wall.0);
        Self { sum: held.min(Self::MAX_BYTE_MILLIS), count: 1 }
    }

    fn add(&mut self, more: Self) {
        (self.sum, self.count) = (self.sum + more.sum, self.count + more.count);
    }

    fn remove(&mut self, fewer: Self) {
        (self.sum, self.count) = (self.sum - fewer.sum, self.count - fewer.count);
    }

    /// Mean GiB x h of one attempt, in steps; 0 if the set is empty.
    fn mean(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs no more than 53 bits")]
        let sum = self.sum as f64;
        let mean = if self.count == 0 { 0.0 } else { sum / f64::from(self.count) };
        let mean = mean * Bytes(1).gib_hours(Millis(1));
        if mean > 0.0 { ((mean.log2() * MEAN_STEPS).round() / MEAN_STEPS).exp2() } else { 0.0 }
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
            versions: Versions::new(),
            trusted: TrustTier::new(trusted, false),
            untrusted: TrustTier::new(untrusted, true),
            held: [HeldMemory::default(); 2],
            highest: HighestNeed::default(),
            newest_times: OnceLock::new(),
            memory_ends: JudgedMemoryEnds::default(),
        }
    }

    /// Records how memory ended an attempt, if the verdict on it names memory.
    pub fn note_memory_end(&mut self, verdict: &Verdict) {
        if self.memory_ends.note(verdict) {
            self.versions.note_all();
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

    /// Adds many attempts: into an empty history this takes less time and memory than one by one. If not all fit, the oldest are left out.
    pub fn learn_all(&mut self, mut attempts: Vec<RungObservation>) {
        if attempts.iter().any(|observation| !self.trust_tier(&observation.brief).newest_first.is_empty()) {
            return attempts.into_iter().for_each(|observation| self.learn(observation));
        }
        attempts.sort_unstable_by(|one, other| one.brief.position().cmp(&other.brief.position()));
        let [mut trusted, mut untrusted] =
            [&mut self.trusted, &mut self.untrusted].map(|tier| tier.begin_load(&attempts));
        // the list is emptied while the history grows: keeping both, with a million attempts, would be the peak of memory use
        while let Some(observation) = attempts.pop() {
            let bulk = if observation.brief.untrusted { &mut untrusted } else { &mut trusted };
            if let Some(brief) = self.trust_tier(&observation.brief).learn_older(bulk, observation) {
                self.add_to_sums(&brief);
                self.versions.note(&brief.key);
            }
            if attempts.len().is_multiple_of(GIVEN_BACK) {
                attempts.shrink_to_fit();
            }
        }
        self.trusted.ladder.finish_load(trusted);
        self.untrusted.ladder.finish_load(untrusted);
        drop(self.evict());
    }

    /// Adds an attempt, unless it is known already or older than one that was evicted.
    pub fn learn(&mut self, attempt: impl Into<RungObservation>) {
        drop(self.learn_and_evict(attempt.into()));
    }

    /// Like [`Self::learn`]; returns the attempts that were evicted for it.
    pub(crate) fn learn_and_evict(&mut self, observation: RungObservation) -> Vec<Arc<AttemptBrief>> {
        let Some(brief) = self.trust_tier(&observation.brief).learn(observation) else { return Vec::new() };
        self.add_to_sums(&brief);
        self.versions.note(&brief.key);
        self.evict()
    }

    /// Removes and returns the oldest attempts until the others fit.
    fn evict(&mut self) -> Vec<Arc<AttemptBrief>> {
        let mut evicted = Vec::new();
        while let Some(oldest) = self.trusted.evict().or_else(|| self.untrusted.evict()) {
            self.take_from_sums(&oldest);
            self.versions.note(&oldest.key);
            evicted.push(oldest);
        }
        evicted
    }

    /// Replaces the values of a known attempt with the same key; does nothing if the attempt is unknown. Returns the attempts that were
    /// evicted for it.
    pub(crate) fn replace_summary(&mut self, attempt: impl Into<RungObservation>) -> Vec<Arc<AttemptBrief>> {
        let mut observation = attempt.into();
        let tier = self.trust_tier(&observation.brief);
        let known =
            tier.get(observation.brief.attempt.as_str()).filter(|known| known.key == observation.brief.key);
        let Some(earlier) = known.map(Arc::clone) else { return Vec::new() };
        observation.share(&earlier.key);
        let settled = Arc::clone(&observation.brief);
        if settled.position() != earlier.position() {
            self.remove(&earlier);
            return self.learn_and_evict(observation);
        }
        tier.replace(&earlier, observation);
        self.take_from_sums(&earlier);
        self.add_to_sums(&settled);
        self.versions.note(&settled.key);
        self.evict()
    }

    /// Removes an attempt and its effect on all sums; does nothing if it is unknown.
    pub fn unlearn(&mut self, id: &AttemptId) {
        if let Some(known) = self.get(id).map(Arc::clone) {
            self.remove(&known);
        }
    }

    fn remove(&mut self, known: &Arc<AttemptBrief>) {
        self.trust_tier(known).remove(known);
        self.take_from_sums(known);
        self.versions.note(&known.key);
    }

    fn trust_tier(&mut self, attempt: &AttemptBrief) -> &mut TrustTier {
        if attempt.untrusted { &mut self.untrusted } else { &mut self.trusted }
    }

    fn add_to_sums(&mut self, attempt: &Arc<AttemptBrief>) {
        self.compare_time(attempt);
        if highest_need::counts(attempt) {
            self.highest.add(attempt);
            self.held_with(attempt).add(HeldMemory::of(attempt));
        }
    }

    fn take_from_sums(&mut self, attempt: &AttemptBrief) {
        self.forget_times(attempt);
        if highest_need::counts(attempt) {
            self.highest.remove(attempt, &self.trusted.newest_first);
            self.held_with(attempt).remove(HeldMemory::of(attempt));
        }
    }

    /// The sum that an attempt counts in.
    fn held_with(&mut self, attempt: &AttemptBrief) -> &mut HeldMemory {
        let [measured, incomplete] = &mut self.held;
        if attempt.incomplete().is_some() { incomplete } else { measured }
    }

    /// Mean of highest need multiplied by duration over the trusted attempts, GiB x h, in steps of 1/[`MEAN_STEPS`] octave; 0 if none is
    /// known.
    pub fn mean_held(&self) -> f64 {
        let [mut all, incomplete] = self.held;
        all.add(incomplete);
        all.mean()
    }

    /// Like [`Self::mean_held`], without attempts with an incomplete need.
    pub(crate) fn mean_held_measured(&self) -> f64 {
        self.held[0].mean()
    }

    /// Whether any successful trusted attempt has an incomplete need.
    pub(crate) fn has_incomplete(&self) -> bool {
        self.held[1].count > 0
    }

    /// The highest need of any trusted attempt, over all packages and projects; `None` if none is known.
    pub fn highest_need(&self) -> Option<Bytes> {
        self.highest.get()
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

    /// Trusted or untrusted attempts that agree with `key` in the fields of the rung, newest first. A key without an arch matches all: if
    /// attempts of its package have one, those of all archs are taken from the package's list.
    pub(crate) fn similar_on_rung(
        &self,
        rung: Rung,
        key: &Key,
        are_trusted: bool,
    ) -> impl Iterator<Item = &RungObservation> {
        let ladder = &if are_trusted { &self.trusted } else { &self.untrusted }.ladder;
        let has_arch = |observation: &RungObservation| !observation.brief.key.arch.is_empty();
        // the package's list is bounded: newer builds of other keys may have displaced those of this one
        let fits = |observation: &RungObservation| are_same_but_arch(rung, key, &observation.brief.key);
        let of_package = || ladder.on_rung(Rung::Package, key);
        let any = key.arch.is_empty()
            && rung > Rung::Package
            && of_package().any(has_arch)
            && of_package().any(fits);
        ladder
            .on_rung(if any { Rung::Package } else { rung }, key)
            .filter(move |observation| !any || are_same_but_arch(rung, key, &observation.brief.key))
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
        let is_trusted = |job: JobMark| self.trusted.jobs.of_job(job).next().is_some();
        let one_of_each = self.untrusted.jobs.one_of_each_job().filter_map(|brief| brief.job);
        let repeated =
            [&self.trusted, &self.untrusted].into_iter().flat_map(|tier| tier.jobs.repeated_jobs());
        let repeated = repeated.chain(one_of_each.filter(|job| is_trusted(*job)));
        let mut jobs: Vec<JobMark> = repeated.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter().flat_map(|job| self.of_job(job)).map(|brief| (brief, self.retry_after(brief)))
    }

    /// All attempts, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        let (mut trusted, mut untrusted) =
            (self.newest_trusted().peekable(), self.untrusted.newest_first.iter().rev().peekable());
        std::iter::from_fn(move || {
            let Some(doubtful) = untrusted.peek() else { return trusted.next() };
            let later = |brief: &&Arc<AttemptBrief>| brief.position() >= doubtful.position();
            if trusted.peek().is_some_and(later) { trusted.next() } else { untrusted.next() }
        })
    }

    /// Trusted attempts, newest first.
    pub fn newest_trusted(&self) -> impl Iterator<Item = &Arc<AttemptBrief>> {
        self.trusted.newest_first.iter().rev()
    }

    /// Number of changes so far. A result computed from the history is valid while this number is the same.
    pub fn changes(&self) -> u64 {
        self.versions.changes()
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
