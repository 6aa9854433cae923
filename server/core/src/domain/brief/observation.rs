//! An attempt on one rung: the numbers that a prediction reads.

use std::sync::Arc;

use plimsoll_proto::measured::IncompleteNeed;

use super::AttemptBrief;
use crate::domain::{Bytes, Key, Outcome, Summary, progress::CPU_WINDOW};

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
    /// attempt succeeded without a pause.
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
        // a build that was paused took longer, and used less CPU at once
        let is_usual = succeeded && !summary.was_rescued();
        let log = |value: f64| if is_usual && value > 0.0 { to_f32(value.log2()) } else { f32::NAN };
        let need = if summary.counts_for_memory() {
            to_f32(summary.proven_need().max(summary.need_without_rescue()).as_f64().log2())
        } else {
            f32::NAN
        };
        let hints = summary.key.hints;
        // a command of some milliseconds may seem to use many cores, because it is too short to measure a peak
        let cpu_mean = summary.cpu.cores_over(summary.wall.max(CPU_WINDOW)).0;
        // a mean alone, as an imported history has it, is not the highest use
        let limit = summary.resources.cpu_limit.filter(|_| summary.is_held_back());
        let cpu_peak = match limit.or_else(|| summary.measured_cpu_peak()) {
            Some(_) if summary.wall < CPU_WINDOW => cpu_mean,
            peak => peak.map_or(0.0, |peak| peak.0),
        };
        Self {
            need,
            hours: to_f32(summary.unpaused_wall().hours()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{OpeningRecord, PredictionSnapshot, test_summary};

    #[test]
    fn predicted_sizes_survive_compression_without_drift() {
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
}
