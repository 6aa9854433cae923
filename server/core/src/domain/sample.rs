//! One measurement of an attempt.

use plimsoll_proto::counters::{PageCounter, PageCounters};

use super::{Bytes, CpuMicros, FieldViolation, Micros, Millis};

/// One reading of an attempt, or a row that combines several. Time and counters never decrease within an attempt; counters are as of
/// `elapsed`. A counter that is `None` was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time since the attempt started, by a monotonic clock.
    pub elapsed: Millis,
    /// Charged memory, including page cache; mean over the row.
    pub memory: Bytes,
    /// Memory that cannot be reclaimed (anonymous, shared and kernel memory); mean over the row.
    pub need: Bytes,
    /// High-water mark of `memory`.
    pub memory_peak: Option<Bytes>,
    /// CPU time used since the start.
    pub cpu: CpuMicros,
    /// Number of processes killed for memory since the start.
    pub oom_kill: Option<u64>,
    /// Number of memory charges that failed without reclaim since the start.
    pub reclaim_failures: Option<u64>,
    /// Highest need within the row, at least `need`; `None` if the row is one reading.
    pub need_max: Option<Bytes>,
    /// Time since the start in which every task was stalled on memory (PSI memory `full`).
    pub memory_stall: Option<Micros>,
    /// Page counters since the start.
    pub pages: PageCounters,
    /// Time since the start in which a CPU limit throttled the build.
    pub throttled: Option<Micros>,
    /// Time since the start in which the build was starved: at its memory limit and busy reclaiming.
    pub starved: Option<Millis>,
}

impl Sample {
    /// Highest need within the row.
    pub fn need_peak(&self) -> Bytes {
        self.need_max.unwrap_or_default().max(self.need)
    }

    /// Checks that the numbers of the sample are consistent.
    /// Errors: Names the field that is not consistent.
    pub fn check(&self) -> Result<(), FieldViolation> {
        match self.need_max {
            Some(max) if max < self.need => {
                let description = format!(
                    "is {}, below need_bytes, which is {}; send the highest need of the row, or nothing for a single reading",
                    max.0, self.need.0
                );
                Err(FieldViolation::new("need_max_bytes", description))
            }
            _ => Ok(()),
        }
    }

    /// This sample, made valid as the successor of `previous`: a counter that decreased is left out, and CPU time that decreased keeps its
    /// previous value. `None` if the time did not increase. `leave_out` is called with each fault.
    pub fn after(mut self, previous: &Self, mut leave_out: impl FnMut(FieldViolation)) -> Option<Self> {
        loop {
            let Err(fault) = self.check_follows(previous) else { return Some(self) };
            let is_counter = self.leave_out(&fault.field, previous);
            leave_out(fault);
            if !is_counter {
                return None;
            }
        }
    }

    /// Removes the counter with this name; returns false if there is no such counter.
    fn leave_out(&mut self, name: &str, previous: &Self) -> bool {
        match name {
            "cpu_usec" => self.cpu = previous.cpu,
            "memory_peak_bytes" => self.memory_peak = None,
            "oom_kill" => self.oom_kill = None,
            "reclaim_failures" => self.reclaim_failures = None,
            "memory_stall_usec" => self.memory_stall = None,
            "throttled_usec" => self.throttled = None,
            "starved_ms" => self.starved = None,
            _ => {
                let Some(page) = PageCounters::ALL.iter().find(|of| of.name == name) else { return false };
                (page.set)(&mut self.pages, None);
            }
        }
        true
    }

    /// Checks that this sample may follow `previous`.
    /// Errors: Names the field that decreased.
    pub fn check_follows(&self, previous: &Self) -> Result<(), FieldViolation> {
        let back = |field: &str, now: u64, before: u64| {
            FieldViolation::new(
                field,
                format!("is {now} after {before}; it must never go back within an attempt"),
            )
        };
        if self.elapsed <= previous.elapsed {
            let description = format!(
                "is {} after {}; time must grow from sample to sample",
                self.elapsed.0, previous.elapsed.0
            );
            return Err(FieldViolation::new("elapsed_ms", description));
        }
        if self.cpu < previous.cpu {
            return Err(back("cpu_usec", self.cpu.0, previous.cpu.0));
        }
        let counters = [
            ("memory_peak_bytes", self.memory_peak.map(|b| b.0), previous.memory_peak.map(|b| b.0)),
            ("oom_kill", self.oom_kill, previous.oom_kill),
            ("reclaim_failures", self.reclaim_failures, previous.reclaim_failures),
            ("memory_stall_usec", self.memory_stall.map(|t| t.0), previous.memory_stall.map(|t| t.0)),
            ("throttled_usec", self.throttled.map(|t| t.0), previous.throttled.map(|t| t.0)),
            ("starved_ms", self.starved.map(|t| t.0), previous.starved.map(|t| t.0)),
        ];
        let page = |of: &PageCounter| (of.name, (of.get)(&self.pages), (of.get)(&previous.pages));
        for (field, now, before) in counters.into_iter().chain(PageCounters::ALL.iter().map(page)) {
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
        let first = Sample {
            elapsed: Millis(10),
            cpu: CpuMicros(5),
            oom_kill: Some(1),
            memory_stall: Some(Micros(1)),
            pages: PageCounters::all(Some(1)),
            throttled: Some(Micros(1)),
            starved: Some(Millis(1)),
            ..Sample::default()
        };
        let next = Sample { elapsed: Millis(11), ..first };
        assert_eq!(next.check_follows(&first), Ok(()));
        let faults = [
            (Sample { elapsed: Millis(10), ..next }, "elapsed_ms"),
            (Sample { cpu: CpuMicros(4), ..next }, "cpu_usec"),
            (Sample { oom_kill: Some(0), ..next }, "oom_kill"),
            (Sample { memory_stall: Some(Micros(0)), ..next }, "memory_stall_usec"),
            (Sample { throttled: Some(Micros(0)), ..next }, "throttled_usec"),
            (Sample { starved: Some(Millis(0)), ..next }, "starved_ms"),
        ];
        let page = |of: &PageCounter| {
            let mut sample = next;
            (of.set)(&mut sample.pages, Some(0));
            (sample, of.name)
        };
        for (sample, field) in faults.into_iter().chain(PageCounters::ALL.iter().map(page)) {
            assert_eq!(sample.check_follows(&first).unwrap_err().field, field);
            let mut named = Vec::new();
            let kept = sample.after(&first, |fault| named.push(fault.field));
            assert_eq!(named, [field], "it costs itself alone");
            assert_eq!(kept.is_some(), field != "elapsed_ms", "{field}");
            assert_eq!(kept.and_then(|kept| kept.check_follows(&first).err()), None);
        }
        let unknown = Sample { oom_kill: None, ..next };
        assert_eq!(unknown.check_follows(&first), Ok(()), "a counter that is absent did not go back");
    }

    #[test]
    fn a_rows_maximum_is_not_below_its_mean() {
        let row = |max| Sample { need: Bytes(5), need_max: max, ..Sample::default() };
        assert_eq!(row(Some(Bytes(4))).check().unwrap_err().field, "need_max_bytes");
        for (max, peak) in [(None, 5), (Some(Bytes(5)), 5), (Some(Bytes(9)), 9)] {
            assert_eq!((row(max).check(), row(max).need_peak()), (Ok(()), Bytes(peak)));
        }
    }
}
