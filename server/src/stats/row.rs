//! One finished attempt as statistics keep it: 56 bytes, beside its labels.
//!
//! Each number has 24 bits, a ten-millionth of its value, and a difference of two as much of the larger one; sums of them have
//! 53. An attempt is counted with its brief, which
//! tells what a row does not.

use std::sync::Arc;

use crate::domain::{AskUse, Beside, Brief, Bytes, Cause, Cores, Millis, Outcome, RetryAfter};

/// One finished attempt.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) brief: Arc<Brief>,
    /// End, whole seconds since 1970; the largest number for what is later.
    pub(super) ended: u32,
    /// Number of what was built.
    pub(super) build: u32,
    pub(super) owner: u16,
    pub(super) pool: u16,
    pub(super) ref_class: u8,
    pub(super) retried: Retried,
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
    /// Memory that was predicted to request, GiB; NaN without.
    pub(super) predicted: f32,
}

/// Whether an attempt is a retry, and why the attempt failed that it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retried(u8);

impl Retried {
    /// It retries nothing.
    pub(super) const NOTHING: Self = Self(0);
    /// Nobody knows what it retries, or why that failed.
    pub(super) const UNKNOWN: Self = Self(1);
    /// How many there are.
    pub(super) const COUNT: usize = 2 + Cause::ALL.len();

    pub(super) fn of(after: RetryAfter) -> Self {
        match after {
            RetryAfter::Nothing => Self::NOTHING,
            RetryAfter::Unknown => Self::UNKNOWN,
            RetryAfter::Cause(cause) => Self(2 + cause as u8),
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
pub(super) enum Flag {
    /// A verdict said no to a retry.
    Refused = 1,
    /// It has a prediction, and what it needed is known, or that it is more than it had.
    Foreseen = 2,
    /// It can be said whether the predicted limit was enough.
    Calibrated = 4,
    WithinLimit = 8,
    WithinRequest = 16,
    /// It succeeded and has a predicted time.
    Timed = 32,
    WithinTime = 64,
    /// It found its work done already: what it needed says nothing.
    Unneeded = 128,
}

impl Row {
    /// The row of an attempt, with a number for what it has in common with others.
    pub(super) fn new(brief: &Arc<Brief>, beside: &Beside<'_>, build: u32) -> Self {
        let hours = brief.wall.hours();
        let mut row = Self {
            ended: u32::try_from(brief.ended_unix_ms() / 1000).unwrap_or(u32::MAX),
            build,
            owner: 0,
            pool: 0,
            ref_class: 0,
            retried: Retried::of(RetryAfter::alone(brief)),
            end: (brief.outcome as u8) << 5 | brief.cause.map_or(0, |cause| 1 + cause as u8),
            flags: 0,
            wall: narrow(hours),
            used: unless_zero(brief.need_mean.0, brief.need_mean.gib_hours(brief.wall)),
            asked: brief.memory_asked().map_or(f32::NAN, gib),
            cpu: unless_zero(brief.cpu.0, brief.cpu.as_f64() / 3.6e9),
            cpu_asked: beside.cpu_asked.map_or(f32::NAN, |Cores(cores)| narrow(cores)),
            need: gib(brief.need_peak),
            samples: brief.samples,
            predicted: f32::NAN,
            brief: Arc::clone(brief),
        };
        row.set_if(brief.unneeded, Flag::Unneeded);
        row.foresee(beside);
        row
    }

    /// Holds what came against what was predicted.
    fn foresee(&mut self, beside: &Beside<'_>) {
        let Some(predicted) = beside.predicted else { return };
        let built = self.succeeded() && !beside.censored && !self.is(Flag::Unneeded);
        if built && predicted.wall_p95 > Millis(0) {
            self.set(Flag::Timed);
            self.set_if(self.brief.wall <= predicted.wall_p95, Flag::WithinTime);
        }
        let Some(need) = beside.proven.filter(|_| predicted.memory_limit > Bytes(0)) else { return };
        self.predicted = gib(predicted.memory_request);
        self.set(Flag::Foreseen);
        // what stopped below the limit might have stayed below it, or not
        let held =
            if beside.censored { need < predicted.memory_limit } else { need <= predicted.memory_limit };
        self.set_if(!(beside.censored && held), Flag::Calibrated);
        self.set_if(held, Flag::WithinLimit);
        self.set_if(!beside.censored && need <= predicted.memory_request, Flag::WithinRequest);
    }

    /// From now on it is true.
    pub(super) fn set(&mut self, flag: Flag) {
        self.flags |= flag as u8;
    }

    /// From now on it is true, or is not.
    pub(super) fn put(&mut self, flag: Flag, yes: bool) {
        self.flags = if yes { self.flags | flag as u8 } else { self.flags & !(flag as u8) };
    }

    fn set_if(&mut self, yes: bool, flag: Flag) {
        if yes {
            self.set(flag);
        }
    }

    /// Whether it is true.
    pub(super) fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    /// The outcome's place among all three.
    pub(super) fn outcome(&self) -> usize {
        usize::from(self.end >> 5)
    }

    pub(super) fn succeeded(&self) -> bool {
        self.outcome() == Outcome::Succeeded as usize
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
    pub(super) fn memory_use(&self) -> Option<AskUse> {
        AskUse::of(known(self.asked * self.wall), known(self.used), self.succeeded())
    }

    /// The same of CPU: core x h.
    pub(super) fn cpu_use(&self) -> Option<AskUse> {
        AskUse::of(known(self.cpu_asked * self.wall), known(self.cpu), self.succeeded())
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
        (self.need > 0.0 && ended && !self.is(Flag::Unneeded)).then_some(self.need)
    }
}

/// |log2(predicted limit / need)| of an attempt whose need is known; NaN of others.
pub(super) fn error_of(beside: &Beside<'_>) -> f32 {
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
mod tests {
    use super::*;
    use crate::domain::{CpuMicros, Predicted, Resources, Summary, test_summary};

    fn row(change: impl FnOnce(&mut Summary)) -> Row {
        let mut summary = test_summary("a", "zlib", "1", 1024);
        change(&mut summary);
        Row::new(&Arc::new(Brief::from(&summary)), &(&summary).into(), 0)
    }

    #[test]
    fn a_million_rows_take_no_more_than_was_promised() {
        assert_eq!(size_of::<Row>(), 56);
    }

    #[test]
    fn causes_and_outcomes_have_the_place_that_their_numbers_say() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
            assert_eq!(Retried::cause(Retried::of(RetryAfter::Cause(cause)).index()), Some(cause));
            let row = row(|summary| (summary.outcome, summary.cause) = (Outcome::Failed, Some(cause)));
            assert_eq!(
                (row.cause(), row.outcome(), row.failed_for_memory()),
                (place + 1, 1, cause.is_memory())
            );
        }
    }

    #[test]
    fn a_need_that_was_cut_off_below_the_predicted_limit_says_nothing_of_the_prediction() {
        let predicted = Predicted {
            memory_request: Bytes(1 << 30),
            memory_limit: Bytes(2 << 30),
            wall_p95: Millis(60_000),
            ..Predicted::default()
        };
        let foreseen = |need_mib: u64, limit_mib: u64, censored: bool| {
            row(|summary| {
                summary.opening.predicted = Some(predicted);
                summary.need_peak = Bytes(need_mib << 20);
                summary.resources =
                    Resources { memory_limit: Some(Bytes(limit_mib << 20)), ..Resources::default() };
                summary.censored = censored;
            })
        };
        let said = |row: Row| {
            [Flag::Calibrated, Flag::WithinLimit, Flag::WithinRequest, Flag::Timed].map(|flag| row.is(flag))
        };
        assert_eq!(said(foreseen(1024, 4096, false)), [true, true, true, true]);
        assert_eq!(said(foreseen(2048, 4096, false)), [true, true, false, true]);
        assert_eq!(said(foreseen(2049, 4096, false)), [true, false, false, true]);
        assert_eq!(said(foreseen(1000, 1024, true)), [false, true, false, false]);
        assert_eq!(said(foreseen(2048, 2048, true)), [true, false, false, false]);
    }

    #[test]
    fn a_build_that_found_its_work_done_shows_no_need_and_no_time() {
        let of = |unneeded| {
            row(|summary| {
                let predicted =
                    Predicted { memory_limit: Bytes(1), wall_p95: Millis(1), ..Predicted::default() };
                (summary.opening.predicted, summary.unneeded) = (Some(predicted), unneeded);
            })
        };
        let said = |row: &Row| (row.proven().is_some(), row.brief.proven().is_some(), row.is(Flag::Timed));
        assert_eq!((said(&of(false)), said(&of(true))), ((true, true, true), (false, false, false)));
    }

    #[test]
    fn what_a_failed_attempt_held_is_wasted_whole() {
        let resources = Resources {
            memory_limit: Some(Bytes(4 << 30)),
            cpu_limit: Some(Cores(4.0)),
            ..Resources::default()
        };
        let good = row(|summary| summary.resources = resources);
        let bad = row(|summary| (summary.resources, summary.outcome) = (resources, Outcome::Lost));
        let silent = row(|summary| summary.outcome = Outcome::Failed);
        // a minute with half a GiB and two cores in use
        let minutes = |row: &Row| [row.memory_use(), row.cpu_use()].map(|part| part.unwrap().wasted * 60.0);
        for (said, expected) in minutes(&good).into_iter().chain(minutes(&bad)).zip([3.5, 2.0, 4.0, 4.0]) {
            assert!((said - expected).abs() < 1e-5, "{said} {expected}");
        }
        assert_eq!((silent.memory_use(), silent.cpu_use()), (None, None));
    }
    #[test]
    fn what_was_not_measured_is_neither_used_nor_wasted() {
        let resources = Resources {
            memory_request: Some(Bytes(4 << 30)),
            cpu_request: Some(Cores(4.0)),
            ..Resources::default()
        };
        let imported = row(|summary| {
            (summary.resources, summary.need_mean, summary.cpu) = (resources, Bytes(0), CpuMicros(0));
        });
        assert_eq!((imported.memory_use(), imported.cpu_use(), imported.wasted()), (None, None, 0.0));
    }
}
