//! The next memory size after memory ended a build. Verdicts, predictions, pods and proposals have it from here.
//!
//! It is the largest of
//!
//! - a step above the size at which memory stopped the build,
//! - where its own growth leads,
//! - what attempts of the same package needed that did not fit there,
//!
//! within the operator's floor and cap. What other packages need is no reason for it: a build that was stopped at 128 MiB is none of theirs.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Settings,
    memory::{FailureCost, MemorySizes, expected, needed_above},
    plan::step_above,
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Basis, Bytes, History, Key, LowerBound, Quantity, Rung};

/// A need is kept as a logarithm of 24 bits, so a size comes back a millionth off. It is rounded to this,
const LOG_STEP: u64 = 64 << 10;
/// and above 16 GiB to a whole MiB.
const LOG_STEP_LARGE: u64 = 1 << 20;

/// How memory ended a build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryEnd {
    /// What is proven to be too little.
    pub(crate) stopped: Bytes,
    /// Where its growth just before the end leads; 0 where that is not known.
    pub(crate) growth: Bytes,
}

/// A next size, and what decided it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NextSize {
    /// In whole MiB, within floor and cap.
    pub(crate) size: Bytes,
    pub(crate) bound: SizeBound,
    /// Attempts of the package that decided it; 0 if they did not.
    pub(crate) attempts: u32,
}

/// The next size by the attempts of the package in `similar`.
pub(super) fn by_attempts(
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    cost: FailureCost,
    end: MemoryEnd,
) -> NextSize {
    let stopped = end.stopped.to_string();
    let mut next =
        NextSize { size: step_above(end.stopped), bound: SizeBound::Stopped(stopped.clone()), attempts: 0 };
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
    let growth = end.growth.ceil_mib();
    if growth > next.size {
        next = NextSize { size: growth, bound: SizeBound::Grown(stopped), attempts: 0 };
    }
    match settings.bound_memory(next.size) {
        (_, SizeBound::None) => next,
        (size, bound) => NextSize { size, bound, ..next },
    }
}

/// An attempt that memory stopped, and after which no build like it succeeded.
struct OpenKill {
    stopped: Bytes,
    growth: Bytes,
    rung: Rung,
}

/// All attempts of the package that memory stopped while none of it succeeded, else those of exactly this key that are newer than the last of
/// it that did. With those that are not in the history yet.
fn open_kills(similar: &SimilarAttempts<'_>, history: &History, key: &Key) -> Vec<OpenKill> {
    let exact = || similar.used.iter().filter(|used| used.rung == Rung::Exact);
    let ended = |used: &WeightedAttempt<'_>| used.observation.brief.ended_unix_ms();
    let last_fit = exact().filter(|used| !used.observation.censored).map(ended).max();
    let is_newer = |ended: u64| last_fit.is_none_or(|fit| ended > fit);
    let known = similar.knows_package();
    let is_open = |used: &&WeightedAttempt<'_>| {
        used.observation.censored && (!known || (used.rung == Rung::Exact && is_newer(ended(used))))
    };
    let learnt = similar.of_package().filter(is_open).map(|used| OpenKill {
        stopped: stopped_at(used),
        growth: history.growth_of(&used.observation.brief.attempt),
        rung: used.rung,
    });
    let beside = history.memory_ends_beside(key).filter(|end| is_newer(end.judged_unix_ms));
    let beside = beside.map(|end| OpenKill { stopped: end.stopped, growth: end.growth, rung: Rung::Exact });
    learnt.chain(beside).collect()
}

/// What was too little, of a need that is kept as a logarithm.
fn stopped_at(used: &WeightedAttempt<'_>) -> Bytes {
    let size = Bytes::from_f64(used.need.exp2()).0;
    let step = if size > 16 << 30 { LOG_STEP_LARGE } else { LOG_STEP };
    Bytes(size.saturating_add(step / 2) / step * step)
}

/// Puts the next size into `sizes` where memory stopped the last builds, and gives what those prove. What is known of the package, or preset
/// for it, stays where it is more; a default, and what other packages need, gives way.
pub(super) fn apply(
    sizes: &mut MemorySizes,
    similar: &SimilarAttempts<'_>,
    settings: &Settings,
    (history, key, cost): (&History, &Key, FailureCost),
) -> Option<LowerBound> {
    let open = open_kills(similar, history, key);
    let highest = open.iter().max_by_key(|kill| kill.stopped)?;
    let (above, rung) = (highest.stopped, highest.rung);
    let kills = u32::try_from(open.len()).unwrap_or(u32::MAX);
    let growth = open.iter().map(|kill| kill.growth).max().unwrap_or_default();
    let next = by_attempts(similar, settings, cost, MemoryEnd { stopped: above, growth });
    let is_known = similar.knows_package() || settings.preset;
    let attempts = if next.attempts > 0 { next.attempts } else { kills };
    let covered =
        if is_known { expected(similar, settings).smoothed().covered(next.size.as_f64()) } else { 0.0 };
    let raise = |size: &mut Quantity, most: f64| {
        if is_known && size.value >= next.size.0 {
            return;
        }
        size.value = next.size.0;
        size.basis = Basis {
            rung,
            attempts,
            quantile: covered.clamp(0.0, most),
            margin: (next.size.as_f64() / above.as_f64().max(1.0)).max(1.0),
            bound: next.bound.clone(),
            confidence: None,
            all_of_rung: false,
            by_processes: 0,
        };
    };
    let bound = LowerBound { above, attempts: kills, rung, least: next.size };
    sizes.by_kills = (!is_known).then_some(bound);
    raise(&mut sizes.limit, 1.0);
    raise(&mut sizes.request, sizes.limit.basis.quantile);
    Some(bound)
}
