//! One finished attempt as a row of 56 bytes, without its labels.
//!
//! Numbers have 24 bits: they are exact to a ten-millionth of their value, and differences to a ten-millionth of the larger number. Sums
//! are `f64`. Values that a row lacks are read from the attempt itself.

use std::sync::Arc;

use plimsoll_proto::measured::{self, IncompleteNeed};

use crate::domain::{
    AttemptBrief, Bytes, Cause, Cores, Millis, Outcome, RequestUsage, RetryStatus, StatsFields,
};

/// One finished attempt.
#[derive(Debug, Clone)]
pub(in crate::stats) struct AttemptRow {
    pub(in crate::stats) brief: Arc<AttemptBrief>,
    /// End, whole seconds since 1970; ends that do not fit have the largest number.
    pub(in crate::stats) ended: u32,
    /// Index of the attempt's build in the table of builds.
    pub(in crate::stats) build: u32,
    pub(in crate::stats) owner: u16,
    pub(in crate::stats) pool: u16,
    pub(in crate::stats) ref_class: u8,
    /// A [`RetryMark`], and [`NAMES_ORIGINAL`].
    retried: u8,
    end: u8,
    flags: u8,
    /// Wall time, hours.
    pub(in crate::stats) wall: f32,
    /// Mean need multiplied by wall time, GiB x h; NaN if it was not measured.
    pub(in crate::stats) used: f32,
    /// Requested memory, GiB; NaN if none was requested.
    pub(in crate::stats) asked: f32,
    /// CPU time used, cores x h; NaN if it was not measured.
    pub(in crate::stats) cpu: f32,
    /// Requested CPU, cores; NaN if none was requested.
    pub(in crate::stats) cpu_asked: f32,
    /// Highest need, GiB; 0 if it was not measured.
    pub(in crate::stats) need: f32,
    pub(in crate::stats) samples: u32,
    /// Predicted memory request, GiB; NaN without a prediction, or if nothing is known about the need.
    pub(in crate::stats) predicted: f32,
}

/// A bit of [`AttemptRow::end`], above cause and outcome: memory stopped the attempt, so that its need is a lower bound.
const CENSORED: u8 = 1 << 7;

/// A bit of [`AttemptRow::retried`], above the mark: the attempt itself names the attempt that it retries.
const NAMES_ORIGINAL: u8 = 1 << 7;

/// Whether an attempt is a retry, and why the retried attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stats) struct RetryMark(u8);

impl RetryMark {
    /// The attempt is not a retry.
    pub(in crate::stats) const NOTHING: Self = Self(0);
    /// The attempt is a retry of an unknown attempt, or of an unknown cause.
    pub(in crate::stats) const UNKNOWN: Self = Self(1);
    /// Number of different marks.
    pub(in crate::stats) const COUNT: usize = 2 + Cause::ALL.len();

    pub(in crate::stats) fn of(after: RetryStatus) -> Self {
        match after {
            RetryStatus::Nothing => Self::NOTHING,
            RetryStatus::Unknown => Self::UNKNOWN,
            RetryStatus::Cause(cause) => Self(2 + cause as u8),
        }
    }

    /// Index of the mark, below [`Self::COUNT`].
    pub(in crate::stats) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(in crate::stats) fn cause(index: usize) -> Option<Cause> {
        index.checked_sub(2).and_then(|place| Cause::ALL.get(place)).copied()
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(in crate::stats) enum RowFlag {
    /// A verdict refused a retry.
    Refused = 1,
    /// It is known whether the predicted request would have sufficed.
    RequestJudged = 2,
    /// It is known whether the predicted limit would have sufficed.
    LimitJudged = 4,
    WithinLimit = 8,
    WithinRequest = 16,
    /// The attempt succeeded and has a predicted time.
    Timed = 32,
    WithinTime = 64,
    /// The attempt found its work done already, so its need does not count.
    Unneeded = 128,
}

impl AttemptRow {
    /// Creates the row of an attempt; `build` is the number of its build.
    pub(in crate::stats) fn new(brief: &Arc<AttemptBrief>, beside: &StatsFields<'_>, build: u32) -> Self {
        let hours = brief.wall.hours();
        let mut row = Self {
            ended: u32::try_from(brief.ended_unix_ms() / 1000).unwrap_or(u32::MAX),
            build,
            owner: 0,
            pool: 0,
            ref_class: 0,
            retried: RetryMark::of(RetryStatus::from_brief_alone(brief)).0
                | if brief.retries.is_some() { NAMES_ORIGINAL } else { 0 },
            end: (brief.outcome as u8) << 5
                | brief.cause.map_or(0, |cause| 1 + cause as u8)
                | if beside.censored { CENSORED } else { 0 },
            flags: 0,
            wall: to_f32(hours),
            used: nan_if_zero(brief.need_mean.0, brief.need_mean.gib_hours(brief.wall)),
            asked: brief.memory_asked().map_or(f32::NAN, gib_f32),
            cpu: nan_if_zero(brief.cpu.0, brief.cpu.as_f64() / 3.6e9),
            cpu_asked: beside.cpu_asked.map_or(f32::NAN, |Cores(cores)| to_f32(cores)),
            need: gib_f32(beside.proven.filter(|_| beside.censored).unwrap_or(brief.need_peak)),
            samples: brief.samples,
            predicted: f32::NAN,
            brief: Arc::clone(brief),
        };
        row.set_if(brief.is_not_a_measurement(), RowFlag::Unneeded);
        row.compare_with_prediction(beside);
        row
    }

    /// Sets the flags for how the attempt compares with its prediction.
    fn compare_with_prediction(&mut self, beside: &StatsFields<'_>) {
        let Some(predicted) = beside.predicted else { return };
        let built = self.succeeded() && !beside.censored && !self.has_flag(RowFlag::Unneeded);
        let was_paused = self.brief.incomplete() == Some(IncompleteNeed::Paused);
        if built && !was_paused && predicted.wall_p95 > Millis(0) {
            self.set_flag(RowFlag::Timed);
            self.set_if(self.brief.wall <= predicted.wall_p95, RowFlag::WithinTime);
        }
        let Some(need) = beside.proven.filter(|_| predicted.memory_limit > Bytes(0)) else { return };
        self.predicted = gib_f32(predicted.memory_request);
        for (size, judged, within) in [
            (predicted.memory_limit, RowFlag::LimitJudged, RowFlag::WithinLimit),
            (predicted.memory_request, RowFlag::RequestJudged, RowFlag::WithinRequest),
        ] {
            let held = measured::need_fits(need.0, beside.censored, size.0);
            self.set_if(held.is_some(), judged);
            self.set_if(held == Some(true), within);
        }
    }

    /// Whether the attempt has a prediction and proves a need, at least as a lower bound.
    pub(in crate::stats) fn has_judged_prediction(&self) -> bool {
        !self.predicted.is_nan()
    }

    /// Whether the need is a lower bound, because memory stopped the attempt.
    pub(in crate::stats) fn is_lower_bound(&self) -> bool {
        self.end & CENSORED != 0
    }

    /// Whether the attempt is a retry, as far as is known now.
    pub(in crate::stats) fn retried(&self) -> RetryMark {
        RetryMark(self.retried & !NAMES_ORIGINAL)
    }

    pub(in crate::stats) fn set_retried(&mut self, mark: RetryMark) {
        self.retried = self.retried & NAMES_ORIGINAL | mark.0;
    }

    /// Whether the attempt itself names the attempt that it retries.
    pub(in crate::stats) fn names_original(&self) -> bool {
        self.retried & NAMES_ORIGINAL != 0
    }

    pub(in crate::stats) fn set_flag(&mut self, flag: RowFlag) {
        self.flags |= flag as u8;
    }

    /// Sets or clears a flag.
    pub(in crate::stats) fn put_flag(&mut self, flag: RowFlag, yes: bool) {
        self.flags = if yes { self.flags | flag as u8 } else { self.flags & !(flag as u8) };
    }

    fn set_if(&mut self, yes: bool, flag: RowFlag) {
        if yes {
            self.set_flag(flag);
        }
    }

    /// Whether a flag is set.
    pub(in crate::stats) fn has_flag(&self, flag: RowFlag) -> bool {
        self.flags & flag as u8 != 0
    }

    /// The attempt's [`Outcome`] as a number.
    pub(in crate::stats) fn outcome(&self) -> usize {
        usize::from((self.end & !CENSORED) >> 5)
    }

    pub(in crate::stats) fn succeeded(&self) -> bool {
        self.outcome() == Outcome::Succeeded as usize
    }

    /// Whether the attempt was canceled, or its output was closed: the build did not fail.
    pub(in crate::stats) fn is_canceled(&self) -> bool {
        self.outcome() == Outcome::Failed as usize && self.cause() == 1 + Cause::Canceled as usize
    }

    /// 1 plus the number of the cause; 0 without a cause.
    pub(in crate::stats) fn cause(&self) -> usize {
        usize::from(self.end & 31)
    }

    /// Whether memory stopped the attempt.
    pub(in crate::stats) fn failed_for_memory(&self) -> bool {
        self.cause()
            .checked_sub(1)
            .and_then(|place| Cause::ALL.get(place))
            .is_some_and(|cause| cause.is_memory())
    }

    /// How the requested memory was used, GiB x h; `None` if the attempt requested none, or its need was not measured.
    pub(in crate::stats) fn memory_use(&self) -> Option<RequestUsage> {
        RequestUsage::of(not_nan(self.asked * self.wall), not_nan(self.used), self.succeeded())
    }

    /// How the requested CPU was used, cores x h; `None` if the attempt requested none, or its use was not measured.
    pub(in crate::stats) fn cpu_use(&self) -> Option<RequestUsage> {
        RequestUsage::of(not_nan(self.cpu_asked * self.wall), not_nan(self.cpu), self.succeeded())
    }

    /// Memory wasted, GiB x h; 0 if unknown.
    pub(in crate::stats) fn wasted(&self) -> f64 {
        self.memory_use().map_or(0.0, |memory| memory.wasted)
    }

    /// The need that the attempt proves, GiB; `None` if it proves none.
    pub(in crate::stats) fn proven_gib(&self) -> Option<f32> {
        // a log line proves nothing; few attempts fail for memory, so reading the others' values for them takes no time
        let by_memory = self.failed_for_memory() && !self.brief.is_cause_by_log();
        let ended = self.succeeded() || by_memory;
        (self.need > 0.0 && ended && !self.has_flag(RowFlag::Unneeded)).then_some(self.need)
    }
}

/// Prediction error: `abs(log2(predicted limit / need))` if the need is known, else NaN.
pub(in crate::stats) fn error_of(beside: &StatsFields<'_>) -> f32 {
    match (beside.predicted, beside.proven) {
        (Some(predicted), Some(need)) if !beside.censored && need.0 > 0 && predicted.memory_limit.0 > 0 => {
            to_f32((predicted.memory_limit.as_f64() / need.as_f64()).log2().abs())
        }
        _ => f32::NAN,
    }
}

/// The number; `None` for NaN.
fn not_nan(value: f32) -> Option<f64> {
    Some(f64::from(value)).filter(|value| !value.is_nan())
}

/// `value`, or NaN if `measured` is 0 (not measured).
fn nan_if_zero(measured: u64, value: f64) -> f32 {
    if measured == 0 { f32::NAN } else { to_f32(value) }
}

fn gib_f32(bytes: Bytes) -> f32 {
    to_f32(bytes.as_f64() / Bytes::GIB.as_f64())
}

#[expect(clippy::cast_possible_truncation, reason = "24 bits of a number are a ten-millionth of its value")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests;
