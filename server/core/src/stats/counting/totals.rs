//! Sums over a set of attempts.

use crate::domain::{Bytes, Cause, RequestUsage, RescueTotals};
use crate::stats::{
    attempts::row::{AttemptRow, RetryMark, RowFlag},
    counting::need_to_request::{CensoredMax, NeedToRequest},
    prices::Price,
};

/// What counts of an attempt that is not in its row.
#[derive(Debug, Clone, Copy)]
pub(in crate::stats) struct BesideRow<'r> {
    /// Error of its prediction; NaN if it is not known.
    pub(in crate::stats) error: f32,
    /// What rescue did; `None` if it did not act.
    pub(in crate::stats) rescue: Option<&'r RescueTotals>,
    /// Price in its pool.
    pub(in crate::stats) price: Price,
}

/// Sums over a set of attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatsTotals {
    /// Number of attempts in the set.
    pub attempts: u64,
    /// Number of attempts by outcome; canceled attempts are among the failures.
    outcomes: [u32; 4],
    canceled: u32,
    /// Number of attempts by cause; the first entry is for no cause, and stays 0.
    causes: [u32; 1 + Cause::ALL.len()],
    /// Retries by the cause of the retried attempt; the first entry is for attempts that are none, and stays empty.
    retries: [Retries; RetryMark::COUNT],
    /// Number of attempts with a verdict that refused a retry.
    pub retries_avoided: u64,
    /// Sum of the wall time, hours.
    pub wall_hours: f64,
    /// Sum of the measured CPU time, cores x h.
    pub cpu_core_hours: f64,
    /// Sum of the measured mean need multiplied by wall time, GiB x h.
    pub memory_used_gib_hours: f64,
    /// The part of the requested memory that was used ([`RequestUsage`]), over attempts with a request and a measured need.
    pub memory_used_of_asked_gib_hours: f64,
    /// Memory that attempts with a request and a measured need requested, GiB x h.
    pub memory_asked_gib_hours: f64,
    /// The part of the requested memory that was not used, GiB x h.
    pub memory_wasted_gib_hours: f64,
    /// The part of the requested CPU that was used, over attempts with a request and a measured use.
    pub cpu_used_of_asked_core_hours: f64,
    /// CPU that attempts with a request and a measured use requested, cores x h.
    pub cpu_asked_core_hours: f64,
    /// The part of the requested CPU that was not used, cores x h.
    pub cpu_wasted_core_hours: f64,
    /// Number of attempts left out of the memory sums, because their need was not measured.
    pub memory_not_measured: u64,
    /// Number of attempts left out of the CPU sums, because their CPU time was not measured.
    pub cpu_not_measured: u64,
    /// Number of attempts with a measured need that requested no memory.
    pub memory_not_asked: u64,
    /// Number of attempts with measured CPU time that requested no CPU.
    pub cpu_not_asked: u64,
    /// Sum of the wall time of the attempts with measured CPU time, hours.
    pub cpu_wall_hours: f64,
    /// Price of the requested memory and CPU.
    pub asked_money: f64,
    /// Price of the requested memory that was not used.
    pub memory_wasted_money: f64,
    /// Price of the requested CPU that was not used.
    pub cpu_wasted_money: f64,
    /// Ratio of highest need to requested memory.
    pub need_over_ask: NeedToRequest,
    /// Highest need of any attempt, GiB.
    need_max: CensoredMax,
    /// Number of samples of all these attempts.
    pub samples: u64,
    /// How accurate the predictions were.
    pub calibration: Calibration,
    /// What the attempts would have requested with the predicted sizes, and how many would have failed.
    pub would_have_been: ShadowTotals,
    /// What rescue saved, and what that cost.
    pub rescue: RescueTotals,
}

/// Retries after failures of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Retries {
    /// Number of retries.
    pub count: u64,
    /// Number of retries that succeeded.
    pub passed: u64,
    /// Memory that the retries requested, GiB x h; a retry without a request counts as 0.
    pub asked_gib_hours: f64,
}

/// How accurate predictions were, over attempts with a prediction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// Number of attempts for which it is known whether the predicted limit sufficed.
    pub attempts: u64,
    /// Number of attempts with a need of at most the predicted limit.
    pub within_limit: u64,
    /// Number of attempts for which it is known whether the predicted request sufficed.
    pub request_attempts: u64,
    /// Number of attempts with a need of at most the predicted request.
    pub within_request: u64,
    /// Number of attempts with a predicted time.
    pub timed: u64,
    /// Number of attempts that took at most the predicted 95th percentile.
    pub within_time: u64,
    /// Sum of `abs(log2(predicted limit / need))`, and number of attempts in it.
    error: (f64, u64),
}

/// What attempts would have requested with the predicted sizes, and how many would have failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShadowTotals {
    /// Number of attempts that are compared.
    pub attempts: u64,
    /// Memory that these attempts requested, GiB x h.
    pub asked_gib_hours: f64,
    /// Memory that these attempts would have requested as predicted, GiB x h.
    pub predicted_gib_hours: f64,
    /// Number of attempts that memory ended.
    pub failed: u64,
    /// Number of attempts with a need above the predicted limit.
    pub would_fail: u64,
    /// Price of the memory that these attempts requested.
    pub asked_money: f64,
    /// Price of the memory that these attempts would have requested as predicted.
    pub predicted_money: f64,
    /// Number of attempts that memory stopped below the predicted limit: it is unknown whether that limit would have sufficed.
    pub not_known: u64,
}

impl StatsTotals {
    /// Adds one attempt.
    pub(in crate::stats) fn add(&mut self, row: &AttemptRow, beside: BesideRow<'_>) {
        let BesideRow { error, rescue, price } = beside;
        self.attempts += 1;
        count(&mut self.outcomes, row.outcome());
        self.canceled = self.canceled.saturating_add(u32::from(row.is_canceled()));
        if row.cause() > 0 {
            count(&mut self.causes, row.cause());
        }
        let retries = self.retries.get_mut(row.retried().index());
        if let Some(retries) = retries.filter(|_| row.retried() != RetryMark::NOTHING) {
            let asked = row.asked * row.wall;
            retries.merge(&Retries {
                count: 1,
                passed: row.succeeded().into(),
                asked_gib_hours: if asked.is_nan() { 0.0 } else { asked.into() },
            });
        }
        // a verdict on a successful attempt refuses a retry too, but saves nothing
        self.retries_avoided += u64::from(row.has_flag(RowFlag::Refused) && !row.succeeded());
        self.wall_hours += f64::from(row.wall);
        if !row.cpu.is_nan() {
            self.cpu_wall_hours += f64::from(row.wall);
        }
        add_or_count(&mut self.cpu_core_hours, &mut self.cpu_not_measured, row.cpu);
        add_or_count(&mut self.memory_used_gib_hours, &mut self.memory_not_measured, row.used);
        self.need_max.merge(CensoredMax { value: row.need, is_lower: row.is_lower_bound() });
        self.samples += u64::from(row.samples);
        self.add_asked(row, price);
        if row.has_judged_prediction() || row.has_flag(RowFlag::Timed) {
            self.add_predicted(row, error, price);
        }
        if let Some(rescue) = rescue {
            self.rescue.merge(rescue);
        }
    }

    fn add_asked(&mut self, row: &AttemptRow, price: Price) {
        let (memory, cpu) = (row.memory_use(), row.cpu_use());
        self.memory_not_asked += u64::from(memory.is_none() && !row.used.is_nan());
        self.cpu_not_asked += u64::from(cpu.is_none() && !row.cpu.is_nan());
        if let Some(RequestUsage { asked, used, wasted }) = memory {
            self.memory_used_of_asked_gib_hours += used;
            self.memory_asked_gib_hours += asked;
            self.memory_wasted_gib_hours += wasted;
            self.asked_money += asked * price.gib_hour;
            self.memory_wasted_money += wasted * price.gib_hour;
        }
        if let Some(RequestUsage { asked, used, wasted }) = cpu {
            self.cpu_used_of_asked_core_hours += used;
            self.cpu_asked_core_hours += asked;
            self.cpu_wasted_core_hours += wasted;
            self.asked_money += asked * price.core_hour;
            self.cpu_wasted_money += wasted * price.core_hour;
        }
        if row.need > 0.0 && row.asked > 0.0 {
            let ratio = row.need / row.asked;
            self.need_over_ask.add(ratio, row.is_lower_bound());
        }
    }

    fn add_predicted(&mut self, row: &AttemptRow, error: f32, price: Price) {
        let is = |flag| u64::from(row.has_flag(flag));
        let held = &mut self.calibration;
        held.timed += is(RowFlag::Timed);
        held.within_time += is(RowFlag::WithinTime);
        held.attempts += is(RowFlag::LimitJudged);
        held.within_limit += is(RowFlag::WithinLimit);
        held.request_attempts += is(RowFlag::RequestJudged);
        held.within_request += is(RowFlag::WithinRequest);
        if !error.is_nan() {
            held.error = (held.error.0 + f64::from(error), held.error.1 + 1);
        }
        if row.has_judged_prediction() && row.asked > 0.0 {
            let (asked, predicted) = (f64::from(row.asked * row.wall), f64::from(row.predicted * row.wall));
            let would = &mut self.would_have_been;
            would.attempts += 1;
            would.asked_gib_hours += asked;
            would.predicted_gib_hours += predicted;
            would.failed += u64::from(row.failed_for_memory());
            would.would_fail +=
                u64::from(row.has_flag(RowFlag::LimitJudged) && !row.has_flag(RowFlag::WithinLimit));
            would.not_known += u64::from(row.failed_for_memory() && !row.has_flag(RowFlag::LimitJudged));
            would.asked_money += asked * price.gib_hour;
            would.predicted_money += predicted * price.gib_hour;
        }
    }

    /// Adds the sums over another set of attempts.
    pub fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        merge(&mut self.outcomes, &other.outcomes);
        self.canceled = self.canceled.saturating_add(other.canceled);
        merge(&mut self.causes, &other.causes);
        self.retries.iter_mut().zip(&other.retries).for_each(|(retries, other)| retries.merge(other));
        self.retries_avoided += other.retries_avoided;
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
        self.memory_not_asked += other.memory_not_asked;
        self.cpu_not_asked += other.cpu_not_asked;
        self.cpu_wall_hours += other.cpu_wall_hours;
        self.asked_money += other.asked_money;
        self.memory_wasted_money += other.memory_wasted_money;
        self.cpu_wasted_money += other.cpu_wasted_money;
        self.need_over_ask.merge(&other.need_over_ask);
        self.need_max.merge(other.need_max);
        self.samples += other.samples;
        self.calibration.merge(&other.calibration);
        self.would_have_been.merge(&other.would_have_been);
        self.rescue.merge(&other.rescue);
    }

    /// Number of attempts that succeeded.
    pub fn succeeded(&self) -> u64 {
        self.outcomes[0].into()
    }

    /// Number of failed attempts, without canceled ones.
    pub fn failed(&self) -> u64 {
        self.outcomes[1].saturating_sub(self.canceled).into()
    }

    /// Number of canceled attempts.
    pub fn canceled(&self) -> u64 {
        self.canceled.into()
    }

    /// Number of attempts with an end that was not seen.
    pub fn lost(&self) -> u64 {
        self.outcomes[2].into()
    }

    /// Number of attempts with an end that was seen, but with an unknown exit status.
    pub fn ended(&self) -> u64 {
        self.outcomes[3].into()
    }

    /// Number of attempts with this cause.
    pub fn of_cause(&self, cause: Cause) -> u64 {
        self.causes.get(1 + cause as usize).copied().unwrap_or_default().into()
    }

    /// Number of attempts by cause, without causes that do not occur.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().map(|cause| (cause, self.of_cause(cause))).filter(|(_, count)| *count > 0)
    }

    /// The attempts that are retries.
    pub fn retries(&self) -> Retries {
        let mut sum = Retries::default();
        self.retries.iter().for_each(|retries| sum.merge(retries));
        sum
    }

    /// Retries by the cause of the retried attempt (`None`: unknown), without causes that do not occur.
    pub fn retries_by_cause(&self) -> impl Iterator<Item = (Option<Cause>, Retries)> {
        let all = self.retries.iter().copied().enumerate();
        all.map(|(index, of)| (RetryMark::cause(index), of)).filter(|(_, of)| of.count > 0)
    }

    /// Price of the part of the requests that was not used.
    pub fn wasted_money(&self) -> f64 {
        self.memory_wasted_money + self.cpu_wasted_money
    }

    /// The highest need of any attempt: exact for whole pages below 64 GiB, rounded to 24 bits above.
    pub fn need_peak_max(&self) -> Bytes {
        Bytes::from_f64(f64::from(self.need_max.value) * Bytes::GIB.as_f64())
    }

    /// Whether the highest need is a lower bound, because memory stopped that attempt.
    pub fn is_need_peak_max_lower_bound(&self) -> bool {
        self.need_max.is_lower
    }
}

impl Retries {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.passed += other.passed;
        self.asked_gib_hours += other.asked_gib_hours;
    }
}

impl Calibration {
    fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.within_limit += other.within_limit;
        self.request_attempts += other.request_attempts;
        self.within_request += other.within_request;
        self.timed += other.timed;
        self.within_time += other.within_time;
        self.error = (self.error.0 + other.error.0, self.error.1 + other.error.1);
    }

    /// Mean of `abs(log2(predicted limit / need))`; 0 without attempts.
    pub fn error_log2_mean(&self) -> f64 {
        mean(self.error.0, self.error.1)
    }
}

impl ShadowTotals {
    fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.asked_gib_hours += other.asked_gib_hours;
        self.predicted_gib_hours += other.predicted_gib_hours;
        self.failed += other.failed;
        self.would_fail += other.would_fail;
        self.asked_money += other.asked_money;
        self.predicted_money += other.predicted_money;
        self.not_known += other.not_known;
    }
}

/// Adds a number to a sum; a NaN is counted as missing instead.
fn add_or_count(sum: &mut f64, missing: &mut u64, number: f32) {
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
