//! How much longer the newest builds of the fleet took than the same builds before them: busier or slower machines.
//!
//! It is a function of the attempts alone: a new attempt is compared when it is added, and all are after other changes of their packages.
//! Constants were chosen on the first 60 % of a file of Spack's CI (18,973 rows), scored from its 20 % on: 32 to 64 newest builds and steps
//! of an eighth or a quarter are alike.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, Fnv, History, Key, Rung, median};

/// Number of the newest builds that are compared.
const NEWEST: usize = 48;
/// Fewest builds with a comparison: below, there is no shift.
const FEWEST: usize = 16;
/// Most builds of one package that count, so that a package which changed moves no other.
const MOST_OF_PACKAGE: usize = 4;
/// Most attempts that are looked at to find [`NEWEST`] with a comparison.
const MOST_READ: usize = 4 * NEWEST;
/// Number of earlier attempts of the same build, in any version, that one is compared with.
const EARLIER: usize = 64;
const FEWEST_EARLIER: usize = 4;
/// Steps of the shift in one octave: answers computed from it stay valid while it stays on a step.
const STEPS: f64 = 8.0;
/// Highest shift up and down, octaves.
const MOST: f64 = 2.0;

/// The newest [`MOST_READ`] trusted attempts, oldest first, and the shift that follows from them.
#[derive(Debug, Default)]
pub(super) struct NewestTimes {
    times: VecDeque<ComparedTime>,
    shift: f64,
}

/// The time of an attempt, compared with attempts before it.
#[derive(Debug)]
struct ComparedTime {
    package: Fnv,
    /// Number of newer attempts of the package.
    newer: usize,
    /// See [`History::ratio_to_earlier`].
    ratio: Option<f64>,
}

impl NewestTimes {
    fn of(history: &History) -> Self {
        let mut times = Self::default();
        let newest: Vec<_> = history.newest_trusted().take(MOST_READ).collect();
        newest.into_iter().rev().for_each(|brief| times.push(brief, history.ratio_to_earlier(brief)));
        times.shift = times.shift();
        times
    }

    /// Adds an attempt that is newer than all others.
    fn add(&mut self, brief: &AttemptBrief, ratio: Option<f64>) {
        self.push(brief, ratio);
        self.shift = self.shift();
    }

    fn push(&mut self, brief: &AttemptBrief, ratio: Option<f64>) {
        let package = package_of(&brief.key);
        self.times.iter_mut().filter(|time| time.package == package).for_each(|time| time.newer += 1);
        self.times.push_back(ComparedTime { package, newer: 0, ratio });
        if self.times.len() > MOST_READ {
            self.times.pop_front();
        }
    }

    fn shift(&self) -> f64 {
        let counted = self.times.iter().rev().filter(|time| time.newer < MOST_OF_PACKAGE);
        let ratios: Vec<f64> = counted.filter_map(|time| time.ratio).take(NEWEST).collect();
        let shift = if ratios.len() < FEWEST { 0.0 } else { (median(ratios) * STEPS).round() / STEPS };
        shift.clamp(-MOST, MOST)
    }
}

impl History {
    /// Logarithm to base 2 of the ratio; 0 if too few builds can be compared. Only trusted attempts count.
    pub(crate) fn time_shift(&self) -> f64 {
        self.newest_times.get_or_init(|| NewestTimes::of(self)).shift
    }

    /// Compares the time of an attempt that was added.
    pub(super) fn compare_time(&mut self, brief: &Arc<AttemptBrief>) {
        let times = if brief.untrusted { None } else { self.newest_times.take() };
        let Some(mut times) = times else { return };
        if self.newest_trusted().next().is_some_and(|newest| Arc::ptr_eq(newest, brief)) {
            times.add(brief, self.ratio_to_earlier(brief));
            self.newest_times = times.into();
        }
    }

    /// Forgets the comparisons that an attempt which was removed or changed may be part of.
    pub(super) fn forget_times(&mut self, brief: &AttemptBrief) {
        let package = package_of(&brief.key);
        let times = self.newest_times.get().filter(|_times| !brief.untrusted);
        if times.is_some_and(|times| times.times.iter().any(|time| time.package == package)) {
            self.newest_times.take();
        }
    }

    /// Logarithm of an attempt's time relative to the median of those before it with the same number of build jobs.
    fn ratio_to_earlier(&self, brief: &Arc<AttemptBrief>) -> Option<f64> {
        let own = self.on_rung(Rung::NoVersion, &brief.key);
        // attempts that the list drops when the newest are added are left out, so that no ratio changes
        let mut own =
            own.skip_while(|seen| !Arc::ptr_eq(&seen.brief, brief)).take(Self::PER_RUNG - MOST_OF_PACKAGE);
        let time = f64::from(own.next()?.rates[0]);
        let earlier = own.filter(|seen| seen.jobs == brief.jobs && !seen.rates[0].is_nan()).take(EARLIER);
        let earlier: Vec<f64> = earlier.map(|seen| f64::from(seen.rates[0])).collect();
        let ratio = time - if earlier.len() < FEWEST_EARLIER { f64::NAN } else { median(earlier) };
        Some(ratio).filter(|ratio| !ratio.is_nan())
    }
}

fn package_of(key: &Key) -> Fnv {
    Fnv::default().with_part(&key.project).with_part(&key.package)
}
