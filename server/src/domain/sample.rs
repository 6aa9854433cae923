//! One reading of one attempt.

use super::{Bytes, CpuMicros, Fault, Millis};

/// One reading of one attempt. Time and counters never go back within an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since the attempt started, on a clock that never goes back.
    pub elapsed: Millis,
    /// Charged now, page cache included.
    pub memory: Bytes,
    /// Not reclaimable now: anonymous + shared + kernel.
    pub need: Bytes,
    /// High-water mark of `memory`.
    pub memory_peak: Option<Bytes>,
    /// CPU time used since the start.
    pub cpu: CpuMicros,
    /// Processes killed for memory since the start.
    pub oom_kill: Option<u64>,
    /// Charges that failed without reclaim since the start.
    pub reclaim_failures: Option<u64>,
}

impl Sample {
    /// Checks that this sample may follow `previous`.
    ///
    /// # Errors
    /// Names the field that went back.
    pub fn check_follows(&self, previous: &Self) -> Result<(), Fault> {
        let back = |field: &str, now: u64, before: u64| {
            Fault::new(field, format!("is {now} after {before}; it must never go back within an attempt"))
        };
        if self.elapsed <= previous.elapsed {
            let description = format!(
                "is {} after {}; time must grow from sample to sample",
                self.elapsed.0, previous.elapsed.0
            );
            return Err(Fault::new("elapsed_ms", description));
        }
        if self.cpu < previous.cpu {
            return Err(back("cpu_usec", self.cpu.0, previous.cpu.0));
        }
        let counters = [
            ("memory_peak_bytes", self.memory_peak.map(|b| b.0), previous.memory_peak.map(|b| b.0)),
            ("oom_kill", self.oom_kill, previous.oom_kill),
            ("reclaim_failures", self.reclaim_failures, previous.reclaim_failures),
        ];
        for (field, now, before) in counters {
            if let (Some(now), Some(before)) = (now, before)
                && now < before
            {
                return Err(back(field, now, before));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_counters_never_go_back() {
        let first = Sample { elapsed: Millis(10), cpu: CpuMicros(5), oom_kill: Some(1), ..Sample::default() };
        let next = Sample { elapsed: Millis(11), ..first };
        assert_eq!(next.check_follows(&first), Ok(()));
        let faults = [
            (Sample { elapsed: Millis(10), ..next }, "elapsed_ms"),
            (Sample { cpu: CpuMicros(4), ..next }, "cpu_usec"),
            (Sample { oom_kill: Some(0), ..next }, "oom_kill"),
        ];
        for (sample, field) in faults {
            assert_eq!(sample.check_follows(&first).unwrap_err().field, field);
        }
        let unknown = Sample { oom_kill: None, ..next };
        assert_eq!(
            unknown.check_follows(&first),
            Ok(()),
            "a counter that is absent is not one that went back"
        );
    }
}
