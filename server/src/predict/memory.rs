//! Memory: two questions with two prices.
//!
//! The **request** is for packing. It is the size of least expected cost: what is held for nothing while it is enough,
//! against one price for each build that goes over it. The price is the same for every build, in GiB x h: so small
//! builds buy safety cheaply, and only large and long ones gamble.
//!
//! The **limit** is for killing. It is the smallest size that all but a stated share of the expected attempts stay below,
//! and a margin for hot file pages: a build that gets only its need starves, because the compiler's own text has
//! no room (measured: need 281 MB, healthy at a limit of 320 MB, starved at 280 MB).

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    plan::{Plan, REAL_STEP},
    pool::Pool,
    spread::Spread,
};
use crate::domain::{Basis, Bytes, Quantity, Rung};

/// Factor above the need that leaves room for hot file pages: 320 MB against 281 MB was healthy.
const PAGES_FACTOR: f64 = 1.15;
/// Least room for hot file pages: a compiler and its headers, whatever the need.
const PAGES_LEAST: Bytes = Bytes(64 << 20);

/// Share of what lies above a size that failed which the next one shall cover at most.
const RETRY_COVERS: f64 = 0.92;
/// A size this much above what would be tried first was a retry already.
const SECOND_TIME: f64 = 1.2;

/// A limit that leaves room for hot file pages above `need`.
pub(super) fn with_pages(need: Bytes) -> Bytes {
    let least = Bytes(need.0.saturating_add(PAGES_LEAST.0));
    Bytes::from_f64(need.as_f64() * PAGES_FACTOR).max(least)
}

/// Request and limit.
#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) request: Quantity,
    pub(super) limit: Quantity,
    /// How far the middle 80 % of the expected needs lie apart, in medians.
    pub(super) width: f64,
}

/// What the needs of the next attempt are expected to be.
pub(super) fn expected(pool: &Pool<'_>, settings: &Settings) -> Spread {
    if pool.knows_package() && !settings.preset {
        // what builds of other packages need, and what an unknown one gets, says nothing about this one any more
        return Spread::of_package(pool, |used| used.need);
    }
    // the limit holds the margin already
    let defaults = [settings.memory_request.as_f64(), settings.memory_limit.as_f64() / PAGES_FACTOR];
    Spread::blend(pool, |used| used.need, defaults)
}

/// Request and limit. `price`: what one failure costs, in GiB x h.
pub(super) fn size(pool: &Pool<'_>, settings: &Settings, price: f64) -> Sizes {
    let rung = pool.main_rung();
    let plain = expected(pool, settings);
    let spread = plain.smoothed();
    let ceiling = settings.failure_ceiling.clamp(0.0, 0.5);
    let enough = spread.quantile(1.0 - ceiling);
    let need = Bytes::from_f64(enough.value);
    let roomy = with_pages(need);
    let margin = roomy.as_f64() / need.as_f64().max(1.0);
    let mut limit = quantity(settings, rung, spread.attempts, (roomy, enough.share, margin));
    if limit.basis.bound.is_cut() {
        // the share is of the size that is left, not of the one that was wanted, and no room for pages is promised
        limit.basis.quantile = spread.covered(Bytes(limit.value).as_f64()).clamp(0.0, 1.0);
        limit.basis.margin = 1.0;
    }
    let cheap = Plan::new(&spread, price).first();
    let cheap = (Bytes::from_f64(cheap.bytes), cheap.share.clamp(0.0, 1.0), 1.0);
    let mut request = quantity(settings, rung, spread.attempts, cheap);
    if request.basis.bound.is_cut() {
        request.basis.quantile = spread.covered(Bytes(request.value).as_f64()).clamp(0.0, 1.0);
    }
    // decreases are bounded: while more is unknown than may fail, a preset holds
    if settings.preset && pool.unknown > ceiling && limit.value < settings.memory_limit.0 {
        limit = quantity(settings, rung, spread.attempts, (settings.memory_limit, 0.0, 1.0));
        limit.basis.bound = SizeBound::Preset;
    }
    if limit.value < request.value {
        // safety was cheaper than the ceiling asks for; memory above the need costs nothing as a limit
        limit.value = request.value;
        limit.basis.bound = SizeBound::Request;
    }
    let width = (plain.quantile(0.9).value - plain.quantile(0.1).value) / plain.quantile(0.5).value.max(1.0);
    Sizes { request, limit, width }
}

/// The next size after `failed` was too little. A surer retry than [`RETRY_COVERS`] is not worth what it holds.
/// `price`: what one failure costs; `held`: what an average build holds, both in GiB x h.
pub(super) fn above(pool: &Pool<'_>, settings: &Settings, (price, held): (f64, f64), failed: Bytes) -> Bytes {
    let failed = failed.as_f64();
    let spread = expected(pool, settings).smoothed();
    let plan = Plan::new(&spread, price);
    let below = spread.covered(failed);
    let sure = spread.quantile(below + (1.0 - below) * RETRY_COVERS).value;
    let mut next = plan.above(failed, held.min(price)).min(sure).max(failed * REAL_STEP);
    let preset = settings.memory_request.as_f64();
    if settings.preset && preset > failed && failed > plan.first().bytes * SECOND_TIME {
        // attempts are few: whoever wrote the preset knows more than one more step
        next = preset;
    }
    Bytes::from_f64(next).ceil_mib()
}

/// Sizes for a key of which nothing is known.
pub(super) fn default_sizes(settings: &Settings) -> Sizes {
    let limit = quantity(settings, Rung::Default, 0, (settings.memory_limit, 0.0, 1.0));
    let asked = settings.memory_request.min(Bytes(limit.value));
    let mut request = quantity(settings, Rung::Default, 0, (asked, 0.0, 1.0));
    request.value = request.value.min(limit.value);
    Sizes { request, limit, width: 0.0 }
}

fn quantity(
    settings: &Settings,
    rung: Rung,
    attempts: u32,
    (size, quantile, margin): (Bytes, f64, f64),
) -> Quantity {
    let (size, mut bound) = settings.bound_memory(size.ceil_mib());
    if bound == SizeBound::None && rung == Rung::Default {
        bound = SizeBound::Default;
    }
    Quantity {
        value: size.0.max(1),
        basis: Basis { rung, attempts, quantile, margin, bound, confidence: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_room_for_hot_file_pages() {
        assert!(with_pages(Bytes(281_000_000)) > Bytes(320_000_000), "healthy at 320 MB, starved at 280 MB");
        assert_eq!(with_pages(Bytes(0)), PAGES_LEAST);
    }
}
