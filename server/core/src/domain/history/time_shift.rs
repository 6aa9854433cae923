//! How much longer the newest builds of the fleet took than the same builds before them: busier or slower machines.
//!
//! - The **shift** is the median of the ratios to the medians before them.
//! - The **lateness** is how far above the late times of their earlier attempts, in deviations of these, all but 5 % ended. A build's own
//!   deviation times this lateness gives its 95 % time (split conformal prediction with normalized scores, Papadopoulos 2008, over a
//!   sliding window). What the newest builds of all packages show also holds for one with few attempts. It is never below 0: the builds
//!   of a burst that end first are the short ones.
//!
//! Both are functions of the attempts alone: a new attempt is compared when it is added, and all are after other changes of their packages.
//! Constants of the shift were chosen on the first 60 % of a file of Spack's CI (18,973 rows), scored from its 20 % on: 32 to 64 newest
//! builds and steps of an eighth or a quarter are alike. Those of the lateness were chosen on its first 40 %.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, Fnv, History, Key, Rung, median};

/// Number of the newest builds that the shift is computed from.
const NEWEST: usize = 48;
/// Fewest builds with a comparison: below, there is no shift.
const FEWEST: usize = 16;
/// Most builds of one package that count in the shift, so that a package which changed moves no other.
const MOST_OF_PACKAGE: usize = 4;
/// Most builds of one package that count in the lateness: enough for a fleet of one package.
const LATE_OF_PACKAGE: usize = 48;
/// Most attempts that are looked at to find [`NEWEST`] with a comparison.
const MOST_READ: usize = 4 * NEWEST;
/// Number of earlier attempts of the same build, in any version, that one is compared with.
const EARLIER: usize = 64;
const FEWEST_EARLIER: usize = 4;
/// Steps of the shift in one octave: answers computed from it stay valid while it stays on a step.
const STEPS: f64 = 8.0;
/// Highest shift up and down, octaves.
const MOST: f64 = 2.0;
/// Share of the builds that end within their 95 % time.
const LATE_SHARE: f64 = 0.95;
/// Fewest builds with a lateness: from these on, one odd build alone does not decide it.
const FEWEST_LATE: usize = 20;
/// Steps of the lateness in one deviation.
const LATE_STEPS: f64 = 4.0;
/// Highest lateness, deviations.
const MOST_LATE: f64 = 8.0;
/// The share of earlier times at which a late time begins.
pub(crate) const LATE_FROM: f64 = 0.9;
/// Shares between which a deviation is measured: one standard deviation of a normal distribution below and above its mean.
const DEVIATION_SHARES: [f64; 2] = [0.16, 0.84];
/// The usual deviation of the times of one build in octaves, and the number of attempts that it counts as.
const USUAL_DEVIATION: [f64; 2] = [0.8, 4.0];

/// The newest [`MOST_READ`] trusted attempts, oldest first, and the shift and lateness that follow from them.
#[derive(Debug, Default)]
pub(super) struct NewestTimes {
    times: VecDeque<ComparedTime>,
    shift_and_lateness: [f64; 2],
}

/// The time of an attempt, compared with attempts before it.
#[derive(Debug)]
struct ComparedTime {
    package: Fnv,
    /// Number of newer attempts of the package.
    newer: usize,
    /// See [`History::compared_to_earlier`].
    compared: Option<[f64; 2]>,
}

impl NewestTimes {
    fn of(history: &History) -> Self {
        let mut times = Self::default();
        let newest: Vec<_> = history.newest_trusted().take(MOST_READ).collect();
        newest.into_iter().rev().for_each(|brief| times.push(brief, history.compared_to_earlier(brief)));
        times.shift_and_lateness = times.shift_and_lateness();
        times
    }

    /// Adds an attempt that is newer than all others.
    fn add(&mut self, brief: &AttemptBrief, compared: Option<[f64; 2]>) {
        self.push(brief, compared);
        self.shift_and_lateness = self.shift_and_lateness();
    }

    fn push(&mut self, brief: &AttemptBrief, compared: Option<[f64; 2]>) {
        let package = package_of(&brief.key);
        self.times.iter_mut().filter(|time| time.package == package).for_each(|time| time.newer += 1);
        self.times.push_back(ComparedTime { package, newer: 0, compared });
        if self.times.len() > MOST_READ {
            self.times.pop_front();
        }
    }

    fn shift_and_lateness(&self) -> [f64; 2] {
        let counted = self.times.iter().rev().filter_map(|time| Some((time.newer, time.compared?)));
        let (mut ratios, mut late) = (Vec::with_capacity(NEWEST), Vec::with_capacity(MOST_READ));
        for (newer, [ratio, above]) in counted {
            if newer < MOST_OF_PACKAGE && ratios.len() < NEWEST {
                ratios.push(ratio);
            }
            if newer < LATE_OF_PACKAGE {
                late.push((above, 1.0));
            }
        }
        let shift = if ratios.len() < FEWEST { 0.0 } else { (median(ratios) * STEPS).round() / STEPS };
        late.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let [lateness] = quantiles(&late, [LATE_SHARE]);
        let lateness =
            if late.len() < FEWEST_LATE { 0.0 } else { (lateness * LATE_STEPS).ceil() / LATE_STEPS };
        [shift.clamp(-MOST, MOST), lateness.clamp(0.0, MOST_LATE)]
    }
}

impl History {
    /// The shift as a logarithm to base 2, and the lateness in deviations; 0 if too few builds can be compared. Only trusted attempts count.
    pub(crate) fn time_shift_and_lateness(&self) -> [f64; 2] {
        self.newest_times.get_or_init(|| NewestTimes::of(self)).shift_and_lateness
    }

    /// Compares the time of an attempt that was added.
    pub(super) fn compare_time(&mut self, brief: &Arc<AttemptBrief>) {
        let times = if brief.untrusted { None } else { self.newest_times.take() };
        let Some(mut times) = times else { return };
        if self.newest_trusted().next().is_some_and(|newest| Arc::ptr_eq(newest, brief)) {
            times.add(brief, self.compared_to_earlier(brief));
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

    /// Logarithm of an attempt's time relative to the median of those before it with the same number of build jobs, and how many deviations
    /// of these it is above their late time.
    fn compared_to_earlier(&self, brief: &Arc<AttemptBrief>) -> Option<[f64; 2]> {
        let own = self.on_rung(Rung::NoVersion, &brief.key);
        // attempts that the list drops when the newest are added are left out, so that no ratio changes
        let mut own =
            own.skip_while(|seen| !Arc::ptr_eq(&seen.brief, brief)).take(Self::PER_RUNG - LATE_OF_PACKAGE);
        let time = f64::from(own.next()?.rates[0]);
        let earlier = own.filter(|seen| seen.jobs == brief.jobs && !seen.rates[0].is_nan()).take(EARLIER);
        let mut earlier: Vec<(f64, f64)> = earlier.map(|seen| (f64::from(seen.rates[0]), 1.0)).collect();
        if time.is_nan() || earlier.len() < FEWEST_EARLIER {
            return None;
        }
        earlier.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let [late] = quantiles(&earlier, [LATE_FROM]);
        let (middle, _) = earlier.get(earlier.len() / 2)?;
        Some([time - middle, (time - late) / deviation_of_times(&earlier)])
    }
}

/// How much the times of one build differ, octaves, from the logarithms of its times, which ascend, with their weights. The usual deviation
/// counts as some attempts more; attempts of little weight count as fewer (effective sample size, Kish 1965).
pub(crate) fn deviation_of_times(sorted: &[(f64, f64)]) -> f64 {
    let [low, high] = quantiles(sorted, DEVIATION_SHARES);
    let sum = |power| sorted.iter().map(|(_, weight)| weight.powi(power)).sum::<f64>();
    let ([usual, count], attempts) = (USUAL_DEVIATION, sum(1).powi(2) / sum(2).max(f64::MIN_POSITIVE));
    ((attempts * ((high - low) / 2.0).powi(2) + count * usual.powi(2)) / (attempts + count)).sqrt()
}

/// The smallest values that cover the shares of the weight, which ascend.
fn quantiles<const N: usize>(sorted: &[(f64, f64)], shares: [f64; N]) -> [f64; N] {
    let all: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut values = sorted.iter();
    let (mut covered, mut last) = (0.0, 0.0);
    shares.map(|share| {
        // the tolerance absorbs the rounding of summed shares
        while covered < (share - 1e-9) * all {
            let Some((value, weight)) = values.next() else { break };
            (covered, last) = (covered + weight, *value);
        }
        last
    })
}

fn package_of(key: &Key) -> Fnv {
    Fnv::default().with_part(&key.project).with_part(&key.package)
}
