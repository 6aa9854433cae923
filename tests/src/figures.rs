//! Times, and what a process and a directory use.

use std::{fmt, fs, time::Duration};

use anyhow::Context as _;
pub use plimsoll_store::bytes_below;

/// Times of many calls. Holds a bounded number of them: the first, and then every second, fourth .. one.
#[derive(Debug, Clone, Default)]
pub struct Times {
    kept: Vec<Duration>,
    count: u64,
    skip: u64,
    longest: Duration,
}

/// Most times that are kept.
const KEPT: usize = 1 << 20;

impl Times {
    /// Takes one in.
    pub fn add(&mut self, time: Duration) {
        self.count += 1;
        self.longest = self.longest.max(time);
        if self.count.is_multiple_of(self.skip + 1) {
            self.kept.push(time);
        }
        if self.kept.len() >= KEPT {
            self.skip = self.skip * 2 + 1;
            let mut keep = false;
            self.kept.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// Takes those of another in.
    pub fn join(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that `percent` of 100 stay below, milliseconds; 0 if there are none.
    pub fn quantile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let at = sorted.len().saturating_sub(1) * percent / 100;
        sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (half, most) = (self.quantile_ms(50), self.quantile_ms(99));
        let longest = self.longest.as_secs_f64() * 1000.0;
        write!(f, "p50 {half:.2} ms, p99 {most:.2} ms, longest {longest:.0} ms, {} of them", self.count)
    }
}

/// What a process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory, KiB.
    pub resident_kib: u64,
    /// CPU time so far, milliseconds.
    pub cpu_ms: u64,
}

impl Usage {
    /// That of a process at this moment.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let resident_kib = resident.trim().trim_end_matches(" kB").parse()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").context("no command in stat")?;
        let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
        let used = ticks.next().context("stat is short")?? + ticks.next().context("stat is short")??;
        // a tick is 10 ms on every Linux that people use
        Ok(Self { resident_kib, cpu_ms: used * 10 })
    }
}

/// The value in the middle; 0 if there is none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The number behind a name in metrics; `None` if the name is not there.
pub fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}
