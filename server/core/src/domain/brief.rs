//! The part of a finished attempt that stays in memory. The whole summary is on disk. A million attempts in this form take some hundred MB.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
};

use plimsoll_proto::measured::IncompleteNeed;

use super::{
    AttemptId, Bytes, Cause, CpuMicros, Fnv, Key, Millis, Outcome, RequestUsage, Summary,
    progress::CPU_WINDOW, summary::measured::measured, weight,
};

/// Hash of a job's pipeline and name: the two texts would take as much memory as the rest of the attempt. Collisions made on purpose gain
/// nothing: a caller that can choose labels for one can also use the other job's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobMark(NonZeroU64);

impl JobMark {
    /// The mark of the job that a key names; `None` if its labels do not name pipeline and job.
    pub fn of(key: &Key) -> Option<Self> {
        let (pipeline, job) = key.job()?;
        let number = Fnv::default().with_part(pipeline).with_part(job).value();
        NonZeroU64::new(number).or(Some(NonZeroU64::MAX)).map(Self)
    }
}

/// Hash of the commit that was built. Two commits of one build have the same one once in four billion times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitMark(NonZeroU32);

impl CommitMark {
    /// The mark of the commit that a key names; `None` if it names none.
    pub fn of(key: &Key) -> Option<Self> {
        let [.., a, b, c, d] = Fnv::default().with_part(key.commit()?).value().to_be_bytes();
        NonZeroU32::new(u32::from_be_bytes([a, b, c, d])).or(Some(NonZeroU32::MAX)).map(Self)
    }
}

/// Flag: the attempt's memory request or limit is known.
const MEMORY_ASKED: u8 = 1;
/// Flag: the cause follows from a line of the log alone.
const BY_LOG: u8 = 2;
/// Flag: the attempt was opened with its own job's token.
const OWN_JOB: u8 = 4;
/// Flag: the need was scraped from Prometheus, so it is a lower bound.
const SCRAPED: u8 = 8;
/// Flag: the need is a sum over processes, so it is a lower bound.
const BY_PROCESSES: u8 = 16;
/// Flag: the node is to blame.
const NODES_FAULT: u8 = 32;
/// Flag: the attempt's use is no measurement of its need.
const NO_MEASUREMENT: u8 = 64;

/// A finished attempt, reduced to what sums, lists and verdicts on other attempts use.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptBrief {
    /// ID of the attempt.
    pub attempt: AttemptId,
    /// What was built: the key without what changes from attempt to attempt ([`Key::build_key`]). Attempts of one key share it.
    pub key: Arc<Key>,
    /// The attempt that this one retried.
    pub retries: Option<Box<AttemptId>>,
    /// The mark of the attempt's job, if its key names a job.
    pub job: Option<JobMark>,
    /// The mark of the attempt's commit, if its key names one.
    pub commit: Option<CommitMark>,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Time from start to end.
    pub wall: Millis,
    /// CPU time used; 0 if it was not measured.
    pub cpu: CpuMicros,
    /// Highest need; 0 if it was not measured.
    pub need_peak: Bytes,
    /// Mean of the need over time; 0 if it was not measured.
    pub need_mean: Bytes,
    /// Memory that the attempt reserved; valid only with the flag [`MEMORY_ASKED`] (an `Option` would take eight bytes more).
    memory: Bytes,
    /// Number of samples kept.
    pub samples: u32,
    /// Build jobs, 0 if not known.
    pub jobs: u16,
    /// Number of this execution of the job; 1 for the first, at most 65,535.
    pub number: u16,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// Why the attempt failed; `None` if it did not fail.
    pub cause: Option<Cause>,
    /// [`MEMORY_ASKED`] and the other flags in one byte: a further field would take eight.
    flags: u8,
    /// Whether the sender is untrusted. Such an attempt never lowers the sizes of others.
    pub untrusted: bool,
}

impl AttemptBrief {
    /// End of the attempt by the clock that measured its start, milliseconds since 1970.
    pub fn ended_unix_ms(&self) -> u64 {
        self.started_unix_ms.saturating_add(self.wall.0)
    }

    /// Position of the attempt among others: by its end, then by its id. It does not depend on when the attempt arrived, so that all
    /// servers that know the same attempts keep and use them in the same order.
    pub fn position(&self) -> (u64, &AttemptId) {
        (self.ended_unix_ms(), &self.attempt)
    }

    /// What the attempt proves about the need: the full need if it succeeded, a lower bound if memory stopped it, `None` otherwise or if
    /// its use does not count as a measurement.
    pub fn proven_need(&self) -> Option<Bytes> {
        let ended = self.outcome == Outcome::Succeeded || self.proven_cause().is_some_and(Cause::is_memory);
        Some(self.need_peak).filter(|need| need.0 > 0 && ended && !self.is_not_a_measurement())
    }

    /// Whether the node is to blame: it ran out of memory under a build that stayed below its limit.
    pub fn is_nodes_fault(&self) -> bool {
        self.flags & NODES_FAULT != 0
    }

    /// Whether the attempt's use does not show what such a build needs, because its work was done already or elsewhere.
    pub fn is_not_a_measurement(&self) -> bool {
        self.flags & NO_MEASUREMENT != 0
    }

    /// Whether the cause follows from a log line or a person's correction, without a measurement.
    pub fn is_cause_by_log(&self) -> bool {
        self.flags & BY_LOG != 0
    }

    /// Whether the job's own token opened the attempt. Then its labels come from the token.
    pub(crate) fn is_of_own_job(&self) -> bool {
        self.flags & OWN_JOB != 0
    }

    /// The source of the need, if that source gives only a lower bound of it.
    pub(crate) fn incomplete(&self) -> Option<IncompleteNeed> {
        match self.flags & (SCRAPED | BY_PROCESSES) {
            0 => None,
            SCRAPED => Some(IncompleteNeed::Prometheus),
            _ => Some(IncompleteNeed::Processes),
        }
    }

    /// Why the attempt failed, if better evidence than a log line proves it. Predictions do not use a cause from a log line, because anyone
    /// can write one.
    pub fn proven_cause(&self) -> Option<Cause> {
        self.cause.filter(|_| !self.is_cause_by_log())
    }

    /// Memory that the attempt reserved ([`super::Resources::memory_size_asked`]).
    pub fn memory_asked(&self) -> Option<Bytes> {
        (self.flags & MEMORY_ASKED != 0).then_some(self.memory)
    }

    /// How much of its reserved memory the attempt used and wasted, GiB x h; `None` if it reserved none or its need was not measured.
    pub fn memory_use(&self) -> Option<RequestUsage> {
        let over_time = |memory: Bytes| memory.gib_hours(self.wall);
        let (asked, used) = (self.memory_asked().map(over_time), measured(self.need_mean).map(over_time));
        RequestUsage::of(asked, used, self.outcome == Outcome::Succeeded)
    }

    /// Bytes of memory that an `Arc` of this takes, without the key.
    pub fn allocated_bytes(&self) -> usize {
        let id = |id: &AttemptId| weight::arc_bytes(id.as_str().len());
        let retries = |of: &AttemptId| weight::allocation_bytes(size_of::<AttemptId>()) + id(of);
        weight::arc_bytes(size_of::<Self>()) + id(&self.attempt) + self.retries.as_deref().map_or(0, retries)
    }
}

impl AttemptBrief {
    /// Reduces a summary; `key` is what the attempt built.
    fn of(summary: &Summary, key: Arc<Key>) -> Self {
        Self {
            job: JobMark::of(&summary.key),
            commit: CommitMark::of(&summary.key),
            jobs: u16::try_from(summary.key.hints.build_jobs.unwrap_or(0)).unwrap_or(u16::MAX),
            memory: summary.resources.memory_size_asked().unwrap_or_default(),
            flags: flags_of(summary),
            untrusted: summary.opening.untrusted,
            attempt: summary.attempt.clone(),
            key,
            retries: summary.retries.clone().map(Box::new),
            started_unix_ms: summary.started_unix_ms,
            wall: summary.wall,
            cpu: summary.cpu,
            need_peak: summary.need_peak,
            need_mean: summary.need_mean,
            samples: u32::try_from(summary.samples).unwrap_or(u32::MAX),
            number: u16::try_from(summary.number).unwrap_or(u16::MAX),
            outcome: summary.outcome,
            cause: summary.cause,
        }
    }
}

fn flags_of(summary: &Summary) -> u8 {
    let source = match summary.incomplete() {
        None => 0,
        Some(IncompleteNeed::Prometheus) => SCRAPED,
        Some(IncompleteNeed::Processes) => BY_PROCESSES,
    };
    let flags = [
        (summary.resources.memory_size_asked().is_some(), MEMORY_ASKED),
        (summary.is_cause_unmeasured(), BY_LOG),
        (summary.opening.proven, OWN_JOB),
        (summary.is_nodes_fault(), NODES_FAULT),
        (summary.is_not_a_measurement(), NO_MEASUREMENT),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).fold(source, |all, (_, flag)| all | flag)
}

impl From<&Summary> for AttemptBrief {
    fn from(summary: &Summary) -> Self {
        Self::of(summary, Arc::new(summary.key.build_key()))
    }
}

/// One attempt on one rung. The values that a prediction reads are stored here, because following a hundred pointers to briefs takes longer
/// than all the arithmetic.
#[derive(Debug, Clone)]
pub struct RungObservation {
    /// The attempt with its other values.
    pub brief: Arc<AttemptBrief>,
    /// Logarithm to base 2 of the need in bytes. If the attempt is censored: of the size that proved too small. NaN if nothing is known
    /// about its memory.
    pub need: f32,
    /// Wall time in hours.
    pub hours: f32,
    /// Logarithms to base 2 of the wall time (ms), of the mean CPU use and of the highest CPU use (thousandths of a core); NaN unless the
    /// attempt succeeded.
    pub rates: [f32; 3],
    /// Logarithm to base 2 of the input size in bytes; NaN if not known.
    pub input: f32,
    /// Build jobs, as in [`AttemptBrief::jobs`].
    pub jobs: u16,
    /// Memory request and limit predicted when the attempt opened, encoded by [`size_step`]; 0 without a prediction.
    predicted_at_start: [u16; 2],
    /// Whether the need is a lower bound: memory stopped the attempt.
    pub censored: bool,
    /// The source of the need, if that source gives only a lower bound of it.
    pub incomplete: Option<IncompleteNeed>,
}

impl From<&Summary> for RungObservation {
    fn from(summary: &Summary) -> Self {
        Self::of(summary, Arc::new(summary.key.build_key()))
    }
}

impl From<Summary> for RungObservation {
    fn from(summary: Summary) -> Self {
        Self::from(&summary)
    }
}

impl From<Arc<Summary>> for RungObservation {
    fn from(summary: Arc<Summary>) -> Self {
        Self::from(&*summary)
    }
}

impl RungObservation {
    /// Takes the observation from a summary; `key` is what the attempt built.
    pub fn of(summary: &Summary, key: Arc<Key>) -> Self {
        let succeeded =
            summary.outcome == Outcome::Succeeded && !summary.censored && !summary.is_not_a_measurement();
        let log = |value: f64| if succeeded && value > 0.0 { to_f32(value.log2()) } else { f32::NAN };
        let need = if summary.counts_for_memory() {
            to_f32(summary.proven_need().as_f64().log2())
        } else {
            f32::NAN
        };
        let hints = summary.key.hints;
        // a command of some milliseconds may seem to use many cores, because it is too short to measure a peak
        let cpu_mean = summary.cpu.cores_over(summary.wall.max(CPU_WINDOW)).0;
        // a mean alone, as an imported history has it, is not the highest use
        let cpu_peak = match summary.measured_cpu_peak() {
            Some(_) if summary.wall < CPU_WINDOW => cpu_mean,
            peak => peak.map_or(0.0, |peak| peak.0),
        };
        Self {
            need,
            hours: to_f32(summary.wall.hours()),
            rates: [log(summary.wall.as_f64()), log(cpu_mean * 1000.0), log(cpu_peak * 1000.0)],
            input: hints
                .input_bytes
                .filter(|bytes| *bytes > 0)
                .map_or(f32::NAN, |bytes| to_f32(Bytes(bytes).as_f64().log2())),
            jobs: u16::try_from(hints.build_jobs.unwrap_or(0)).unwrap_or(u16::MAX),
            predicted_at_start: summary.opening.predicted.map_or([0; 2], |predicted| {
                [predicted.memory_request, predicted.memory_limit].map(size_step)
            }),
            censored: summary.censored,
            incomplete: summary.incomplete(),
            brief: Arc::new(AttemptBrief::of(summary, key)),
        }
    }

    /// Memory request and limit predicted when the attempt opened; exact to the MiB below 1.4 GiB, to 0.07 % above.
    pub fn predicted_at_start(&self) -> Option<[Bytes; 2]> {
        self.predicted_at_start
            .iter()
            .all(|step| *step > 0)
            .then(|| self.predicted_at_start.map(size_of_step))
    }

    /// Replaces the attempt's key with `key`, which must be equal, so that both share one allocation. Does nothing if another copy of the
    /// attempt exists.
    pub fn share(&mut self, key: &Arc<Key>) {
        if Arc::ptr_eq(&self.brief.key, key) {
            return;
        }
        if let Some(brief) = Arc::get_mut(&mut self.brief) {
            brief.key = Arc::clone(key);
        }
    }
}

/// Steps in each doubling of a predicted size.
const STEPS_A_DOUBLING: f64 = 1024.0;

/// Encodes a size as a number of steps on a logarithmic scale. A decoded size, rounded to whole MiB, encodes to the same step again, so
/// values do not drift when they are stored repeatedly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "64 doublings, and `as` saturates"
)]
fn size_step(size: Bytes) -> u16 {
    (size.as_f64().max(2.0).log2() * STEPS_A_DOUBLING).round() as u16
}

fn size_of_step(step: u16) -> Bytes {
    let size = Bytes::from_f64((f64::from(step) / STEPS_A_DOUBLING).exp2());
    Bytes((size.0 + Bytes::MIB.0 / 2) / Bytes::MIB.0 * Bytes::MIB.0)
}

#[expect(clippy::cast_possible_truncation, reason = "24 bits of a logarithm are a millionth of the value")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// Whether statistics count an attempt as a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStatus {
    /// The attempt is not a retry.
    Nothing,
    /// The attempt is a retry; why the retried attempt failed is unknown.
    Unknown,
    /// The attempt is a retry of one that failed with this cause.
    Cause(Cause),
}

impl RetryStatus {
    /// The status that the attempt alone shows, before other attempts are known.
    pub fn from_brief_alone(brief: &AttemptBrief) -> Self {
        let says_so = brief.number > 1 || brief.retries.as_deref().is_some_and(|id| *id != brief.attempt);
        if says_so { Self::Unknown } else { Self::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{OpeningRecord, PredictionSnapshot, Resources, test_summary};

    #[test]
    fn a_million_attempts_take_no_more_than_was_promised() {
        // two counters of the pointer, and what the allocator adds: 128 bytes. One field more makes it 144.
        assert!(size_of::<AttemptBrief>() <= 104, "{}", size_of::<AttemptBrief>());
        assert!(size_of::<RungObservation>() <= 40, "{}", size_of::<RungObservation>());
    }

    #[test]
    fn a_size_that_was_given_comes_back_or_creeps_no_further() {
        let predicted_at_start = |size: Bytes| {
            let predicted = PredictionSnapshot {
                memory_request: size,
                memory_limit: size,
                ..PredictionSnapshot::default()
            };
            let opening = OpeningRecord { predicted: Some(predicted), ..OpeningRecord::default() };
            let [request, limit] =
                RungObservation::from(Summary { opening, ..test_summary("a", "zlib", "1", 10) })
                    .predicted_at_start()?;
            (request == limit).then_some(limit)
        };
        for mib in (1..3000).chain((3000..4_000_000).step_by(997)) {
            let size = Bytes(mib << 20);
            let back = predicted_at_start(size).unwrap();
            assert!(mib > 1400 || back == size, "{size} came back as {back}");
            assert!(back.0.abs_diff(size.0) <= size.0 / 1000, "{size} came back as {back}");
            assert_eq!(predicted_at_start(back), Some(back));
        }
        assert_eq!(RungObservation::from(test_summary("a", "zlib", "1", 10)).predicted_at_start(), None);
    }

    #[test]
    fn what_was_asked_for_comes_back_and_what_is_no_size_is_no_ask() {
        let asked = |memory_limit| {
            let resources = Resources { memory_limit, ..Resources::default() };
            let summary = Summary { resources, ..test_summary("a", "zlib", "1", 10) };
            AttemptBrief::from(&summary).memory_asked()
        };
        assert_eq!(asked(Some(Bytes(1 << 20))), Some(Bytes(1 << 20)));
        let no_size = [None, Some(Bytes(0)), Some(Bytes(1)), Some(Bytes(1 << 63))];
        assert_eq!(no_size.map(asked), [None; 4]);
    }
}
