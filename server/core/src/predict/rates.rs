//! CPU and wall time, from the attempts that succeeded: one that was stopped tells how long it was left alone.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    exact::{DefaultCounts, RateQuantile, RateValues},
    jobs,
    known::NumberConfidence,
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Basis, Cores, Millis, Quantity, Rung};

/// CPU request: half of the attempts use less on average. CPU is shared out when it is short, so the middle is enough.
const CPU_REQUEST: f64 = 0.5;
/// CPU limit: peaks of all but one attempt in twenty.
const CPU_LIMIT: f64 = 0.95;

/// Shares of the attempts that the two times are over.
const WALL_HALF: f64 = 0.5;
const WALL_MOST: f64 = 0.95;

/// CPU to request and CPU limit, in thousandths of a core.
pub(super) fn cpu(similar: &SimilarAttempts<'_>, settings: &Settings) -> [Quantity; 2] {
    let [request, limit] = [settings.cpu_request.0, settings.cpu_limit.0].map(|cores| cores * 1000.0);
    let mean = RateValues::of(similar, mean_use, request, DefaultCounts::AmongFew);
    let peak = RateValues::of(similar, peak_use, limit, DefaultCounts::AmongFew);
    let mut asked = mean.quantile(CPU_REQUEST, request);
    let most = peak.quantile(CPU_LIMIT, limit);
    if asked.used.is_none() {
        // what is only the default raises no limit that was measured
        asked.value = asked.value.min(most.value);
    }
    let request = millicores(settings, asked, &mean);
    let mut limit = millicores(settings, most, &peak);
    if limit.value < request.value {
        limit.value = request.value;
        limit.basis.bound = SizeBound::Request;
    }
    [request, limit]
}

fn mean_use(used: &WeightedAttempt<'_>) -> f64 {
    f64::from(used.observation.rates[1])
}

fn peak_use(used: &WeightedAttempt<'_>) -> f64 {
    f64::from(used.observation.rates[2])
}

fn millicores(settings: &Settings, of: RateQuantile<'_, '_>, values: &RateValues<'_, '_>) -> Quantity {
    let (cores, bound) = settings.bound_cpu(Cores(of.value / 1000.0));
    // values are logarithms: a thousandth of a core less is their rounding
    let value = Millis::from_f64((cores.0 * 1000.0).round()).0.max(1);
    Quantity { value, basis: basis(of, values, bound) }
}

/// What decided: attempts, or the default, of which nothing is known then, however many attempts there are.
fn basis(of: RateQuantile<'_, '_>, values: &RateValues<'_, '_>, bound: SizeBound) -> Basis {
    let attempts = values.attempts;
    if of.used.is_none() {
        let bound = if bound == SizeBound::None { SizeBound::Default } else { bound };
        return Basis {
            rung: Rung::Default,
            attempts,
            quantile: 0.0,
            margin: 1.0,
            bound,
            confidence: None,
            all_of_rung: false,
            by_processes: 0,
        };
    }
    let NumberConfidence { rung, confidence } = values.known;
    // which share a cut size covers is not worked out
    let quantile = if bound.is_cut() { 0.0 } else { of.share };
    Basis { rung, attempts, quantile, margin: 1.0, bound, confidence, all_of_rung: false, by_processes: 0 }
}

/// Wall time: of half of the attempts, and of 95 % of them.
#[derive(Debug)]
pub(super) struct WallTimes {
    pub(super) half: Quantity,
    pub(super) most: Quantity,
}

/// At `build_jobs`: attempts at other numbers of jobs count as they would at these. Once an attempt of the package tells its time, the
/// defaults say nothing any more: they may be a thousand times as long.
/// `shared`: milliseconds that the jobs share.
pub(super) fn wall(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    build_jobs: u64,
    shared: f64,
) -> WallTimes {
    let asked = u32::try_from(build_jobs).unwrap_or(u32::MAX);
    // builds of other packages share another time
    let is_moved = |used: &WeightedAttempt<'_>| {
        let had = u32::from(used.observation.jobs);
        shared > 0.0 && had > 0 && had != asked && used.rung.is_of_build()
    };
    let log = |used: &WeightedAttempt<'_>| {
        let log = f64::from(used.observation.rates[0]);
        let had = u32::from(used.observation.jobs);
        if is_moved(used) { jobs::wall_shift(log.exp2(), shared, had, asked).log2() } else { log }
    };
    let at = |share: f64, default: Millis| {
        let default = default.as_f64();
        let values = RateValues::of(similar, log, default, DefaultCounts::Alone);
        let of = values.quantile(share, default);
        // as it was measured: a logarithm is rounded
        let wall = match of.used.filter(|used| !is_moved(used)) {
            Some(used) => used.observation.brief.wall,
            None => Millis::from_f64(of.value),
        };
        let mut basis = basis(of, &values, SizeBound::None);
        // a median is a median, whatever share of a few attempts is not above it
        basis.quantile = if of.used.is_some() { share } else { 0.0 };
        Quantity { value: wall.0.max(1), basis }
    };
    let half = at(WALL_HALF, settings.wall_p50);
    let mut most = at(WALL_MOST, settings.wall_p95.max(settings.wall_p50));
    most.value = most.value.max(half.value);
    WallTimes { half, most }
}
