//! Times and what a process uses.

use std::{fmt, fs, time::Duration};

use anyhow::Context as _;

/// Times of many calls. Holds a bounded number of them: the first, and then every second, fourth .. one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    kept: Vec<Duration>,
    count: u64,
    skip: u64,
    longest: Duration,
}

/// Most times that are kept.
const KEPT: usize = 1 << 20;

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
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

    pub(crate) fn join(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    fn quantile(&self, percent: usize) -> f64 {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let at = sorted.len().saturating_sub(1) * percent / 100;
        sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (half, most, longest) =
            (self.quantile(50), self.quantile(99), self.longest.as_secs_f64() * 1000.0);
        write!(f, "p50 {half:.2} ms, p99 {most:.2} ms, longest {longest:.0} ms, {} of them", self.count)
    }
}

/// Resident memory, MiB, and CPU time so far, milliseconds.
pub(crate) fn process(pid: u32) -> anyhow::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no command in stat")?;
    let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let used = ticks.next().context("stat is short")?? + ticks.next().context("stat is short")??;
    // a tick is 10 ms on every Linux that people use
    Ok((kib / 1024, used * 10))
}
