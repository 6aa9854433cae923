//! State of an attempt while its samples arrive. Its size does not grow with the length of the attempt.

use super::{Bytes, Cores, CpuMicros, FieldViolation, Millis, Sample, starvation::Starvation};

/// Shortest time over which CPU use is computed: over less, one tick of the kernel's accounting looks like many cores.
pub(super) const CPU_WINDOW: Millis = Millis(500);

/// Running sums over the samples of one attempt, in the order of arrival.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleAccumulator {
    /// The newest sample.
    pub last: Option<Sample>,
    /// Number of samples added.
    pub samples: u64,
    /// Highest need in any sample.
    pub need_peak: Bytes,
    /// Highest CPU use over [`CPU_WINDOW`] or more.
    pub cpu_peak: Cores,
    /// How long the build has been starved at its memory limit.
    pub starvation: Starvation,
    /// Sum of need multiplied by milliseconds, by the trapezoidal rule.
    need_time: f64,
    /// Start of the current CPU window.
    window: (Millis, CpuMicros),
}

impl SampleAccumulator {
    /// Adds the next sample to the sums.
    /// Errors: the time or a counter of the sample is below that of the previous one. Then nothing changes.
    pub fn add(&mut self, sample: &Sample) -> Result<(), FieldViolation> {
        let mut span = sample.elapsed;
        let mut need = sample.need.as_f64();
        if let Some(last) = &self.last {
            sample.check_follows(last)?;
            span = sample.elapsed.saturating_sub(last.elapsed);
            need = f64::midpoint(need, last.need.as_f64());
        }
        self.need_time += need * span.as_f64();
        self.need_peak = self.need_peak.max(sample.need_peak());
        self.starvation.add(sample.starved, sample.elapsed, self.last.is_none());
        let (from, used) = self.window;
        let width = sample.elapsed.saturating_sub(from);
        if width >= CPU_WINDOW {
            let cores = sample.cpu.saturating_sub(used).cores_over(width);
            self.cpu_peak = Cores(self.cpu_peak.0.max(cores.0));
            self.window = (sample.elapsed, sample.cpu);
        }
        self.samples += 1;
        self.last = Some(*sample);
        Ok(())
    }

    /// Mean need over time; the last need if no time has passed.
    pub fn need_mean(&self) -> Bytes {
        match self.last {
            Some(last) if last.elapsed.0 > 0 => Bytes::from_f64(self.need_time / last.elapsed.as_f64()),
            Some(last) => last.need,
            None => Bytes(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(elapsed: u64, need: u64, cpu: u64) -> Sample {
        Sample { elapsed: Millis(elapsed), need: Bytes(need), cpu: CpuMicros(cpu), ..Sample::default() }
    }

    #[test]
    fn keeps_peak_mean_and_cpu() {
        let mut progress = SampleAccumulator::default();
        for s in [sample(1000, 100, 500_000), sample(2000, 300, 2_500_000), sample(3000, 100, 2_600_000)] {
            progress.add(&s).unwrap();
        }
        assert_eq!(progress.need_peak, Bytes(300));
        assert_eq!(progress.need_mean(), Bytes(167));
        assert!((progress.cpu_peak.0 - 2.0).abs() < 1e-9, "{:?}", progress.cpu_peak);
    }

    #[test]
    fn the_peak_uses_the_rows_maximum() {
        let mut progress = SampleAccumulator::default();
        progress.add(&Sample { need_max: Some(Bytes(700)), ..sample(1000, 300, 0) }).unwrap();
        progress.add(&sample(2000, 300, 0)).unwrap();
        assert_eq!((progress.need_peak, progress.need_mean()), (Bytes(700), Bytes(300)));
    }

    #[test]
    fn a_refused_sample_changes_nothing() {
        let mut progress = SampleAccumulator::default();
        progress.add(&sample(10, 5, 5)).unwrap();
        let before = progress.clone();
        assert!(progress.add(&sample(10, 9, 9)).is_err());
        assert_eq!(progress, before);
    }

    #[test]
    fn a_short_window_does_not_invent_cores() {
        let mut progress = SampleAccumulator::default();
        for s in [sample(1, 0, 4000), sample(600, 0, 600_000)] {
            progress.add(&s).unwrap();
        }
        assert!(progress.cpu_peak.0 < 1.1, "{:?}", progress.cpu_peak);
    }
}
