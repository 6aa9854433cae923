//! Counters of what builds used, requested and lost since the server started. None has a label for
//! the package: `packages` has those.

use plimsoll_core::{
    domain::{Bytes, Cause, Millis, Outcome, RequestUsage, RescueTotals, Summary},
    shadow::{self, ShadowComparison},
};
use plimsoll_proto::{lowering::taken_back, v1::TakenBackLowering};
use prometheus_client::encoding::EncodeLabelSet;

use super::{KindLabel, Metrics};

/// Labels for how an attempt ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EndedLabels {
    /// `succeeded`, `failed`, `lost`, `ended` (its exit status is unknown), or `canceled`, which
    /// does not count as a failure.
    pub(crate) outcome: &'static str,
    /// Cause of the failure; `none` if the attempt did not fail.
    pub(crate) cause: &'static str,
}

/// Labels for a change of the cause after the attempt was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CauseChangedLabels {
    /// The cause with which the attempt was counted.
    pub(crate) from: &'static str,
    /// The cause now.
    pub(crate) cause: &'static str,
}

/// Labels for whether a predicted size or time was sufficient.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HeldLabels {
    /// The predicted value: `memory_limit`, `memory_request` or `wall_p95`.
    pub(crate) of: &'static str,
    /// Whether the predicted value was sufficient: `true` or `false`.
    pub(crate) held: &'static str,
}

/// The predicted values that are compared with measurements.
const COMPARED_NUMBERS: [&str; 3] = ["memory_limit", "memory_request", "wall_p95"];

/// Memory multiplied by the time for which it is held, bytes x seconds.
fn byte_seconds(memory: Bytes, time: Millis) -> f64 {
    memory.as_f64() * time.as_f64() / 1000.0
}

/// Requested and used memory, bytes x seconds; `None` if the attempt requested none, or its need
/// was not measured.
pub(super) fn memory_use(summary: &Summary) -> Option<RequestUsage> {
    let over_time = |memory| byte_seconds(memory, summary.wall);
    let (asked, used) = (summary.resources.memory_size_asked(), summary.measured_need_mean());
    RequestUsage::of(asked.map(over_time), used.map(over_time), summary.outcome == Outcome::Succeeded)
}

/// Requested and used CPU, cores x seconds; `None` if the attempt requested none, or its CPU was
/// not measured.
fn cpu_use(summary: &Summary) -> Option<RequestUsage> {
    let asked = summary.resources.cpu_asked().map(|cores| cores.0.max(0.0) * summary.wall.as_f64() / 1000.0);
    let used = summary.measured_cpu().map(|cpu| cpu.as_f64() / 1e6);
    RequestUsage::of(asked, used, summary.outcome == Outcome::Succeeded)
}

/// What came of an attempt in which rescue acted.
const RESCUE_KINDS: [&str; 4] = ["saved", "probably_saved", "ended", "other"];

fn rescue_kind(rescue: &RescueTotals) -> &'static str {
    let counts = [rescue.saved, rescue.probably_saved, rescue.ended, 1];
    let kind = RESCUE_KINDS.into_iter().zip(counts).find(|(_, count)| *count > 0);
    kind.map_or("other", |(kind, _)| kind)
}

impl Metrics {
    /// Creates all series with known labels at zero, so that the first event of each is visible in
    /// rates.
    pub(super) fn begin_series(&self) {
        let begin = |outcome, cause| drop(self.fleet_attempts.get_or_create(&EndedLabels { outcome, cause }));
        begin("succeeded", "none");
        for cause in Cause::ALL {
            begin(if cause == Cause::Canceled { "canceled" } else { "failed" }, cause.as_str());
        }
        begin("lost", "unknown");
        begin("ended", "unknown");
        for of in COMPARED_NUMBERS {
            for held in ["true", "false"] {
                drop(self.fleet_predictions.get_or_create(&HeldLabels { of, held }));
            }
        }
        for kind in RESCUE_KINDS {
            drop(self.rescue_attempts.get_or_create(&KindLabel::of(kind)));
        }
    }

    /// Counts an ended attempt. Call it once for each attempt, when its end is on disk and its
    /// outcome is known. `is_retry`: whether earlier attempts of its job are known.
    pub(crate) fn ended(&self, summary: &Summary, is_retry: bool) {
        let cause = summary.cause.map_or("none", Cause::as_str);
        let outcome = match summary.outcome {
            Outcome::Failed if summary.cause == Some(Cause::Canceled) => "canceled",
            outcome => outcome.as_str(),
        };
        self.fleet_attempts.get_or_create(&EndedLabels { outcome, cause }).inc();
        if is_retry {
            self.fleet_retries.inc();
        }
        self.fleet_wall.inc_by(summary.wall.as_f64() / 1000.0);
        if let Some(memory) = memory_use(summary) {
            self.fleet_memory_asked.inc_by(memory.asked);
            self.fleet_memory_used.inc_by(memory.used);
            self.fleet_memory_wasted.inc_by(memory.wasted);
        }
        if let Some(cpu) = cpu_use(summary) {
            self.fleet_cpu_asked.inc_by(cpu.asked);
            self.fleet_cpu_used.inc_by(cpu.used);
            self.fleet_cpu_wasted.inc_by(cpu.wasted);
        }
        let not_measured = [
            (&self.fleet_memory_not_measured, summary.measured_need_mean().is_none()),
            (&self.fleet_cpu_not_measured, summary.measured_cpu().is_none()),
        ];
        for (counter, _) in not_measured.into_iter().filter(|(_, missing)| *missing) {
            counter.inc();
        }
        let asked = summary.resources.memory_size_asked();
        if let Some((asked, need)) = asked.zip(summary.measured_need_peak()) {
            self.fleet_need_over_ask.observe(need.as_f64() / asked.as_f64());
        }
        self.compare(summary);
        if let Some(rescue) = RescueTotals::of(summary) {
            self.rescue_attempts.get_or_create(&KindLabel::of(rescue_kind(&rescue))).inc();
            self.rescue_paused_process.inc_by(rescue.paused_process_seconds);
            self.rescue_over_median.inc_by(rescue.over_median_seconds);
            self.rescue_raised.inc_by(rescue.raised_byte_seconds);
        }
        self.packages.add(summary);
    }

    /// Updates metrics after a verdict changed an attempt's cause. The counters of ended attempts
    /// cannot be decreased, so another counter counts these changes, if [`Self::ended`] has counted
    /// the attempt (`is_counted`). The gauges of packages are corrected.
    pub(crate) fn cause_changed(&self, before: &Summary, now: &Summary, is_counted: bool) {
        let word = |summary: &Summary| summary.cause.map_or("none", Cause::as_str);
        let (from, cause) = (word(before), word(now));
        if is_counted && from != cause {
            self.fleet_cause_changes.get_or_create(&CauseChangedLabels { from, cause }).inc();
        }
        self.packages.replace(before, now);
    }

    /// Logs and counts a lowering of memory that the end of this attempt took back.
    pub(crate) fn lowering_taken_back(&self, summary: &Summary, found: &TakenBackLowering) {
        let Summary { key, attempt, .. } = summary;
        let kind = if found.killed_at_bytes.is_some() { "killed" } else { "failed" };
        self.lowerings_taken_back.get_or_create(&KindLabel::of(kind)).inc();
        let evidence = taken_back(found);
        tracing::warn!(%attempt, project = key.project, package = key.package, evidence, "took a lowering of memory back");
    }

    /// Compares the prediction for an attempt with its measurements.
    fn compare(&self, summary: &Summary) {
        let Some(predicted) = summary.predicted_at_start() else { return };
        let in_time = summary.outcome == Outcome::Succeeded && !summary.is_not_a_measurement();
        let held = [
            shadow::holds(summary, predicted.memory_limit.0),
            shadow::holds(summary, predicted.memory_request.0),
            in_time.then_some(summary.wall <= predicted.wall_p95),
        ];
        for (of, held) in COMPARED_NUMBERS.into_iter().zip(held).filter_map(|(of, held)| Some((of, held?))) {
            let held = if held { "true" } else { "false" };
            self.fleet_predictions.get_or_create(&HeldLabels { of, held }).inc();
        }
        if summary.counts_for_memory() && !summary.censored {
            let over = predicted.memory_limit.as_f64() / summary.need_peak.as_f64();
            self.fleet_limit_over_need.observe(over);
        }
        if let Some(would) = ShadowComparison::of(summary) {
            self.would_be_attempts.inc();
            self.would_be_asked.inc_by(would.asked);
            self.would_be_predicted.inc_by(would.predicted);
            self.would_be_failed.inc_by(u64::from(would.failed));
            self.would_be_failing.inc_by(u64::from(would.would_fail));
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Cores, CpuMicros, PredictionSnapshot, test_summary};

    use super::*;

    const PREDICTED: PredictionSnapshot = PredictionSnapshot {
        memory_request: Bytes(512 << 20),
        memory_limit: Bytes(2 << 30),
        cpu_request: Cores(1.0),
        wall_p95: Millis(60_000),
        wall_p50: Millis(30_000),
        is_default: false,
    };

    /// An hour that asks for 4 GiB and 2 cores, and uses 1 GiB and 1 core.
    fn hour(id: &str) -> Summary {
        let mut summary = test_summary(id, "zlib", "1", 1024);
        summary.wall = Millis(3_600_000);
        (summary.need_mean, summary.cpu) = (Bytes(1 << 30), CpuMicros(3_600_000_000));
        summary.resources.memory_request = Some(Bytes(4 << 30));
        summary.resources.cpu_request = Some(Cores(2.0));
        summary
    }

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < expected.abs() * 1e-9 + 1e-9
    }

    #[test]
    fn waste_is_unused_plus_all_of_failed_attempts() {
        let metrics = Metrics::new();
        metrics.ended(&hour("a"), false);
        let gib_hours = |counter: &super::super::AmountCounter| counter.get() / 3600.0 / Bytes::GIB.as_f64();
        assert!(near(gib_hours(&metrics.fleet_memory_asked), 4.0));
        assert!(near(gib_hours(&metrics.fleet_memory_wasted), 3.0));
        assert!(near(metrics.fleet_cpu_wasted.get(), 3600.0));
        let failed = Summary { outcome: Outcome::Failed, cause: Some(Cause::Deterministic), ..hour("b") };
        metrics.ended(&failed, true);
        assert!(near(gib_hours(&metrics.fleet_memory_wasted), 3.0 + 4.0));
        assert!(near(metrics.fleet_cpu_wasted.get(), 3600.0 + 7200.0));
        let ended =
            |outcome, cause| metrics.fleet_attempts.get_or_create(&EndedLabels { outcome, cause }).get();
        assert_eq!((ended("succeeded", "none"), ended("failed", "deterministic")), (1, 1));
        assert_eq!(metrics.fleet_retries.get(), 1);
    }

    #[test]
    fn a_changed_cause_corrects_the_package_gauges() {
        let (metrics, without) = (Metrics::new(), Metrics::new());
        let mut before = hour("a");
        before.opening.predicted = Some(PREDICTED);
        // stopped by memory below the predicted limit: by that alone it says nothing of the limit
        (before.outcome, before.cause, before.censored) = (Outcome::Failed, Some(Cause::Oom), true);
        let now = Summary { cause: Some(Cause::Deterministic), censored: false, ..before.clone() };
        metrics.ended(&before, false);
        without.ended(&now, false);
        metrics.cause_changed(&before, &now, true);
        let gauges = |metrics: &Metrics| {
            let text = metrics.encode().unwrap();
            let of = |line: &&str| line.starts_with("plimsoll_package_");
            text.lines().filter(of).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(gauges(&metrics), gauges(&without));
        let changes = || {
            let moved = CauseChangedLabels { from: "oom", cause: "deterministic" };
            metrics.fleet_cause_changes.get_or_create(&moved).get()
        };
        assert_eq!(changes(), 1);
        metrics.cause_changed(&before, &now, false);
        assert_eq!(changes(), 1, "it was counted before this start");
    }

    #[test]
    fn predictions_are_compared_with_known_outcomes() {
        let metrics = Metrics::new();
        let mut summary = hour("a");
        metrics.ended(&summary, false);
        summary.opening.predicted = Some(PREDICTED);
        metrics.ended(&summary, false);
        let lost = Summary { outcome: Outcome::Lost, ..summary };
        metrics.ended(&lost, false);
        let count = |of, held| metrics.fleet_predictions.get_or_create(&HeldLabels { of, held }).get();
        assert_eq!((count("memory_limit", "true"), count("memory_limit", "false")), (1, 0));
        assert_eq!((count("memory_request", "true"), count("memory_request", "false")), (0, 1));
        assert_eq!((count("wall_p95", "true"), count("wall_p95", "false")), (0, 1));
        assert_eq!((metrics.would_be_attempts.get(), metrics.would_be_failing.get()), (1, 0));
        assert!(near(metrics.would_be_asked.get() / metrics.would_be_predicted.get(), 8.0));
    }
}
