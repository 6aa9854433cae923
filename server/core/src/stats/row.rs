//! One finished attempt as statistics keep it: 56 bytes, beside its labels.
//!
//! Each number has 24 bits, a ten-millionth of its value, and a difference of two as much of the larger one; sums of them have
//! 53. An attempt is counted with its brief, which
//! tells what a row does not.

use std::sync::Arc;

use plimsoll_proto::measured;

use crate::domain::{
    AttemptBrief, Bytes, Cause, Cores, Millis, Outcome, RequestUsage, RetryStatus, StatsFields,
};

/// One finished attempt.
#[derive(Debug, Clone)]
pub(super) struct AttemptRow {
    pub(super) brief: Arc<AttemptBrief>,
    /// End, whole seconds since 1970; the largest number for what is later.
    pub(super) ended: u32,
    /// Number of what was built.
    pub(super) build: u32,
    pub(super) owner: u16,
    pub(super) pool: u16,
    pub(super) ref_class: u8,
    pub(super) retried: RetryMark,
    end: u8,
    flags: u8,
    /// Hours.
    pub(super) wall: f32,
    /// Need over time, GiB x h; NaN if it was not measured.
    pub(super) used: f32,
    /// Memory asked for, GiB; NaN without.
    pub(super) asked: f32,
    /// CPU used, core x h; NaN if it was not measured.
    pub(super) cpu: f32,
    /// CPU asked for, cores; NaN without.
    pub(super) cpu_asked: f32,
    /// Highest need, GiB; 0 if it was not measured.
    pub(super) need: f32,
    pub(super) samples: u32,
    /// Memory that was predicted to request, GiB; NaN without, or if nothing is known of what it needed.
    pub(super) predicted: f32,
}

/// The bit of [`AttemptRow::end`] above cause and outcome: memory stopped it, and what it needed is a lower bound.
const CENSORED: u8 = 1 << 7;

/// Whether an attempt is a retry, and why the attempt failed that it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryMark(u8);

impl RetryMark {
    /// It retries nothing.
    pub(super) const NOTHING: Self = Self(0);
    /// It is not known what it retries, or why that failed.
    pub(super) const UNKNOWN: Self = Self(1);
    /// How many there are.
    pub(super) const COUNT: usize = 2 + Cause::ALL.len();

    pub(super) fn of(after: RetryStatus) -> Self {
        match after {
            RetryStatus::Nothing => Self::NOTHING,
            RetryStatus::Unknown => Self::UNKNOWN,
            RetryStatus::Cause(cause) => Self(2 + cause as u8),
        }
    }

    /// Below [`Self::COUNT`].
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The cause of the attempt at this index.
    pub(super) fn cause(index: usize) -> Option<Cause> {
        index.checked_sub(2).and_then(|place| Cause::ALL.get(place)).copied()
    }
}

/// What is true of a row.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum RowFlag {
    /// A verdict said no to a retry.
    Refused = 1,
    /// It can be said whether the predicted request was enough.
    RequestJudged = 2,
    /// It can be said whether the predicted limit was enough.
    LimitJudged = 4,
    WithinLimit = 8,
    WithinRequest = 16,
    /// It succeeded and has a predicted time.
    Timed = 32,
    WithinTime = 64,
    /// It found its work done already: what it needed says nothing.
    Unneeded = 128,
}

impl AttemptRow {
    /// The row of an attempt, with a number for what it has in common with others.
    pub(super) fn new(brief: &Arc<AttemptBrief>, beside: &StatsFields<'_>, build: u32) -> Self {
        let hours = brief.wall.hours();
        let mut row = Self {
            ended: u32::try_from(brief.ended_unix_ms() / 1000).unwrap_or(u32::MAX),
            build,
            owner: 0,
            pool: 0,
            ref_class: 0,
            retried: RetryMark::of(RetryStatus::alone(brief)),
            end: (brief.outcome as u8) << 5
                | brief.cause.map_or(0, |cause| 1 + cause as u8)
                | if beside.censored { CENSORED } else { 0 },
            flags: 0,
            wall: narrow(hours),
            used: unless_zero(brief.need_mean.0, brief.need_mean.gib_hours(brief.wall)),
            asked: brief.memory_asked().map_or(f32::NAN, gib),
            cpu: unless_zero(brief.cpu.0, brief.cpu.as_f64() / 3.6e9),
            cpu_asked: beside.cpu_asked.map_or(f32::NAN, |Cores(cores)| narrow(cores)),
            need: gib(beside.proven.filter(|_| beside.censored).unwrap_or(brief.need_peak)),
            samples: brief.samples,
            predicted: f32::NAN,
            brief: Arc::clone(brief),
        };
        row.set_if(brief.is_no_measure, RowFlag::Unneeded);
        row.foresee(beside);
        row
    }

    /// Holds what came against what was predicted.
    fn foresee(&mut self, beside: &StatsFields<'_>) {
        let Some(predicted) = beside.predicted else { return };
        let built = self.succeeded() && !beside.censored && !self.is(RowFlag::Unneeded);
        if built && predicted.wall_p95 > Millis(0) {
            self.set(RowFlag::Timed);
            self.set_if(self.brief.wall <= predicted.wall_p95, RowFlag::WithinTime);
        }
        let Some(need) = beside.proven.filter(|_| predicted.memory_limit > Bytes(0)) else { return };
        self.predicted = gib(predicted.memory_request);
        for (size, judged, within) in [
            (predicted.memory_limit, RowFlag::LimitJudged, RowFlag::WithinLimit),
            (predicted.memory_request, RowFlag::RequestJudged, RowFlag::WithinRequest),
        ] {
            let held = measured::holds(need.0, beside.censored, size.0);
            self.set_if(held.is_some(), judged);
            self.set_if(held == Some(true), within);
        }
    }

    /// It has a prediction, and what it needed is known, or that it is more than it had.
    pub(super) fn is_foreseen(&self) -> bool {
        !self.predicted.is_nan()
    }

    /// Memory stopped it: it needs more than was measured.
    pub(super) fn is_lower_bound(&self) -> bool {
        self.end & CENSORED != 0
    }

    /// From now on it is true.
    pub(super) fn set(&mut self, flag: RowFlag) {
        self.flags |= flag as u8;
    }

    /// From now on it is true, or is not.
    pub(super) fn put(&mut self, flag: RowFlag, yes: bool) {
        self.flags = if yes { self.flags | flag as u8 } else { self.flags & !(flag as u8) };
    }

    fn set_if(&mut self, yes: bool, flag: RowFlag) {
        if yes {
            self.set(flag);
        }
    }

    /// Whether it is true.
    pub(super) fn is(&self, flag: RowFlag) -> bool {
        self.flags & flag as u8 != 0
    }

    /// The outcome's place among all three.
    pub(super) fn outcome(&self) -> usize {
        usize::from((self.end & !CENSORED) >> 5)
    }

    pub(super) fn succeeded(&self) -> bool {
        self.outcome() == Outcome::Succeeded as usize
    }

    /// It was canceled, or what read its output left: no failure of the build.
    pub(super) fn is_canceled(&self) -> bool {
        self.outcome() == Outcome::Failed as usize && self.cause() == 1 + Cause::Canceled as usize
    }

    /// 0 without a cause, else one more than its place among all.
    pub(super) fn cause(&self) -> usize {
        usize::from(self.end & 31)
    }

    /// Memory stopped it.
    pub(super) fn failed_for_memory(&self) -> bool {
        self.cause()
            .checked_sub(1)
            .and_then(|place| Cause::ALL.get(place))
            .is_some_and(|cause| cause.is_memory())
    }

    /// What became of the memory that it asked for, GiB x h; `None` if it asked for none, or its need was not measured.
    pub(super) fn memory_use(&self) -> Option<RequestUsage> {
        RequestUsage::of(known(self.asked * self.wall), known(self.used), self.succeeded())
    }

    /// The same of CPU: core x h.
    pub(super) fn cpu_use(&self) -> Option<RequestUsage> {
        RequestUsage::of(known(self.cpu_asked * self.wall), known(self.cpu), self.succeeded())
    }

    /// Memory wasted, GiB x h; 0 where that is not known.
    pub(super) fn wasted(&self) -> f64 {
        self.memory_use().map_or(0.0, |memory| memory.wasted)
    }

    /// What it proves of the need, if anything, GiB.
    pub(super) fn proven(&self) -> Option<f32> {
        // a line of a log proves nothing; so few attempts failed that looking into their briefs takes no time
        let by_memory = self.failed_for_memory() && !self.brief.is_cause_by_log();
        let ended = self.succeeded() || by_memory;
        (self.need > 0.0 && ended && !self.is(RowFlag::Unneeded)).then_some(self.need)
    }
}

/// |log2(predicted limit / need)| of an attempt whose need is known; NaN of others.
pub(super) fn error_of(beside: &StatsFields<'_>) -> f32 {
    match (beside.predicted, beside.proven) {
        (Some(predicted), Some(need)) if !beside.censored && need.0 > 0 && predicted.memory_limit.0 > 0 => {
            narrow((predicted.memory_limit.as_f64() / need.as_f64()).log2().abs())
        }
        _ => f32::NAN,
    }
}

/// A number of which NaN stands for none.
fn known(value: f32) -> Option<f64> {
    Some(f64::from(value)).filter(|value| !value.is_nan())
}

/// `value`, or NaN where what it is made of was not measured.
fn unless_zero(measured: u64, value: f64) -> f32 {
    if measured == 0 { f32::NAN } else { narrow(value) }
}

fn gib(bytes: Bytes) -> f32 {
    narrow(bytes.as_f64() / Bytes::GIB.as_f64())
}

#[expect(clippy::cast_possible_truncation, reason = "24 bits of a number are a ten-millionth of its value")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests;
