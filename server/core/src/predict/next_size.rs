//! The next memory size after memory ended a build: one computation for verdicts, predictions, pods and proposals.
//!
//! The largest of
//!
//! - a step above the size at which memory stopped the build: half as much again, or a third if attempts of the same package needed more,
//! - the size that its growth extrapolates to,
//! - the size that covers attempts of the same package which needed more than the size at which the build was stopped,
//!
//! within the operator's floor and cap. Needs of other packages are ignored: a build that was stopped at 128 MiB is unlike them.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    memory::{FailureCost, MemorySizes, expected_needs, needed_above},
    plan::{shown_step_above, step_above},
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Basis, Bytes, History, Key, LowerBound, Quantity, Rung};

/// Bytes that a size read back from a stored need is rounded to. A need is stored as a logarithm of 24 bits, which is exact to a millionth.
const LOG_STEP: u64 = 64 << 10;
/// Bytes that a size above 16 GiB is rounded to.
const LOG_STEP_LARGE: u64 = 1 << 20;
/// Needs are kept as 32-bit logarithms: two that differ by less than this may be equal.
const NEED_DIGITS: f64 = 1e-5;

/// How memory ended a build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryEnd {
    /// The size that proved too small.
    pub(crate) stopped: Bytes,
    /// The size that the build's memory would have reached at its growth just before the end; 0 if unknown.
    pub(crate) grown_to: Bytes,
}

/// A next memory size, and what determined it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NextSize {
    /// The size in whole MiB, within the operator's floor and cap.
    pub(crate) size: Bytes,
    pub(crate) bound: SizeBound,
    /// Number of attempts of the package that determined the size; 0 if something else did.
    pub(crate) attempts: u32,
}

/// Computes the next size after `end`, with the attempts of the package in `similar`.
pub(super) fn by_attempts(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    cost: FailureCost,
    end: MemoryEnd,
) -> NextSize {
    let stopped = end.stopped.to_string();
    // attempts that needed more show how far to go, not those whose need is a lower bound; needs are kept with fewer digits than the size
    let above = end.stopped.as_f64().log2() + NEED_DIGITS;
    let shows = |used: &WeightedAttempt<'_>| {
        !used.observation.censored && used.observation.incomplete.is_none() && used.need > above
    };
    let is_shown = similar.of_package().any(shows);
    let step = if is_shown { shown_step_above(end.stopped) } else { step_above(end.stopped) };
    let mut next = NextSize { size: step, bound: SizeBound::Stopped(stopped.clone()), attempts: 0 };
    if similar.knows_package() || settings.preset {
        let needed = needed_above(similar, settings, cost, end.stopped);
        if needed > next.size {
            let (bound, attempts) = if similar.knows_package() {
                (SizeBound::NeededAbove(stopped.clone()), similar.attempts())
            } else {
                (SizeBound::Preset, 0)
            };
            next = NextSize { size: needed, bound, attempts };
        }
    }
    let grown_to = end.grown_to.ceil_mib();
    if grown_to > next.size {
        next = NextSize { size: grown_to, bound: SizeBound::Grown(stopped), attempts: 0 };
    }
    match settings.bound_memory(next.size) {
        (_, SizeBound::None) => next,
        (size, bound) => NextSize { size, bound, ..next },
    }
}

/// An attempt that memory stopped, and that no later success of the same build outdates.
struct OpenKill {
    stopped: Bytes,
    grown_to: Bytes,
    rung: Rung,
}

/// If no attempt of the package succeeded: all of its attempts that memory stopped. Otherwise: the attempts of exactly this key that memory
/// stopped after the last success. Memory ends of attempts that are not in the history yet are included.
fn open_kills(similar: &SimilarAttempts<'_>, history: &History, key: &Key) -> Vec<OpenKill> {
    let exact = || similar.attempts.iter().filter(|used| used.rung == Rung::Exact);
    let ended = |used: &WeightedAttempt<'_>| used.observation.brief.ended_unix_ms();
    let last_fit = exact().filter(|used| !used.observation.censored).map(ended).max();
    let is_newer = |ended: u64| last_fit.is_none_or(|fit| ended > fit);
    let known = similar.knows_package();
    let is_open = |used: &&WeightedAttempt<'_>| {
        used.observation.censored && (!known || (used.rung == Rung::Exact && is_newer(ended(used))))
    };
    let learnt = similar.of_package().filter(is_open).map(|used| OpenKill {
        stopped: stopped_at(used),
        grown_to: history.grown_to_of(&used.observation.brief),
        rung: used.rung,
    });
    let beside = history.unsealed_memory_ends(key).filter(|end| is_newer(end.judged_unix_ms));
    let beside =
        beside.map(|end| OpenKill { stopped: end.stopped_at, grown_to: end.grown_to, rung: Rung::Exact });
    learnt.chain(beside).collect()
}

/// The size that was too small for this attempt, from its need, which is stored as a logarithm.
fn stopped_at(used: &WeightedAttempt<'_>) -> Bytes {
    size_of_need(used.need)
}

/// A size from a need that is stored as a logarithm.
pub(super) fn size_of_need(need: f64) -> Bytes {
    let size = Bytes::from_f64(need.exp2()).0;
    let step = if size > 16 << 30 { LOG_STEP_LARGE } else { LOG_STEP };
    Bytes(size.saturating_add(step / 2) / step * step)
}

/// Raises `sizes` to the next size if memory stopped the last builds, and returns the lower bound that those builds prove. Larger sizes
/// from the package or a preset stay; a default, and needs of other packages, are replaced.
pub(super) fn apply_open_kills(
    sizes: &mut MemorySizes,
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    (history, key, cost): (&History, &Key, FailureCost),
) -> Option<LowerBound> {
    let open = open_kills(similar, history, key);
    let highest = open.iter().max_by_key(|kill| kill.stopped)?;
    let (above, rung) = (highest.stopped, highest.rung);
    let kills = u32::try_from(open.len()).unwrap_or(u32::MAX);
    let grown_to = open.iter().map(|kill| kill.grown_to).max().unwrap_or_default();
    let next = by_attempts(similar, settings, cost, MemoryEnd { stopped: above, grown_to });
    let is_known = similar.knows_package() || settings.preset;
    let attempts = if next.attempts > 0 { next.attempts } else { kills };
    let covered =
        if is_known { expected_needs(similar, settings).smoothed().covered(next.size.as_f64()) } else { 0.0 };
    let raise = |size: &mut Quantity, most: f64| {
        if is_known && size.value >= next.size.0 {
            return;
        }
        size.value = next.size.0;
        size.basis = Basis {
            quantile: covered.clamp(0.0, most),
            margin: (next.size.as_f64() / above.as_f64().max(1.0)).max(1.0),
            ..Basis::of(rung, attempts, next.bound.clone())
        };
    };
    let bound = LowerBound { above, attempts: kills, rung, least: next.size };
    sizes.by_kills = (!is_known).then_some(bound);
    raise(&mut sizes.limit, 1.0);
    raise(&mut sizes.request, sizes.limit.basis.quantile);
    Some(bound)
}
