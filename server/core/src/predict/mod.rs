//! What the next attempt of a key needs, from what earlier ones used.
//!
//! The modules, in the order in which a prediction uses them:
//!
//! | module | what it does |
//! |---|---|
//! | `similar` | the attempts of the history that are similar to the key, with weights (the ladder of similarity) |
//! | `odd` | attempts far below all others, which are left out |
//! | `inputs` | adjusts needs to the key's input size |
//! | `curve` | need and time over the number of build jobs, as lines |
//! | `jobs` | adjusts needs to the key's number of build jobs, by that curve |
//! | `parts` | adjusts needs to the key's variants, version, compiler and other parts, by what each adds |
//! | `split`, `deviation`, `distribution` | the distribution of expected values, with censored ones as "more than" and room for unseen ones |
//! | `plan` | the sequence of sizes with the least expected cost |
//! | `memory`, `rates` | the sizes |
//! | `presets` | how much of their presets other packages needed: sizes an unknown package with a preset |
//! | `next_size` | the next size after memory stopped the last builds |
//! | `exact` | quantiles of CPU and time, exactly as measured |
//! | `held_back` | raises the CPU of builds that their CPU limit held back |
//! | `known` | the confidence in each number, and how much rungs count in CPU and time |
//! | `decrease` | limits how far a size decreases, if the operator sets that |
//! | `lowering` | takes back a lowering that failed: the size before is a floor for three months |
//! | `words` | the reasons |
//! | `raise` | raises sizes by untrusted attempts, within bounds |
//! | `incomplete` | keeps needs below the true peak from lowering sizes |
//! | `guess` | replaces guesses by the defaults |
//!
//! Pure: no I/O, no clock, the same history gives the same answer. An unknown key is an answer with low confidence, never
//! an error. [`predict`] and [`explain`] are one computation.

mod curve;
mod decrease;
mod deviation;
mod distribution;
mod exact;
mod guess;
mod held_back;
mod incomplete;
mod inputs;
mod jobs;
mod known;
mod lowering;
mod memory;
mod next_size;
mod odd;
mod parts;
mod plan;
mod presets;
mod raise;
mod rates;
mod settings;
mod similar;
mod split;
#[cfg(test)]
mod tests;
mod words;

pub use self::guess::is_guess;
use self::held_back::HeldBack;
pub use self::lowering::taken_back_by;
use self::memory::FailureCost;
pub(crate) use self::memory::with_pages;
pub(crate) use self::next_size::{MemoryEnd, NextSize};
pub use self::plan::step_above;
use self::presets::PresetShares;
pub use self::settings::Settings;
use self::similar::{SimilarAttempts, TrustScope, WeightedAttempt};
use std::sync::Arc;

use crate::domain::{
    AttemptId, Bytes, Hints, History, JobsCurve, Key, PoolAssignment, Prediction, Quantity, Rung, UsedAttempt,
};

/// Most attempts that [`explain`] lists, as the wire contract says.
const MAX_EXPLAINED_ATTEMPTS: usize = 200;

/// Predicts the sizes that the next attempt of `key` should request.
pub fn predict(history: &History, key: &Key, settings: &Settings) -> Prediction {
    work_out(history, key, settings).0
}

/// Like [`predict`], without the sizes before lowerings that are taken back: what the build is known to need.
pub(crate) fn predict_need(history: &History, key: &Key, settings: &Settings) -> Prediction {
    work_out_with(history, key, |key, trust_scope| work_out_from(history, key, settings, trust_scope)).0
}

/// Like [`predict`], with the default instead of a guess from other packages' builds
/// ([`MIN_CONFIDENCE`](plimsoll_proto::reasons::MIN_CONFIDENCE)). Attempts of the package itself are used, however few.
pub fn predict_known(history: &History, key: &Key, settings: &Settings) -> Prediction {
    as_answer(predict(history, key, settings), history, key, settings)
}

/// Turns a prediction into an answer for callers: a guess is replaced by the default. Callers that have a confidence threshold of their own
/// use [`predict`].
pub fn as_answer(prediction: Prediction, history: &History, key: &Key, settings: &Settings) -> Prediction {
    if is_guess(&prediction) { without_guess(history, key, settings) } else { prediction }
}

/// The prediction without guesses: the default takes their place.
fn without_guess(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let known = work_out_with(history, key, |key, trust_scope| {
        let (mut known, similar) = work_out_from(history, key, settings, trust_scope);
        guess::replace_guesses(&mut known, &similar, key, settings);
        (known, similar)
    });
    let mut known = known.0;
    lowering::hold(&mut known, history, key, settings);
    known
}

/// The operator's defaults, as if no attempt were known.
pub fn defaults(key: &Key, settings: &Settings) -> Prediction {
    predict(&History::new(1), key, settings)
}

/// The defaults, raised to the known need of the package, and to the size of [`predict`] if memory stopped its last attempts: for callers
/// that want a higher confidence than the prediction has.
pub fn defaults_raised_to_need(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let defaults = defaults(key, settings);
    let known = predict(history, key, settings);
    if let Some(lower_bound) = known.lower_bound {
        let Prediction { memory_request, memory_limit, reason, taken_back, .. } = known;
        return Prediction {
            memory_request,
            memory_limit,
            reason,
            taken_back,
            lower_bound: Some(lower_bound),
            ..defaults
        };
    }
    let (_, similar) = work_out_from(history, key, settings, TrustScope::Trusted);
    let least = memory::least_sizes(&similar, settings);
    let mut raised = Prediction { memory_request: least.request, memory_limit: least.limit, ..defaults };
    lowering::hold(&mut raised, history, key, settings);
    raised
}

/// The memory request after a node evicted a build that `used` more than its request: `used` plus room for file pages, which the kubelet
/// counts too, and at most `limit`. In whole MiB.
pub fn request_after_eviction(used: Bytes, limit: Bytes) -> Bytes {
    with_pages(used).min(limit.max(used)).ceil_mib()
}

/// Like [`predict`], with the attempts behind the prediction, highest weight first. Those that were left out as odd have the weight 0.
pub fn explain(history: &History, key: &Key, settings: &Settings) -> (Prediction, Vec<UsedAttempt>) {
    let (prediction, similar) = work_out(history, key, settings);
    let is_left_out = |used: &WeightedAttempt<'_>| {
        similar.left_out.iter().any(|odd| Arc::ptr_eq(&odd.observation.brief, &used.observation.brief))
    };
    let mut heaviest: Vec<&WeightedAttempt<'_>> =
        similar.attempts.iter().filter(|used| !is_left_out(used)).collect();
    heaviest.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    heaviest.truncate(MAX_EXPLAINED_ATTEMPTS - similar.left_out.len());
    let used = heaviest
        .into_iter()
        .chain(&similar.left_out)
        .map(|used| UsedAttempt {
            attempt: used.observation.brief.attempt.clone(),
            rung: used.rung,
            weight: used.weight,
            need: Bytes::from_f64(used.need.exp2()),
            measured: used.observation.brief.proven_need().unwrap_or_default(),
            build_jobs: Some(u32::from(used.observation.jobs)).filter(|jobs| *jobs > 0),
            wall: used.observation.brief.wall,
            censored: used.observation.censored,
            incomplete: used.observation.incomplete,
        })
        .collect();
    (prediction, used)
}

/// The need of a build of `key` at different numbers of build jobs, and which of them fit `limit`.
pub fn jobs_curve(history: &History, key: &Key, settings: &Settings, limit: Option<Bytes>) -> JobsCurve {
    let scope = TrustScope::Trusted;
    let Adjusted { build_jobs: usual, similar, .. } = adjusted(history, key, settings, scope);
    let odd: Vec<AttemptId> =
        similar.left_out.iter().map(|used| used.observation.brief.attempt.clone()).collect();
    let mut similar = SimilarAttempts::gather(history, key, settings, scope, &odd);
    inputs::adjust_to_input(&mut similar, key);
    parts::adjust_to_parts(&mut similar, key);
    curve::draw(&similar, u32::try_from(usual.value).unwrap_or(u32::MAX), limit)
}

/// The memory to request after `failed` was too small: see the module `next_size`.
pub fn predict_above(history: &History, key: &Key, settings: &Settings, failed: Bytes) -> Bytes {
    next_size(history, key, settings, MemoryEnd { stopped: failed, grown_to: Bytes(0) }).size
}

/// The next memory size after memory ended a build of `key`. Untrusted attempts may raise it, as in a prediction.
pub(crate) fn next_size(history: &History, key: &Key, settings: &Settings, end: MemoryEnd) -> NextSize {
    let by = |scope| {
        let Adjusted { similar, .. } = adjusted(history, key, settings, scope);
        let next = next_size::by_attempts(&similar, settings, cost(history, settings, scope), end);
        (next, similar.knows_package())
    };
    let (trusted, known) = by(TrustScope::Trusted);
    if !history.has_untrusted(key) {
        return trusted;
    }
    let least = if known { Some(0) } else { history.highest_need().map(|highest| highest.0) };
    let most = trusted.size.0.saturating_mul(raise::MAX_RAISE).max(least.unwrap_or(u64::MAX));
    let (all, _) = by(TrustScope::All);
    if all.size > trusted.size { NextSize { size: all.size.min(Bytes(most)), ..all } } else { trusted }
}

/// What a failure costs, for comparison with a retry.
fn cost(history: &History, settings: &Settings, scope: TrustScope) -> FailureCost {
    FailureCost { price: price(history, settings, scope), build_memory_time: history.mean_held() }
}

/// The price of one failure, GiB x h.
fn price(history: &History, settings: &Settings, trust_scope: TrustScope) -> f64 {
    let mean = || match trust_scope {
        TrustScope::Measured => history.mean_held_measured(),
        TrustScope::Trusted | TrustScope::All => history.mean_held(),
    };
    settings.failure_price.unwrap_or_else(mean).max(0.0)
}

fn work_out<'h>(history: &'h History, key: &Key, settings: &Settings) -> (Prediction, SimilarAttempts<'h>) {
    let (mut prediction, similar) =
        work_out_with(history, key, |key, trust_scope| work_out_from(history, key, settings, trust_scope));
    lowering::hold(&mut prediction, history, key, settings);
    (prediction, similar)
}

/// Combines the prediction from trusted attempts with those from other attempts. `of` computes a prediction from the attempts of one scope.
fn work_out_with<'h>(
    history: &'h History,
    key: &Key,
    of: impl Fn(&Key, TrustScope) -> (Prediction, SimilarAttempts<'h>),
) -> (Prediction, SimilarAttempts<'h>) {
    let (mut prediction, similar) = of(key, TrustScope::Trusted);
    let at_its_jobs = |prediction: &Prediction| {
        let build_jobs = u32::try_from(prediction.build_jobs.value).ok();
        Key { hints: Hints { build_jobs, ..key.hints }, ..key.clone() }
    };
    if history.has_incomplete() || similar.attempts.iter().any(|used| used.observation.incomplete.is_some()) {
        let (measured, of_cgroups) = of(&at_its_jobs(&prediction), TrustScope::Measured);
        prediction.is_of_package &= measured.is_of_package;
        incomplete::raise_to_measured(&mut prediction, measured, [&similar, &of_cgroups]);
    }
    if history.has_untrusted(key) {
        let key = at_its_jobs(&prediction);
        let (all, mut of_all) = of(&key, TrustScope::All);
        prediction.is_of_package &= all.is_of_package;
        if raise::raise_by_untrusted(&mut prediction, all, similar.knows_package(), history.highest_need()) {
            of_all.left_out = similar.left_out;
            return (prediction, of_all);
        }
        if !similar.knows_package() {
            let untrusted = history.untrusted_on_rung(Rung::Package, &key).count();
            prediction.reason.push_str(&words::untrusted_note(untrusted));
        }
    }
    (prediction, similar)
}

/// The similar attempts with needs adjusted to the key's input and build jobs.
struct Adjusted<'h> {
    similar: SimilarAttempts<'h>,
    build_jobs: Quantity,
    lines: curve::JobsLines,
}

fn adjusted<'h>(history: &'h History, key: &Key, settings: &Settings, scope: TrustScope) -> Adjusted<'h> {
    let without = |odd: &[AttemptId]| {
        let mut similar = SimilarAttempts::gather(history, key, settings, scope, odd);
        inputs::adjust_to_input(&mut similar, key);
        let build_jobs = jobs::choose_jobs(&similar, key, settings);
        let lines = curve::lines(&similar);
        jobs::adjust_to_jobs(&mut similar, lines.memory, build_jobs.value);
        parts::adjust_to_parts(&mut similar, key);
        Adjusted { similar, build_jobs, lines }
    };
    let mut all = without(&[]);
    let odd = all.similar.odd_attempts(key);
    if odd.is_empty() {
        return all;
    }
    let mut adjusted = without(&odd);
    all.similar.attempts.retain(|used| odd.contains(&used.observation.brief.attempt));
    all.similar.attempts.iter_mut().for_each(|used| used.weight = 0.0);
    adjusted.similar.left_out = all.similar.attempts;
    adjusted
}

fn work_out_from<'h>(
    history: &'h History,
    key: &Key,
    settings: &Settings,
    trust_scope: TrustScope,
) -> (Prediction, SimilarAttempts<'h>) {
    let Adjusted { similar, build_jobs, lines } = adjusted(history, key, settings, trust_scope);
    let of_fleet = history.time_shift_and_lateness();
    let wall = rates::wall_times(&similar, settings, build_jobs.value, lines.shared, of_fleet);
    let price = price(history, settings, trust_scope);
    let is_bound = presets::is_bound_by_preset(history, settings);
    let mut sizes = if similar.uncensored_count() == 0 {
        memory::default_sizes(settings)
    } else {
        memory::memory_sizes(&similar, settings, price, is_bound)
    };
    if settings.preset && similar.attempts.is_empty() {
        let shares = PresetShares::gather(history, key, is_bound);
        memory::size_by_presets(&mut sizes, shares, settings, (price, is_bound));
    }
    let lower_bound = next_size::apply_open_kills(
        &mut sizes,
        &similar,
        settings,
        (history, key, cost(history, settings, trust_scope)),
    );
    decrease::bound_decrease(&mut sizes, history, key, settings);
    let held_back = HeldBack::of(&similar, build_jobs.value);
    let [cpu_request, cpu_limit] = rates::cpu(&similar, settings, held_back);
    // kills alone show which sizes are too small, but not which sizes are sufficient
    let confidence = if sizes.by_kills.is_some() || !similar.knows_package() {
        0.0
    } else {
        known::share_that_fits(sizes.covered, known::alike(similar.attempts.iter()))
    };
    let mut prediction = Prediction {
        confidence,
        unsure_because: words::unsure_because(&similar, confidence, &sizes),
        attempts: similar.attempts().max(sizes.by_kills.map_or(0, |bound| bound.attempts)),
        reason: words::reason(&similar, key, &sizes, &build_jobs, lines.memory)
            + &words::parts_note(&similar.parts)
            + &words::odd_note(similar.left_out.len())
            + &held_back.map(HeldBack::note).unwrap_or_default()
            + &words::time_note(similar.knows_package(), of_fleet[0]),
        memory_request: sizes.request,
        memory_limit: sizes.limit,
        cpu_request,
        cpu_limit,
        build_jobs,
        wall_p50: wall.p50,
        wall_p95: wall.p95,
        parts: similar.parts.clone(),
        lower_bound,
        taken_back: None,
        is_of_package: similar.knows_package(),
        placed: PoolAssignment::default(),
    };
    for quantity in prediction.quantities_mut() {
        let basis = &mut quantity.basis;
        basis.all_of_rung = basis.attempts > 0 && similar.are_all_of(basis.rung);
    }
    for size in [&mut prediction.memory_request, &mut prediction.memory_limit] {
        size.basis.by_processes = similar.by_processes();
    }
    (prediction, similar)
}
