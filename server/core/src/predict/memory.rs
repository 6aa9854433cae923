//! Memory request and limit: two sizes for two costs.
//!
//! The **request** reserves room on a node. It is the size with the least expected cost, which is the memory reserved in vain plus a price
//! for each build that exceeds it. The price, in GiB x h, is the same for every build: for small builds a safe size is cheap, and only
//! large and long builds take risks.
//!
//! The **limit** is where the kernel kills. It is the smallest size that only a given share of the expected attempts exceed, plus a margin
//! for hot file pages: a build that gets only its need starves, because the compiler's own code no longer fits (measured: need 281 MB,
//! healthy at a limit of 320 MB, starved at 280 MB).

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    distribution::Distribution,
    plan::{ChosenSize, SizePlan, step_above},
    presets::{COVERED_SHARE, PresetShares},
    similar::SimilarAttempts,
};
use crate::domain::{Basis, Bytes, LowerBound, Quantity, Rung};

/// Factor above the need that leaves room for hot file pages: a limit of 320 MB for a need of 281 MB was healthy.
const PAGES_FACTOR: f64 = 1.15;
/// Least room for hot file pages: a compiler and its headers need this much, however small the build.
pub(super) const MIN_PAGES_ROOM: Bytes = Bytes(64 << 20);

/// Of the builds that need more than a failed size, the highest share that the next size covers.
const RETRY_COVERS: f64 = 0.92;
/// A failed size that is more than this multiple of the size tried first was itself a retry.
const RETRIED_SIZE_FACTOR: f64 = 1.2;

/// How likely a need above all seen ones is with a preset, as a share of how likely it is without: the author of the preset chose it for
/// such needs. Chosen on made fleets of 120 to 360 builds: there 0.5 has 4 % less surplus where 10 % of the builds fail, and 0 has 4 % more;
/// on recorded workflows 0.5 has up to 3 % more.
const UNSEEN_WITH_PRESET: f64 = 0.15;

/// A limit for `need` with room for hot file pages.
pub(crate) fn with_pages(need: Bytes) -> Bytes {
    let least = Bytes(need.0.saturating_add(MIN_PAGES_ROOM.0));
    Bytes::from_f64(need.as_f64() * PAGES_FACTOR).max(least)
}

/// Memory request and limit, with what they follow from.
#[derive(Debug)]
pub(super) struct MemorySizes {
    pub(super) request: Quantity,
    pub(super) limit: Quantity,
    /// Share of the expected needs that are at most the limit, before it is raised because memory stopped the last builds.
    pub(super) covered: f64,
    /// Set if memory stopped every known attempt of the package and there is no preset: the sizes follow from those kills.
    pub(super) by_kills: Option<LowerBound>,
    /// Set if the request follows from other packages' presets: the share of these that was needed at most.
    pub(super) of_presets: Option<f64>,
}

impl MemorySizes {
    pub(super) fn raise_limit_to_request(&mut self) {
        if self.limit.value < self.request.value {
            self.limit.value = self.request.value;
            self.limit.basis.bound = SizeBound::Request;
        }
    }
}

/// Distribution of the memory that the next attempt needs.
pub(super) fn expected_needs(similar: &SimilarAttempts<'_>, settings: &Settings) -> Distribution {
    Distribution::expected(similar, |used| (used.need, used.weight), defaults(similar, settings))
}

/// The sizes that get the weight that no attempt takes. `None` if the package's own attempts are enough: then needs of other packages and
/// the default add nothing.
fn defaults(similar: &SimilarAttempts<'_>, settings: &Settings) -> Option<[f64; 2]> {
    // the configured limit includes the margin already, the distribution is of needs without it
    let sizes = [settings.memory_request.as_f64(), settings.memory_limit.as_f64() / PAGES_FACTOR];
    (settings.preset || !similar.knows_package()).then_some(sizes)
}

/// Computes the memory request and limit of a build from similar attempts. `price` is the cost of one failure, in GiB x h; `is_bound`:
/// whether a preset bounds them.
pub(super) fn memory_sizes(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    price: f64,
    is_bound: bool,
) -> MemorySizes {
    let rung = similar.main_rung();
    // attempts of the package show more than a preset, which bounds the request and sizes a retry
    let unknown = defaults(similar, settings).filter(|_| !similar.knows_package());
    let mut plain = Distribution::expected(similar, |used| (used.need, used.weight), unknown);
    if is_bound {
        plain.unseen *= UNSEEN_WITH_PRESET;
    }
    let spread = plain.smoothed();
    let ceiling = settings.failure_ceiling.clamp(0.0, 0.5);
    // a kill costs a whole build, and unused memory below a limit costs nothing: the tails are computed for rare events
    let apart = plain.smoothed_within_groups();
    let seldom = apart.as_ref().unwrap_or(&spread);
    let enough = seldom.quantile(1.0 - ceiling);
    let need = Bytes::from_f64(enough.value);
    let roomy = with_pages(need);
    let margin = roomy.as_f64() / need.as_f64().max(1.0);
    let covered = |of: &Distribution, size: u64| of.covered(Bytes(size).as_f64()).clamp(0.0, 1.0);
    let mut limit = bounded_quantity(
        settings,
        rung,
        spread.attempts,
        WantedSize { size: roomy, quantile: enough.share, margin },
    );
    if limit.basis.bound.is_cut() {
        // a cap or floor changed the limit: the share is that of the changed size, and room for file pages is not guaranteed
        (limit.basis.quantile, limit.basis.margin) = (covered(seldom, limit.value), 1.0);
    }
    let cheap = SizePlan::new(&spread, price).first_size();
    let cheap =
        WantedSize { size: Bytes::from_f64(cheap.bytes), quantile: cheap.share.clamp(0.0, 1.0), margin: 1.0 };
    let mut request = bounded_quantity(settings, rung, spread.attempts, cheap);
    if request.basis.bound != SizeBound::None {
        request.basis.quantile = covered(&spread, request.value);
    }
    if is_bound {
        at_most_preset(&mut request, similar, settings, &spread);
    }
    // a preset limit is lowered only once enough attempts of the package are known: `unknown` is below the failure ceiling
    if settings.preset && similar.unknown_share > ceiling && limit.value < settings.memory_limit.0 {
        limit = bounded_quantity(settings, rung, spread.attempts, WantedSize::of(settings.memory_limit));
        limit.basis.bound = SizeBound::Preset;
    }
    let mut sizes = MemorySizes { request, limit, covered: 0.0, by_kills: None, of_presets: None };
    // the cheapest request is safer than the failure ceiling requires; a higher limit costs nothing
    sizes.raise_limit_to_request();
    cover_at_least(&mut sizes.limit, &sizes.request, seldom);
    sizes.covered = covered(seldom, sizes.limit.value);
    sizes
}

/// Caps the request at the preset if every known attempt of the package stayed below it. The preset may be chosen by the size of a node: a
/// request slightly above half a node occupies the whole node.
fn at_most_preset(
    request: &mut Quantity,
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    spread: &Distribution,
) {
    let (preset, _) = settings.bound_memory(settings.memory_request);
    let is_enough = highest_need(similar, false).is_none_or(|need| need <= preset)
        && highest_need(similar, true).is_none_or(|stopped| stopped < preset);
    if request.value > preset.0 && is_enough {
        request.value = preset.0;
        request.basis.bound = SizeBound::Preset;
        request.basis.quantile = spread.covered(preset.as_f64()).clamp(0.0, 1.0);
    }
}

/// Raises the share of builds that the limit covers to that of the request. A limit at or above the request covers at least as much, and
/// its room for file pages comes on top.
fn cover_at_least(limit: &mut Quantity, request: &Quantity, spread: &Distribution) {
    if limit.basis.quantile >= request.basis.quantile || limit.basis.bound == SizeBound::Preset {
        return;
    }
    let need = spread.quantile(request.basis.quantile).value.min(Bytes(request.value).as_f64());
    limit.basis.quantile = request.basis.quantile;
    if limit.basis.margin > 1.0 {
        limit.basis.margin = (Bytes(limit.value).as_f64() / need.max(1.0)).max(1.0);
    }
}

/// What a failure costs, in GiB x h.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureCost {
    /// Price of one failed build.
    pub(super) price: f64,
    /// Memory multiplied by time of an average build.
    pub(super) build_memory_time: f64,
}

/// The next size after `failed` was too small, from attempts of the package or a preset. It covers at most the share [`RETRY_COVERS`] of
/// the remaining needs, because a larger size costs more than it saves.
pub(super) fn needed_above(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    cost: FailureCost,
    failed: Bytes,
) -> Bytes {
    let failed = failed.as_f64();
    let spread = expected_needs(similar, settings).smoothed();
    let plan = SizePlan::new(&spread, cost.price);
    let below = spread.covered(failed);
    let sure = spread.quantile(below + (1.0 - below) * RETRY_COVERS).value;
    let mut next = plan.size_above(failed, cost.build_memory_time.min(cost.price)).min(sure);
    let preset = settings.memory_request.as_f64();
    if settings.preset && preset > failed && failed > plan.first_size().bytes * RETRIED_SIZE_FACTOR {
        // the size failed although it was itself a retry: the preset's author knows more than few attempts show
        next = preset;
    }
    Bytes::from_f64(next).ceil_mib()
}

/// The operator's defaults as request and limit, for a key without uncensored attempts.
pub(super) fn default_sizes(settings: &Settings) -> MemorySizes {
    let limit = bounded_quantity(settings, Rung::Default, 0, WantedSize::of(settings.memory_limit));
    let asked = settings.memory_request.min(Bytes(limit.value));
    let mut request = bounded_quantity(settings, Rung::Default, 0, WantedSize::of(asked));
    request.value = request.value.min(limit.value);
    MemorySizes { request, limit, covered: 0.0, by_kills: None, of_presets: None }
}

/// Sizes a build of an unknown package with a preset by what other packages needed of theirs: the cheapest size, at most a preset that bounds
/// it. Unless the operator set the price of a failure, and so accepts the failures that it leads to, it is enough for all but few packages.
pub(super) fn size_by_presets(
    sizes: &mut MemorySizes,
    shares: Option<PresetShares>,
    settings: &Settings,
    (price, is_bound): (f64, bool),
) {
    let Some(shares) = shares else { return };
    let preset = Bytes(sizes.request.value);
    let [needed, enough] = shares.needed_and_enough();
    let cheap = SizePlan::new(&shares.expected_needs(preset, is_bound), price).first_size();
    let enough = ChosenSize { bytes: preset.as_f64() * enough, share: COVERED_SHARE };
    let is_cheap = settings.failure_price.is_some() || cheap.bytes > enough.bytes;
    let ChosenSize { bytes, share } = if is_cheap { cheap } else { enough };
    let wanted = WantedSize { size: Bytes::from_f64(bytes), quantile: share.clamp(0.0, 1.0), margin: 1.0 };
    let mut request = bounded_quantity(settings, Rung::Fleet, shares.attempts, wanted);
    request.basis.confidence = Some(wanted.quantile);
    if !is_bound || request.value < preset.0 {
        (sizes.request, sizes.of_presets) = (request, Some(needed));
        sizes.raise_limit_to_request();
    }
}

/// The operator's defaults, raised to what attempts of the package are known to need. For callers that want a higher confidence.
pub(super) fn least_sizes(similar: &SimilarAttempts<'_>, settings: &Settings) -> MemorySizes {
    let mut sizes = default_sizes(settings);
    if let Some(stopped) = highest_need(similar, true) {
        raise_sizes(&mut sizes, [step_above(stopped); 2], similar, settings);
    }
    if let Some(need) = highest_need(similar, false) {
        raise_sizes(&mut sizes, [need, with_pages(need)], similar, settings);
    }
    sizes
}

/// The highest need among attempts of the package: those that memory stopped if `censored`, else the others.
fn highest_need(similar: &SimilarAttempts<'_>, censored: bool) -> Option<Bytes> {
    let logs =
        similar.of_package().filter(|used| used.observation.censored == censored).map(|used| used.need);
    logs.max_by(f64::total_cmp).map(|log| Bytes::from_f64(log.exp2()))
}

/// Raises request and limit to the sizes in `least`, where they are smaller.
fn raise_sizes(
    sizes: &mut MemorySizes,
    least_sizes: [Bytes; 2],
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
) {
    for (size, least) in [&mut sizes.request, &mut sizes.limit].into_iter().zip(least_sizes) {
        let raised =
            bounded_quantity(settings, similar.main_rung(), similar.attempts(), WantedSize::of(least));
        if raised.value > size.value {
            *size = raised;
        }
    }
}

/// A size before floor and cap are applied.
#[derive(Debug, Clone, Copy)]
struct WantedSize {
    size: Bytes,
    /// Share of the builds that the size covers; 0 if unknown.
    quantile: f64,
    /// The size divided by the need of the covered builds.
    margin: f64,
}

impl WantedSize {
    /// A size that was not computed from a share of builds.
    const fn of(size: Bytes) -> Self {
        Self { size, quantile: 0.0, margin: 1.0 }
    }
}

fn bounded_quantity(settings: &Settings, rung: Rung, attempts: u32, wanted: WantedSize) -> Quantity {
    let WantedSize { size, quantile, margin } = wanted;
    let (size, mut bound) = settings.bound_memory(size.ceil_mib());
    if bound == SizeBound::None && rung == Rung::Default {
        bound = SizeBound::Default;
    }
    Quantity { value: size.0.max(1), basis: Basis { quantile, margin, ..Basis::of(rung, attempts, bound) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_after_eviction_is_usage_plus_page_cache() {
        let after = |used: u64, limit: u64| {
            super::super::request_after_eviction(Bytes(used << 20), Bytes(limit << 20))
        };
        assert_eq!(
            [after(608, 1024), after(608, 650), after(10, 1024)],
            [700, 650, 74].map(|mib: u64| Bytes(mib << 20))
        );
    }

    #[test]
    fn a_limit_leaves_room_for_hot_file_pages() {
        assert!(with_pages(Bytes(281_000_000)) > Bytes(320_000_000), "healthy at 320 MB, starved at 280 MB");
        assert_eq!(with_pages(Bytes(0)), MIN_PAGES_ROOM);
    }
}
