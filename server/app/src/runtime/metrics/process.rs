//! Use of the machine by this process, under the names of Prometheus' client libraries.

use std::{fmt, fs, time::Duration};

use plimsoll_core::domain::Millis;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use rustix::process::{Resource, getrlimit};

use crate::runtime::clock::Clock;

/// Metrics of this process, read at each scrape. Values that cannot be read are left out.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    started_unix_ms: u64,
}

impl ProcessMetrics {
    /// Notes the present time as the start of the process.
    pub(super) fn starting() -> Self {
        Self { started_unix_ms: Clock.now_unix_ms() }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| match value {
            Some(value) => {
                let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(gauge)
            }
            None => Ok(()),
        };
        let started = Millis(self.started_unix_ms).as_f64() / 1000.0;
        gauge("process_start_time_seconds", "Start of the process, seconds since 1970", Some(started))?;
        gauge("process_resident_memory_bytes", "Memory of the process that is in RAM", resident_bytes())?;
        gauge("process_open_fds", "Files and connections that are open", open_files())?;
        let most = getrlimit(Resource::Nofile).current.map(|most| Millis(most).as_f64());
        gauge("process_max_fds", "Files and connections that may be open", most)?;
        let Some(cpu) = cpu() else { return Ok(()) };
        let help = "CPU time that the process has used";
        let counter = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(cpu.as_secs_f64()).encode(counter)
    }
}

/// Bytes of this process in RAM.
fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u32 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(f64::from(kibibytes) * 1024.0)
}

fn open_files() -> Option<f64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    // not counting the entry that reading the directory itself opens
    u32::try_from(open.saturating_sub(1)).ok().map(f64::from)
}

/// CPU time of all threads, including ended ones.
fn cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // the program's name is in brackets and may contain spaces, so the fields are counted from the
    // last bracket
    let (_, fields) = stat.rsplit_once(") ")?;
    // user and system time are fields 14 and 15; the remaining text starts with field 3 (proc(5))
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(ticks.saturating_mul(1000) / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_what_it_takes() {
        assert!(resident_bytes().unwrap() > 1e6, "{:?}", resident_bytes());
        assert!(open_files().unwrap() >= 3.0);
        let before = cpu().unwrap();
        let mut n = 0_u64;
        while cpu().unwrap() == before {
            n = std::hint::black_box(n + 1);
        }
    }
}
