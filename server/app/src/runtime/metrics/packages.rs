//! Gauges of the packages that wasted most memory over the last day. They are no counters, because
//! the list of packages changes. The number of package names in an hour and the number of packages
//! with series are bounded.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::{
    domain::{Cause, Summary},
    shadow::ShadowComparison,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::fleet::memory_use;
use crate::runtime::clock::Clock;

/// Number of packages that have series of their own.
const SHOWN_PACKAGES: usize = 20;
/// Most package names kept for one hour; further ones are added to [`OTHER_PACKAGES`].
const NAMES_AN_HOUR: usize = 4096;
/// Name of the series with the sums of all packages without a series of their own.
const OTHER_PACKAGES: &str = "(others)";
/// Number of hours over which attempts are summed.
const COUNTED_HOURS: u64 = 24;
const HOUR_MS: u64 = 3_600_000;

/// Totals over the attempts of one package.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct PackageSums {
    attempts: f64,
    by_memory: f64,
    asked: f64,
    wasted: f64,
    /// Memory that the predicted requests would have saved, multiplied by time: bytes x seconds.
    would_save: f64,
    would_fail: f64,
}

impl PackageSums {
    fn of(summary: &Summary) -> Self {
        let memory = memory_use(summary);
        let would = ShadowComparison::of(summary);
        let one_if = |yes: bool| if yes { 1.0 } else { 0.0 };
        Self {
            attempts: 1.0,
            by_memory: one_if(summary.cause.is_some_and(Cause::is_memory)),
            asked: memory.map_or(0.0, |memory| memory.asked),
            wasted: memory.map_or(0.0, |memory| memory.wasted),
            would_save: would.map_or(0.0, |would| would.asked - would.predicted),
            would_fail: one_if(would.is_some_and(|would| would.would_fail)),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.add_times(1.0, other);
    }

    /// Adds the other sums times `factor`: -1 takes them back.
    fn add_times(&mut self, factor: f64, other: &Self) {
        let Self { attempts, by_memory, asked, wasted, would_save, would_fail } = *other;
        self.attempts += factor * attempts;
        self.by_memory += factor * by_memory;
        self.asked += factor * asked;
        self.wasted += factor * wasted;
        self.would_save += factor * would_save;
        self.would_fail += factor * would_fail;
    }
}

/// Name, help text and value of a gauge for each package.
type PackageGauge = (&'static str, &'static str, fn(&PackageSums) -> f64);

/// The gauges for each package.
const GAUGES: [PackageGauge; 6] = [
    ("package_attempts", "Ended attempts", |sums| sums.attempts),
    ("package_memory_failures", "Attempts ended by memory", |sums| sums.by_memory),
    ("package_memory_asked_byte_seconds", "Memory asked for, multiplied by time", |sums| sums.asked),
    ("package_memory_wasted_byte_seconds", "Memory asked for and not used, multiplied by time", |sums| {
        sums.wasted
    }),
    (
        "package_would_save_byte_seconds",
        "Memory that the predicted requests would save, multiplied by time",
        |sums| sums.would_save,
    ),
    ("package_would_fail", "Attempts with a need above the predicted limit", |sums| sums.would_fail),
];

/// The attempts of the last day by package.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    clock: Clock,
    /// Totals by package, by the hour in which the attempts ended (hours since 1970).
    hours: Mutex<BTreeMap<u64, HashMap<Arc<str>, PackageSums>>>,
}

impl Packages {
    /// Adds an ended attempt, if it ended within the last day.
    pub(crate) fn add(&self, summary: &Summary) {
        self.add_at(summary, self.clock.now_unix_ms());
    }

    /// Replaces the values of an attempt (`before`) by new ones (`now`); the end of the attempt
    /// must be the same.
    pub(crate) fn replace(&self, before: &Summary, now: &Summary) {
        let mut change = PackageSums::of(now);
        change.add_times(-1.0, &PackageSums::of(before));
        let (hour, now_hour) = (now.ended_unix_ms() / HOUR_MS, self.clock.now_unix_ms() / HOUR_MS);
        let mut hours = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = hours.get_mut(&hour.min(now_hour)) else { return };
        let name = &*now.key.package;
        let name = if known.contains_key(name) { name } else { OTHER_PACKAGES };
        if let Some(sums) = known.get_mut(name) {
            sums.merge(&change);
        }
    }

    fn add_at(&self, summary: &Summary, now_unix_ms: u64) {
        let (hour, now) = (summary.ended_unix_ms() / HOUR_MS, now_unix_ms / HOUR_MS);
        // an attempt from the future (wrong clock) is counted in this hour, because a later hour
        // would stay too long
        let hour = hour.min(now);
        let mut hours = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        hours.retain(|hour, _| hour + COUNTED_HOURS > now);
        if hour + COUNTED_HOURS <= now {
            return;
        }
        let known = hours.entry(hour).or_default();
        let name = &*summary.key.package;
        let name =
            if known.len() < NAMES_AN_HOUR || known.contains_key(name) { name } else { OTHER_PACKAGES };
        match known.get_mut(name) {
            Some(sums) => sums.merge(&PackageSums::of(summary)),
            None => drop(known.insert(name.into(), PackageSums::of(summary))),
        }
    }

    /// The packages with most waste, then the total of all others.
    fn top(&self, now_unix_ms: u64) -> Vec<(Arc<str>, PackageSums)> {
        let now = now_unix_ms / HOUR_MS;
        let mut all: HashMap<Arc<str>, PackageSums> = HashMap::new();
        let hours = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, sums) in
            hours.iter().filter(|(hour, _)| **hour + COUNTED_HOURS > now).flat_map(|(_, known)| known)
        {
            all.entry(Arc::clone(name)).or_default().merge(sums);
        }
        drop(hours);
        let mut others = all.remove(OTHER_PACKAGES).unwrap_or_default();
        let mut top: Vec<(Arc<str>, PackageSums)> = all.into_iter().collect();
        top.sort_by(|a, b| b.1.wasted.total_cmp(&a.1.wasted).then_with(|| a.0.cmp(&b.0)));
        top.iter().skip(SHOWN_PACKAGES).for_each(|(_, sums)| others.merge(sums));
        top.truncate(SHOWN_PACKAGES);
        top.push((OTHER_PACKAGES.into(), others));
        top
    }
}

impl Collector for Packages {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let top = self.top(self.clock.now_unix_ms());
        for (name, help, value) in GAUGES {
            let help = format!("{help}, by package, over the last 24 hours; most wasteful packages only");
            let mut gauge = encoder.encode_descriptor(name, &help, None, MetricType::Gauge)?;
            for (package, sums) in &top {
                let labels = [("package", &**package)];
                ConstGauge::new(value(sums)).encode(gauge.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Bytes, Millis, test_summary};

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    /// A minute that held `mib` for nothing.
    fn ended(package: &str, mib: u64, ago_ms: u64) -> Summary {
        let mut summary = test_summary("a", package, "1", 1);
        (summary.wall, summary.need_mean) = (Millis(60_000), Bytes(1));
        summary.resources.memory_request = Some(Bytes(mib << 20));
        summary.started_unix_ms = NOW - ago_ms - 60_000;
        summary
    }

    #[test]
    fn the_most_wasteful_packages_are_listed_others_summed() {
        let packages = Packages::default();
        for n in 1..=25 {
            packages.add_at(&ended(&format!("p{n}"), n, 0), NOW);
        }
        let top = packages.top(NOW);
        assert_eq!((top.len(), &*top[0].0, &*top[19].0, &*top[20].0), (21, "p25", "p6", OTHER_PACKAGES));
        assert!((top[20].1.attempts - 5.0).abs() < 1e-9);
        let wasted: f64 = top.iter().map(|(_, sums)| sums.wasted).sum();
        let all = Bytes((325 << 20) - 25).as_f64() * 60.0;
        assert!((wasted - all).abs() < 1.0, "nothing is lost or counted twice");
    }

    #[test]
    fn package_waste_expires_after_a_day() {
        let packages = Packages::default();
        packages.add_at(&ended("old", 1, COUNTED_HOURS * HOUR_MS), NOW);
        assert_eq!(packages.top(NOW).len(), 1);
        packages.add_at(&ended("new", 1, 0), NOW);
        // an agent's clock that is ahead
        let mut ahead = ended("ahead", 1, 0);
        ahead.started_unix_ms = NOW + 1000 * HOUR_MS;
        packages.add_at(&ahead, NOW);
        assert_eq!(packages.top(NOW).len(), 3);
        assert_eq!(packages.top(NOW + COUNTED_HOURS * HOUR_MS).len(), 1);
        packages.add_at(&ended("new", 1, 0), NOW + COUNTED_HOURS * HOUR_MS);
        assert_eq!(packages.hours.lock().unwrap().len(), 0, "nothing is held for longer");
    }

    #[test]
    fn package_names_beyond_the_limit_count_as_other() {
        let packages = Packages::default();
        for n in 0..NAMES_AN_HOUR + 10 {
            packages.add_at(&ended(&format!("p{n}"), 1, 0), NOW);
        }
        let hours = packages.hours.lock().unwrap();
        let known = hours.values().next().unwrap();
        assert_eq!((known.len(), known[OTHER_PACKAGES].attempts), (NAMES_AN_HOUR + 1, 10.0));
    }
}
