//! How much longer the newest builds of the fleet took than the same builds before them: busier or slower machines.
//!
//! It is a function of the attempts alone, computed when it is first asked for after a change. Constants were chosen on the first 60 % of
//! a file of Spack's CI (18,973 rows), scored from its 20 % on: 32 to 64 newest builds and steps of an eighth or a quarter are alike.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use super::super::{AttemptBrief, History, Rung};

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

impl History {
    /// Logarithm to base 2 of the ratio; 0 if too few builds can be compared. Only trusted attempts count.
    pub(crate) fn time_shift(&self) -> f64 {
        *self.versions.time_shift.get_or_init(|| {
            let ratios = self.newest_ratios();
            if ratios.len() < FEWEST {
                return 0.0;
            }
            let shift = (middle(ratios) * STEPS).round() / STEPS;
            shift.clamp(-MOST, MOST)
        })
    }

    /// The ratios of the newest builds.
    fn newest_ratios(&self) -> Vec<f64> {
        let mut of_package: HashMap<(&str, &str), usize, RandomState> = HashMap::default();
        let mut ratios = Vec::with_capacity(NEWEST);
        for brief in self.newest_trusted().take(MOST_READ) {
            let count = of_package.entry((&brief.key.project, &brief.key.package)).or_insert(0);
            *count += 1;
            if *count <= MOST_OF_PACKAGE {
                ratios.extend(self.ratio_to_earlier(brief));
            }
            if ratios.len() >= NEWEST {
                break;
            }
        }
        ratios
    }

    /// Logarithm of an attempt's time relative to the median of those before it with the same number of build jobs.
    fn ratio_to_earlier(&self, brief: &Arc<AttemptBrief>) -> Option<f64> {
        let mut own =
            self.on_rung(Rung::NoVersion, &brief.key).skip_while(|seen| !Arc::ptr_eq(&seen.brief, brief));
        let time = f64::from(own.next()?.rates[0]);
        let earlier = own.filter(|seen| seen.jobs == brief.jobs && !seen.rates[0].is_nan()).take(EARLIER);
        let earlier: Vec<f64> = earlier.map(|seen| f64::from(seen.rates[0])).collect();
        let ratio = time - if earlier.len() < FEWEST_EARLIER { f64::NAN } else { middle(earlier) };
        Some(ratio).filter(|ratio| !ratio.is_nan())
    }
}

/// The median of at least one value; the upper of the two in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
