//! JSON of sums over attempts.

use std::collections::BTreeMap;

use plimsoll_proto::v1::{Calibration, CauseCount, StatsTotals, WouldHaveBeen};
use serde::Serialize;

use crate::ask::words;

/// Sums over some attempts.
#[derive(Debug, Serialize)]
pub(in crate::ask) struct TotalsJson {
    attempts: u64,
    succeeded: u64,
    failed: u64,
    lost: u64,
    oom: u64,
    starved: u64,
    retries: u64,
    wall_hours: f64,
    cpu_core_hours: f64,
    /// Need over time, of the attempts that measured it.
    memory_used_gib_hours: f64,
    /// What of `memory_asked_gib_hours` was put to use; the rest is wasted.
    memory_used_of_asked_gib_hours: f64,
    /// Asked over time, of the attempts that asked and measured their need.
    memory_asked_gib_hours: f64,
    memory_wasted_gib_hours: f64,
    /// Attempts that are left out of the sums of memory and of CPU.
    memory_not_measured: u64,
    cpu_not_measured: u64,
    need_peak_max_bytes: u64,
    samples: u64,
    cpu_asked_core_hours: f64,
    cpu_used_of_asked_core_hours: f64,
    cpu_wasted_core_hours: f64,
    /// Highest need over memory asked for.
    need_over_ask_mean: f64,
    need_over_ask_max: f64,
    /// Failures by cause.
    causes: BTreeMap<String, u64>,
    /// Retries by the cause of the attempt that they retry.
    retries_by_cause: BTreeMap<String, u64>,
    retries_avoided: u64,
    retries_helped: u64,
    /// In the currency beside the totals.
    asked_money: f64,
    wasted_money: f64,
    /// Null if nothing was predicted.
    calibration: Option<CalibrationJson>,
    /// Null if nothing was predicted.
    would_have_been: Option<WouldHaveBeenJson>,
}

/// How predictions held against what came.
#[derive(Debug, Serialize)]
struct CalibrationJson {
    attempts: u64,
    within_limit: u64,
    within_request: u64,
    timed: u64,
    within_wall_p95: u64,
    /// 1 is a factor of two.
    error_log2_mean: f64,
}

/// What would have been with the predicted sizes.
#[derive(Debug, Serialize)]
struct WouldHaveBeenJson {
    attempts: u64,
    asked_gib_hours: f64,
    predicted_gib_hours: f64,
    failed: u64,
    would_fail: u64,
    asked_money: f64,
    predicted_money: f64,
}

fn by_cause(counts: &[CauseCount]) -> BTreeMap<String, u64> {
    counts.iter().map(|of| (words::cause(of.cause()), of.count)).collect()
}

impl From<&StatsTotals> for TotalsJson {
    fn from(totals: &StatsTotals) -> Self {
        Self {
            attempts: totals.attempts,
            succeeded: totals.succeeded,
            failed: totals.failed,
            lost: totals.lost,
            oom: totals.oom,
            starved: totals.starved,
            retries: totals.retries,
            wall_hours: totals.wall_hours,
            cpu_core_hours: totals.cpu_core_hours,
            memory_used_gib_hours: totals.memory_used_gib_hours,
            memory_used_of_asked_gib_hours: totals.memory_used_of_asked_gib_hours,
            memory_asked_gib_hours: totals.memory_asked_gib_hours,
            memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
            memory_not_measured: totals.memory_not_measured,
            cpu_not_measured: totals.cpu_not_measured,
            need_peak_max_bytes: totals.need_peak_max_bytes,
            samples: totals.samples,
            cpu_asked_core_hours: totals.cpu_asked_core_hours,
            cpu_used_of_asked_core_hours: totals.cpu_used_of_asked_core_hours,
            cpu_wasted_core_hours: totals.cpu_wasted_core_hours,
            need_over_ask_mean: totals.need_over_ask_mean,
            need_over_ask_max: totals.need_over_ask_max,
            causes: by_cause(&totals.causes),
            retries_by_cause: by_cause(&totals.retries_by_cause),
            retries_avoided: totals.retries_avoided,
            retries_helped: totals.retries_helped,
            asked_money: totals.asked_money,
            wasted_money: totals.wasted_money,
            calibration: totals.calibration.as_ref().map(CalibrationJson::from),
            would_have_been: totals.would_have_been.as_ref().map(WouldHaveBeenJson::from),
        }
    }
}

impl From<&Calibration> for CalibrationJson {
    fn from(held: &Calibration) -> Self {
        Self {
            attempts: held.attempts,
            within_limit: held.within_limit,
            within_request: held.within_request,
            timed: held.timed,
            within_wall_p95: held.within_wall_p95,
            error_log2_mean: held.error_log2_mean,
        }
    }
}

impl From<&WouldHaveBeen> for WouldHaveBeenJson {
    fn from(would: &WouldHaveBeen) -> Self {
        Self {
            attempts: would.attempts,
            asked_gib_hours: would.asked_gib_hours,
            predicted_gib_hours: would.predicted_gib_hours,
            failed: would.failed,
            would_fail: would.would_fail,
            asked_money: would.asked_money,
            predicted_money: would.predicted_money,
        }
    }
}
