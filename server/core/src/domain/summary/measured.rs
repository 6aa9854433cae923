//! Measurements of an ended attempt, with "not measured" as `None`. A command that runs uses some memory and CPU, so a stored zero means
//! that the value was not read. All output goes through these functions.

use super::Summary;
use crate::domain::{Bytes, Cores, CpuMicros, Millis};

impl Summary {
    /// Highest need; `None` if memory was not measured.
    pub fn measured_need_peak(&self) -> Option<Bytes> {
        measured(self.need_peak)
    }

    /// Mean of the need over time; `None` if it was not measured.
    pub fn measured_need_mean(&self) -> Option<Bytes> {
        measured(self.need_mean)
    }

    /// High-water mark of memory including page cache, at least the highest need; `None` if the mark was not measured.
    pub fn measured_memory_peak(&self) -> Option<Bytes> {
        measured(self.memory_peak).map(|mark| mark.max(self.need_peak))
    }

    /// CPU time; `None` if it was not measured.
    pub fn measured_cpu(&self) -> Option<CpuMicros> {
        Some(self.cpu).filter(|cpu| cpu.0 > 0)
    }

    /// Highest CPU use, at least the mean; `None` if it was not measured. An imported history has only a mean, which is not the highest
    /// use.
    pub fn measured_cpu_peak(&self) -> Option<Cores> {
        let (peak, mean) = (self.cpu_peak.0, self.cpu.cores_over(self.wall).0);
        let known = peak > mean || (self.samples > 0 && mean > 0.0);
        known.then_some(Cores(peak.max(mean))).filter(|cores| cores.0.is_finite())
    }
}

/// The value, or `None` for zero.
pub(in crate::domain) fn measured(memory: Bytes) -> Option<Bytes> {
    Some(memory).filter(|memory| memory.0 > 0)
}

/// The highest CPU use to show: at least the mean, because a peak cannot be measured over short times.
pub(super) fn cpu_peak(peak: Cores, cpu: CpuMicros, wall: Millis) -> Cores {
    Cores(peak.0.max(cpu.cores_over(wall).0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn a_zero_was_not_measured() {
        let mut summary = test_summary("a", "zlib", "1", 0);
        (summary.need_mean, summary.memory_peak, summary.cpu) = (Bytes(0), Bytes(0), CpuMicros(0));
        (summary.cpu_peak, summary.samples) = (Cores(0.0), 5);
        let memory =
            [summary.measured_need_peak(), summary.measured_need_mean(), summary.measured_memory_peak()];
        assert_eq!(memory, [None; 3]);
        assert_eq!((summary.measured_cpu(), summary.measured_cpu_peak()), (None, None));
    }

    #[test]
    fn the_cpu_peak_is_never_below_the_mean() {
        let mut summary = test_summary("a", "zlib", "1", 10);
        (summary.wall, summary.cpu, summary.cpu_peak) = (Millis(1000), CpuMicros(380_000), Cores(0.34));
        summary.samples = 3;
        assert_eq!(summary.measured_cpu_peak(), Some(Cores(0.38)));
        (summary.samples, summary.cpu_peak) = (0, Cores(0.38));
        assert_eq!(summary.measured_cpu_peak(), None, "an import says a mean");
        summary.cpu_peak = Cores(1.5);
        assert_eq!(summary.measured_cpu_peak(), Some(Cores(1.5)));
        assert_eq!(cpu_peak(Cores(0.34), CpuMicros(380_000), Millis(1000)), Cores(0.38));
    }

    #[test]
    fn the_high_water_mark_holds_the_need() {
        let mut summary = test_summary("a", "zlib", "1", 114);
        summary.memory_peak = Bytes(87 << 20);
        assert_eq!(summary.measured_memory_peak(), Some(Bytes(114 << 20)));
    }
}
