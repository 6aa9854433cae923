//! CPU and wall time, from the attempts that succeeded: one that was stopped tells how long it was left alone.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings, jobs,
    known::Known,
    pool::{Pool, Used},
    spread::{Cover, Spread},
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
pub(super) fn cpu(pool: &Pool<'_>, settings: &Settings) -> [Quantity; 2] {
    let defaults = [settings.cpu_request.0, settings.cpu_limit.0].map(|cores| cores * 1000.0);
    let [request, limit] = defaults;
    // where no attempt tells, a default is what the operator wrote: not the step of a grid above it
    let or_default = |spread: &Spread, share: f64, default: f64| match spread.attempts {
        0 => (Cover { value: default, share: 0.0 }, 0),
        attempts => (spread.quantile(share), attempts),
    };
    let mean = Spread::blend(pool, mean_use, [request, request]);
    let peak = Spread::blend(pool, peak_use, [limit, limit]);
    let mut request = or_default(&mean, CPU_REQUEST, request);
    let limit = or_default(&peak, CPU_LIMIT, limit.max(request.0.value));
    if mean.attempts == 0 {
        // what is only the default raises no limit that was measured
        request.0.value = request.0.value.min(limit.0.value);
    }
    bounded(settings, [(request, Known::of(pool, mean_use)), (limit, Known::of(pool, peak_use))])
}

fn mean_use(used: &Used<'_>) -> f64 {
    f64::from(used.fact.rates[1])
}

fn peak_use(used: &Used<'_>) -> f64 {
    f64::from(used.fact.rates[2])
}

/// Request and limit, each with its value, the attempts that tell it, and how well it is known.
fn bounded(settings: &Settings, [request, limit]: [((Cover, u32), Known); 2]) -> [Quantity; 2] {
    let quantity = |((cover, attempts), known): ((Cover, u32), Known)| {
        let (cores, mut bound) = settings.bound_cpu(Cores(cover.value / 1000.0));
        let Known { rung, confidence } = known;
        if bound == SizeBound::None && attempts == 0 {
            bound = SizeBound::Default;
        }
        let value = Millis::from_f64((cores.0 * 1000.0).ceil()).0.max(1);
        // which share a cut size covers is not worked out
        let quantile = if bound.is_cut() { 0.0 } else { cover.share };
        Quantity { value, basis: Basis { rung, attempts, quantile, margin: 1.0, bound, confidence } }
    };
    let (request, mut limit) = (quantity(request), quantity(limit));
    if limit.value < request.value {
        limit.value = request.value;
        limit.basis.bound = SizeBound::Request;
    }
    [request, limit]
}

/// Wall time: of half of the attempts, and of 95 % of them.
#[derive(Debug)]
pub(super) struct Wall {
    pub(super) half: Quantity,
    pub(super) most: Quantity,
}

/// At `build_jobs`: attempts at other numbers of jobs count as they would at these.
/// `shared`: milliseconds that the jobs share.
pub(super) fn wall(pool: &Pool<'_>, settings: &Settings, (build_jobs, shared): (u64, f64)) -> Wall {
    let (half, most) = (settings.wall_p50.as_f64(), settings.wall_p95.as_f64());
    let asked = u32::try_from(build_jobs).unwrap_or(u32::MAX);
    let log = |used: &Used<'_>| {
        let (log, had) = (f64::from(used.fact.rates[0]), u32::from(used.fact.jobs));
        // builds of other packages share another time
        let moved = shared > 0.0 && had > 0 && had != asked && used.rung >= Rung::Package;
        if moved { jobs::wall_shift(log.exp2(), shared, had, asked).log2() } else { log }
    };
    let spread = Spread::blend(
        pool,
        log,
        // the mean of half as long and half as long as most are
        [half, f64::midpoint(half, most)],
    );
    let Known { rung, confidence } = Known::of(pool, log);
    let quantity = |cover: Cover, share: f64| {
        let known = spread.attempts > 0;
        let bound = if known { SizeBound::None } else { SizeBound::Default };
        // not what the step of the grid covers: a median is a median
        let quantile = if known { share } else { 0.0 };
        let basis = Basis { rung, attempts: spread.attempts, quantile, margin: 1.0, bound, confidence };
        Quantity { value: Millis::from_f64(cover.value).0.max(1), basis }
    };
    if spread.attempts == 0 {
        let whole = |value| quantity(Cover { value, share: 0.0 }, 0.0);
        return Wall { half: whole(half), most: whole(most.max(half)) };
    }
    let at = |share| quantity(spread.quantile(share), share);
    Wall { half: at(WALL_HALF), most: at(WALL_MOST) }
}
