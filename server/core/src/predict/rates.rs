//! CPU and wall time, from successful attempts. An attempt that was stopped only shows how long it was allowed to run.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    exact::{DefaultCounts, RateQuantile, RateValues},
    held_back::HeldBack,
    jobs,
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Basis, Cores, LATE_FROM, Millis, Quantity, Rung};

/// CPU request: the median of the average use. Builds share the CPU when it is short, so the median suffices.
const CPU_REQUEST_QUANTILE: f64 = 0.5;
/// CPU limit: the highest use that 95 % of the attempts stay within.
const CPU_LIMIT_QUANTILE: f64 = 0.95;

/// Quantiles of the two wall times.
const WALL_P50_QUANTILE: f64 = 0.5;
const WALL_P95_QUANTILE: f64 = 0.95;
/// Largest correction of the 95 % time, octaves.
const MOST_CORRECTION: f64 = 2.0;

/// CPU request and limit, in thousandths of a core. What a limit held back counts with a step more.
pub(super) fn cpu(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    held_back: Option<HeldBack>,
) -> [Quantity; 2] {
    let step = |used: &WeightedAttempt<'_>| held_back.map_or(0.0, |held_back| held_back.step(used));
    // a request is at most what the build had, because no node may have more; with a higher limit the next attempt shows what it uses
    let mean_use = |used: &WeightedAttempt<'_>| {
        let [_, mean, peak] = used.observation.rates.map(f64::from);
        let stepped = mean + step(used);
        if stepped > mean { stepped.min(peak.max(mean)) } else { stepped }
    };
    let peak_use = |used: &WeightedAttempt<'_>| f64::from(used.observation.rates[2]) + step(used);
    let [request, limit] = [settings.cpu_request.0, settings.cpu_limit.0].map(|cores| cores * 1000.0);
    let mean = RateValues::of(similar, mean_use, request, DefaultCounts::AmongFew);
    let peak = RateValues::of(similar, peak_use, limit, DefaultCounts::AmongFew);
    let mut asked = mean.quantile(CPU_REQUEST_QUANTILE, request);
    let most = peak.quantile(CPU_LIMIT_QUANTILE, limit);
    if asked.used.is_none() {
        // a default request must not raise a measured limit
        asked.value = asked.value.min(most.value);
    }
    let quantity = |of, values| millicores_quantity(settings, of, values, held_back);
    let request = quantity(asked, &mean);
    let mut limit = quantity(most, &peak);
    if limit.value < request.value {
        limit.value = request.value;
        limit.basis.bound = SizeBound::Request;
    }
    [request, limit]
}

fn millicores_quantity(
    settings: &Settings,
    of: RateQuantile<'_, '_>,
    values: &RateValues<'_, '_>,
    held_back: Option<HeldBack>,
) -> Quantity {
    let (cores, mut bound) = settings.bound_cpu(Cores(of.value / 1000.0));
    if let (SizeBound::None, Some(held_back), Some(used)) = (&bound, held_back, of.used) {
        bound = held_back.bound(used);
    }
    // values are stored as logarithms, so a difference of a thousandth of a core is rounding
    let value = Millis::from_f64((cores.0 * 1000.0).round()).0.max(1);
    Quantity { value, basis: basis(of, values, bound) }
}

/// Describes what determined the number: attempts, or the default, which has no confidence however many attempts there are.
fn basis(of: RateQuantile<'_, '_>, values: &RateValues<'_, '_>, bound: SizeBound) -> Basis {
    let attempts = values.attempts;
    let Some((rung, confidence)) = values.known.filter(|_| of.used.is_some()) else {
        let bound = if bound == SizeBound::None { SizeBound::Default } else { bound };
        return Basis::of(Rung::Default, attempts, bound);
    };
    // the share covered by a capped size is not computed
    let quantile = if bound.is_cut() { 0.0 } else { of.share };
    Basis { quantile, confidence: Some(confidence), ..Basis::of(rung, attempts, bound) }
}

/// Wall times of a build: the median, and the 95th percentile.
#[derive(Debug)]
pub(super) struct WallTimes {
    pub(super) p50: Quantity,
    pub(super) p95: Quantity,
}

/// Wall times at `build_jobs`. Times of attempts with other numbers of jobs are converted; `shared`: milliseconds of work that the jobs
/// share. The median time of the package follows the shift of the whole fleet, and its 95 % time the lateness of it
/// ([`History::time_shift_and_lateness`](crate::domain::History)). Once an attempt of the package has a time, the defaults are ignored,
/// because they may be a thousand times as long.
pub(super) fn wall_times(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    build_jobs: u64,
    shared: f64,
    [shift, lateness]: [f64; 2],
) -> WallTimes {
    let asked = u32::try_from(build_jobs).unwrap_or(u32::MAX);
    // `shared` is that of this package, so times of other packages are not converted
    let is_moved = |used: &WeightedAttempt<'_>| {
        let had = u32::from(used.observation.jobs);
        shared > 0.0 && had > 0 && had != asked && used.rung.is_of_build()
    };
    let log = |used: &WeightedAttempt<'_>| {
        let log = f64::from(used.observation.rates[0]);
        let had = u32::from(used.observation.jobs);
        if is_moved(used) { jobs::wall_at_jobs(log.exp2(), shared, had, asked).log2() } else { log }
    };
    let at = |share: f64, default: Millis| {
        let default = default.as_f64();
        let values = RateValues::of(similar, log, default, DefaultCounts::Alone);
        let is_late = share > WALL_P50_QUANTILE;
        let of = values.quantile(if is_late { LATE_FROM } else { share }, default);
        let correction = match of.used.filter(|used| used.rung.is_of_build()) {
            Some(_) if is_late => (lateness * values.deviation()).min(MOST_CORRECTION),
            Some(_) => shift,
            None => 0.0,
        };
        // the measured time is used where it applies unchanged, because its logarithm is rounded
        let wall = match of.used.filter(|used| !is_moved(used) && correction == 0.0) {
            Some(used) => used.observation.brief.wall,
            None => Millis::from_f64(of.value * correction.exp2()),
        };
        let mut basis = basis(of, &values, SizeBound::None);
        // report the median as 50 %, whatever share of a few attempts it covers
        basis.quantile = if of.used.is_some() { share } else { 0.0 };
        Quantity { value: wall.0.max(1), basis }
    };
    let half = at(WALL_P50_QUANTILE, settings.wall_p50);
    let mut most = at(WALL_P95_QUANTILE, settings.wall_p95.max(settings.wall_p50));
    most.value = most.value.max(half.value);
    WallTimes { p50: half, p95: most }
}
