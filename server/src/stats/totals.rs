//! Sums over some attempts.

use super::{
    prices::Price,
    row::{Flag, Retried, Row},
};
use crate::domain::{AskUse, Bytes, Cause};

/// Sums over some attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatsTotals {
    pub(crate) attempts: u64,
    /// By outcome.
    outcomes: [u32; 3],
    /// By cause; the first stands for none, and is not counted.
    causes: [u32; 1 + Cause::ALL.len()],
    /// The same of retries.
    retried: [u32; Retried::COUNT],
    /// Verdicts that said no to a retry, by the attempts that they are on.
    pub(crate) retries_avoided: u64,
    /// Retries that succeeded.
    pub(crate) retries_helped: u64,
    pub(crate) wall_hours: f64,
    pub(crate) cpu_core_hours: f64,
    /// Need over time, where it was measured.
    pub(crate) memory_used_gib_hours: f64,
    /// What became of the memory of attempts that asked for some and measured their need ([`AskUse`]).
    pub(crate) memory_used_of_asked_gib_hours: f64,
    pub(crate) memory_asked_gib_hours: f64,
    pub(crate) memory_wasted_gib_hours: f64,
    /// The same of CPU.
    pub(crate) cpu_used_of_asked_core_hours: f64,
    pub(crate) cpu_asked_core_hours: f64,
    pub(crate) cpu_wasted_core_hours: f64,
    /// Attempts that are left out of the sums: need over time, and CPU time, that were not measured.
    pub(crate) memory_not_measured: u64,
    pub(crate) cpu_not_measured: u64,
    pub(crate) asked_money: f64,
    pub(crate) wasted_money: f64,
    /// Highest need over memory asked for: sum, number and maximum.
    need_over_ask: (f64, u64, f32),
    /// GiB.
    need_max: f32,
    pub(crate) samples: u64,
    pub(crate) calibration: Calibration,
    pub(crate) would_have_been: WouldHaveBeen,
}

/// How predictions held.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Calibration {
    pub(crate) attempts: u64,
    pub(crate) within_limit: u64,
    pub(crate) within_request: u64,
    pub(crate) timed: u64,
    pub(crate) within_time: u64,
    /// Sum of |log2(predicted limit / need)|, and of how many attempts.
    error: (f64, u64),
}

/// What the predicted sizes would have been worth.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WouldHaveBeen {
    pub(crate) attempts: u64,
    pub(crate) asked_gib_hours: f64,
    pub(crate) predicted_gib_hours: f64,
    pub(crate) failed: u64,
    pub(crate) would_fail: u64,
    pub(crate) asked_money: f64,
    pub(crate) predicted_money: f64,
}

impl StatsTotals {
    /// Adds one attempt with the error of its prediction, at the price of its pool.
    pub(super) fn add(&mut self, row: &Row, error: f32, price: Price) {
        self.attempts += 1;
        count(&mut self.outcomes, row.outcome());
        if row.cause() > 0 {
            count(&mut self.causes, row.cause());
        }
        if row.retried != Retried::NOTHING {
            count(&mut self.retried, row.retried.index());
            self.retries_helped += u64::from(row.succeeded());
        }
        // a verdict on what succeeded says no as well, and saved nothing
        self.retries_avoided += u64::from(row.is(Flag::Refused) && !row.succeeded());
        self.wall_hours += f64::from(row.wall);
        sum(&mut self.cpu_core_hours, &mut self.cpu_not_measured, row.cpu);
        sum(&mut self.memory_used_gib_hours, &mut self.memory_not_measured, row.used);
        self.need_max = self.need_max.max(row.need);
        self.samples += u64::from(row.samples);
        self.add_asked(row, price);
        if row.is(Flag::Foreseen) || row.is(Flag::Timed) {
            self.add_foreseen(row, error, price);
        }
    }

    fn add_asked(&mut self, row: &Row, price: Price) {
        if let Some(AskUse { asked, used, wasted }) = row.memory_use() {
            self.memory_used_of_asked_gib_hours += used;
            self.memory_asked_gib_hours += asked;
            self.memory_wasted_gib_hours += wasted;
            self.asked_money += asked * price.gib_hour;
            self.wasted_money += wasted * price.gib_hour;
        }
        if let Some(AskUse { asked, used, wasted }) = row.cpu_use() {
            self.cpu_used_of_asked_core_hours += used;
            self.cpu_asked_core_hours += asked;
            self.cpu_wasted_core_hours += wasted;
            self.asked_money += asked * price.core_hour;
            self.wasted_money += wasted * price.core_hour;
        }
        if row.need > 0.0 && row.asked > 0.0 {
            let ratio = row.need / row.asked;
            let (sum, number, most) = self.need_over_ask;
            self.need_over_ask = (sum + f64::from(ratio), number + 1, most.max(ratio));
        }
    }

    fn add_foreseen(&mut self, row: &Row, error: f32, price: Price) {
        let is = |flag| u64::from(row.is(flag));
        let held = &mut self.calibration;
        held.timed += is(Flag::Timed);
        held.within_time += is(Flag::WithinTime);
        if row.is(Flag::Calibrated) {
            held.attempts += 1;
            held.within_limit += is(Flag::WithinLimit);
            held.within_request += is(Flag::WithinRequest);
        }
        if !error.is_nan() {
            held.error = (held.error.0 + f64::from(error), held.error.1 + 1);
        }
        if row.is(Flag::Foreseen) && !row.asked.is_nan() {
            let (asked, predicted) = (f64::from(row.asked * row.wall), f64::from(row.predicted * row.wall));
            let would = &mut self.would_have_been;
            would.attempts += 1;
            would.asked_gib_hours += asked;
            would.predicted_gib_hours += predicted;
            would.failed += u64::from(row.failed_for_memory());
            would.would_fail += 1 - is(Flag::WithinLimit);
            would.asked_money += asked * price.gib_hour;
            would.predicted_money += predicted * price.gib_hour;
        }
    }

    /// Adds other sums.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        merge(&mut self.outcomes, &other.outcomes);
        merge(&mut self.causes, &other.causes);
        merge(&mut self.retried, &other.retried);
        self.retries_avoided += other.retries_avoided;
        self.retries_helped += other.retries_helped;
        self.wall_hours += other.wall_hours;
        self.cpu_core_hours += other.cpu_core_hours;
        self.memory_used_gib_hours += other.memory_used_gib_hours;
        self.memory_used_of_asked_gib_hours += other.memory_used_of_asked_gib_hours;
        self.memory_asked_gib_hours += other.memory_asked_gib_hours;
        self.memory_wasted_gib_hours += other.memory_wasted_gib_hours;
        self.cpu_used_of_asked_core_hours += other.cpu_used_of_asked_core_hours;
        self.cpu_asked_core_hours += other.cpu_asked_core_hours;
        self.cpu_wasted_core_hours += other.cpu_wasted_core_hours;
        self.memory_not_measured += other.memory_not_measured;
        self.cpu_not_measured += other.cpu_not_measured;
        self.asked_money += other.asked_money;
        self.wasted_money += other.wasted_money;
        let ((sum, number, most), more) = (self.need_over_ask, other.need_over_ask);
        self.need_over_ask = (sum + more.0, number + more.1, most.max(more.2));
        self.need_max = self.need_max.max(other.need_max);
        self.samples += other.samples;
        self.calibration.merge(&other.calibration);
        self.would_have_been.merge(&other.would_have_been);
    }

    pub(crate) fn succeeded(&self) -> u64 {
        self.outcomes[0].into()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.outcomes[1].into()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.outcomes[2].into()
    }

    /// Attempts with this cause.
    pub(crate) fn of_cause(&self, cause: Cause) -> u64 {
        self.causes.get(1 + cause as usize).copied().unwrap_or_default().into()
    }

    /// Attempts by cause, without those that no attempt has.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().map(|cause| (cause, self.of_cause(cause))).filter(|(_, count)| *count > 0)
    }

    /// Attempts that are retries.
    pub(crate) fn retries(&self) -> u64 {
        self.retried.iter().skip(1).copied().map(u64::from).sum()
    }

    /// Retries by the cause of what they retry, `None` where that is not known; without those that there are none of.
    pub(crate) fn retries_by_cause(&self) -> impl Iterator<Item = (Option<Cause>, u64)> {
        let all = self.retried.iter().copied().enumerate().skip(1);
        all.map(|(index, count)| (Retried::cause(index), u64::from(count))).filter(|(_, count)| *count > 0)
    }

    /// Highest need of all: exact for whole pages below 64 GiB, to 24 bits above.
    pub(crate) fn need_peak_max(&self) -> Bytes {
        Bytes::from_f64(f64::from(self.need_max) * Bytes::GIB.as_f64())
    }

    /// Mean and maximum of need over ask; zeros if nobody asked.
    pub(crate) fn need_over_ask(&self) -> (f64, f64) {
        let (sum, number, most) = self.need_over_ask;
        (mean(sum, number), f64::from(most))
    }
}

impl Calibration {
    fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.within_limit += other.within_limit;
        self.within_request += other.within_request;
        self.timed += other.timed;
        self.within_time += other.within_time;
        self.error = (self.error.0 + other.error.0, self.error.1 + other.error.1);
    }

    /// Mean of |log2(predicted limit / need)|; 0 if there is none.
    pub(crate) fn error_log2_mean(&self) -> f64 {
        mean(self.error.0, self.error.1)
    }
}

impl WouldHaveBeen {
    fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.asked_gib_hours += other.asked_gib_hours;
        self.predicted_gib_hours += other.predicted_gib_hours;
        self.failed += other.failed;
        self.would_fail += other.would_fail;
        self.asked_money += other.asked_money;
        self.predicted_money += other.predicted_money;
    }
}

/// Adds a number, or counts that there is none.
fn sum(sum: &mut f64, missing: &mut u64, number: f32) {
    if number.is_nan() {
        *missing += 1;
    } else {
        *sum += f64::from(number);
    }
}

fn count<const N: usize>(counts: &mut [u32; N], index: usize) {
    if let Some(count) = counts.get_mut(index) {
        *count = count.saturating_add(1);
    }
}

fn merge<const N: usize>(counts: &mut [u32; N], others: &[u32; N]) {
    counts.iter_mut().zip(others).for_each(|(count, other)| *count = count.saturating_add(*other));
}

fn mean(sum: f64, number: u64) -> f64 {
    if number == 0 { 0.0 } else { sum / crate::domain::Millis(number).as_f64() }
}
