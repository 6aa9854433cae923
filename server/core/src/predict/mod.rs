//! What the next attempt of a key needs, from what earlier ones used.
//!
//! The modules in the order in which a prediction passes them:
//!
//! | module | what it does |
//! |---|---|
//! | `similar` | the attempts of the history that are similar to the key, with weights (the ladder of similarity) |
//! | `inputs` | brings their needs to the amount of input of the key |
//! | `curve` | need and time over the number of build jobs, as lines |
//! | `jobs` | brings their needs to the number of build jobs, by that curve |
//! | `deviation`, `distribution` | the expected values, censored ones as "more than", and what was not seen yet |
//! | `plan` | the sizes of least expected cost, one after the other |
//! | `memory`, `rates` | the answer |
//! | `next_size` | the size after one at which memory stopped the last builds |
//! | `exact` | the values of CPU and time as attempts had them |
//! | `known` | how well each number except memory is known |
//! | `decrease` | how far a size may go below the last one, if the operator bounds that |
//! | `words` | the reasons |
//! | `groups` | whether the attempts are of several groups that need different sizes |
//! | `raise` | what untrusted attempts may add |
//! | `incomplete` | sizes that needs below the true peak do not lower |
//! | `guess` | the default where too little is known |
//!
//! Pure: no I/O, no clock, the same history gives the same answer. An unknown key is an answer with low confidence, never
//! an error. [`predict`] and [`explain`] are one computation.

mod curve;
mod decrease;
mod deviation;
mod distribution;
mod exact;
pub mod groups;
mod guess;
mod incomplete;
mod inputs;
mod jobs;
mod known;
mod memory;
mod next_size;
mod plan;
mod raise;
mod rates;
mod settings;
mod similar;
#[cfg(test)]
mod tests;
mod words;

pub use self::guess::is_guess;
use self::memory::FailureCost;
pub(crate) use self::next_size::{MemoryEnd, NextSize};
pub use self::settings::Settings;
use self::similar::{SimilarAttempts, TrustScope};
use std::sync::Arc;

use crate::domain::{
    AttemptId, Bytes, Hints, History, JobsCurve, Key, NeedGroups, PoolAssignment, Prediction, Rung,
    UsedAttempt,
};

/// Attempts that [`explain`] lists at most, as the wire contract says.
const LISTED: usize = 200;

/// What the next attempt of `key` should ask for.
pub fn predict(history: &History, key: &Key, settings: &Settings) -> Prediction {
    work_out(history, key, settings).0
}

/// The same prediction as [`predict`], which says if it hides groups that need different sizes: for people.
pub fn predict_grouped(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let (prediction, similar) = work_out(history, key, settings);
    grouped(prediction, groups::find(&similar, key).map(|found| found.groups))
}

fn grouped(prediction: Prediction, groups: Option<NeedGroups>) -> Prediction {
    Prediction { need_groups: groups.map(Arc::new), ..prediction }
}

/// The same as [`predict`], with the default in the place of what only builds of other packages say, if that is a guess
/// ([`LEAST_CONFIDENCE`](plimsoll_proto::reasons::LEAST_CONFIDENCE)). What is known of the package itself stays, however little.
pub fn predict_known(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let prediction = predict(history, key, settings);
    if guess::is_of_others(&prediction) {
        without_guess(prediction, history, key, settings)
    } else {
        prediction
    }
}

/// A prediction as an answer to a caller: a guess gives way to the default. Those with a bound of their own for what is sure ask by
/// [`predict`].
pub fn as_answer(prediction: Prediction, history: &History, key: &Key, settings: &Settings) -> Prediction {
    if is_guess(&prediction) { without_guess(prediction, history, key, settings) } else { prediction }
}

/// The default in the place of a guess.
fn without_guess(prediction: Prediction, history: &History, key: &Key, settings: &Settings) -> Prediction {
    let known = work_out_with(history, key, |key, trust_scope| {
        let (mut known, similar) = work_out_from(history, key, settings, trust_scope);
        guess::replace(&mut known, &similar, key, settings);
        (known, similar)
    });
    Prediction { need_groups: prediction.need_groups, ..known.0 }
}

/// What the operator says of a build of which nothing is known, whatever is known.
pub fn defaults(key: &Key, settings: &Settings) -> Prediction {
    predict(&History::new(1), key, settings)
}

/// The same, but no memory size is below what attempts of the package have shown to be needed, and where memory stopped the last of them it
/// is what [`predict`] says: for those to whom a prediction is not sure enough.
pub fn defaults_above_need(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let defaults = defaults(key, settings);
    let known = predict(history, key, settings);
    if let Some(lower_bound) = known.lower_bound {
        let Prediction { memory_request, memory_limit, reason, .. } = known;
        return Prediction {
            memory_request,
            memory_limit,
            reason,
            lower_bound: Some(lower_bound),
            ..defaults
        };
    }
    let (_, similar) = work_out_from(history, key, settings, TrustScope::Trusted);
    let least = memory::least_sizes(&similar, settings);
    Prediction { memory_request: least.request, memory_limit: least.limit, ..defaults }
}

/// The least size after one that was too little, in whole MiB: half as much again, and 100 MiB more at least.
pub fn step_above(stopped: Bytes) -> Bytes {
    plan::step_above(stopped)
}

/// The memory to request after a node evicted a build that `used` more than it had requested: that, and room for the pages of its files,
/// which the kubelet counts too; not above its `limit`. In whole MiB.
pub fn request_after_eviction(used: Bytes, limit: Bytes) -> Bytes {
    memory::with_pages(used).min(limit.max(used)).ceil_mib()
}

/// The attempts of the groups that [`predict_grouped`] finds, each with the place of its group; none where it finds none.
pub fn group_members(history: &History, key: &Key, settings: &Settings) -> Vec<(usize, AttemptId)> {
    let (_, similar) = work_out(history, key, settings);
    let found = groups::find(&similar, key).map(|found| found.members).unwrap_or_default();
    found.into_iter().map(|(group, used)| (group, used.observation.brief.attempt.clone())).collect()
}

/// The same prediction as [`predict_grouped`], with the attempts that it learnt from, heaviest first.
pub fn explain(history: &History, key: &Key, settings: &Settings) -> (Prediction, Vec<UsedAttempt>) {
    let (prediction, similar) = work_out(history, key, settings);
    let mut used: Vec<UsedAttempt> = similar
        .used
        .iter()
        .map(|used| UsedAttempt {
            attempt: used.observation.brief.attempt.clone(),
            rung: used.rung,
            weight: used.weight,
            need: Bytes::from_f64(used.need.exp2()),
            measured: used.observation.brief.proven().unwrap_or_default(),
            build_jobs: Some(u32::from(used.observation.jobs)).filter(|jobs| *jobs > 0),
            wall: used.observation.brief.wall,
            censored: used.observation.censored,
            incomplete: used.observation.incomplete,
        })
        .collect();
    used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    used.truncate(LISTED);
    (grouped(prediction, groups::find(&similar, key).map(|found| found.groups)), used)
}

/// What a build of `key` needs at different numbers of build jobs, and which of them fit `limit`.
pub fn jobs_curve(history: &History, key: &Key, settings: &Settings, limit: Option<Bytes>) -> JobsCurve {
    let mut similar = SimilarAttempts::gather(history, key, settings, TrustScope::Trusted);
    inputs::adjust(&mut similar, key);
    let usual = jobs::choose(&similar, key, settings);
    curve::draw(&similar, u32::try_from(usual.value).unwrap_or(u32::MAX), limit)
}

/// The memory to ask for when `failed` was too little: see `next_size`.
pub fn predict_above(history: &History, key: &Key, settings: &Settings, failed: Bytes) -> Bytes {
    next_size(history, key, settings, MemoryEnd { stopped: failed, growth: Bytes(0) }).size
}

/// The next memory size after memory ended a build of `key`. Untrusted attempts raise it as they raise a prediction.
pub(crate) fn next_size(history: &History, key: &Key, settings: &Settings, end: MemoryEnd) -> NextSize {
    let by = |scope| {
        let mut similar = SimilarAttempts::gather(history, key, settings, scope);
        inputs::adjust(&mut similar, key);
        let build_jobs = jobs::choose(&similar, key, settings);
        let lines = curve::lines(&similar);
        jobs::adjust(&mut similar, lines.memory, build_jobs.value);
        let next = next_size::by_attempts(&similar, settings, cost(history, settings, scope), end);
        (next, similar.knows_package())
    };
    let (trusted, known) = by(TrustScope::Trusted);
    if !history.has_untrusted(key) {
        return trusted;
    }
    let least = if known { Some(0) } else { history.highest_need().map(|highest| highest.0) };
    let most = trusted.size.0.saturating_mul(raise::MOST).max(least.unwrap_or(u64::MAX));
    let (all, _) = by(TrustScope::All);
    if all.size > trusted.size { NextSize { size: all.size.min(Bytes(most)), ..all } } else { trusted }
}

/// What a retry is weighed against.
fn cost(history: &History, settings: &Settings, scope: TrustScope) -> FailureCost {
    FailureCost { price: price(history, settings, scope), held: history.mean_held() }
}

/// What one failure costs, in GiB x h.
fn price(history: &History, settings: &Settings, trust_scope: TrustScope) -> f64 {
    let mean = || match trust_scope {
        TrustScope::Measured => history.mean_held_measured(),
        TrustScope::Trusted | TrustScope::All => history.mean_held(),
    };
    settings.failure_price.unwrap_or_else(mean).max(0.0)
}

fn work_out<'h>(history: &'h History, key: &Key, settings: &Settings) -> (Prediction, SimilarAttempts<'h>) {
    work_out_with(history, key, |key, trust_scope| work_out_from(history, key, settings, trust_scope))
}

/// The prediction by trusted attempts, held against those by other attempts: `of` works it out by the attempts of one scope.
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
    if history.has_incomplete() || similar.used.iter().any(|used| used.observation.incomplete.is_some()) {
        let (measured, of_cgroups) = of(&at_its_jobs(&prediction), TrustScope::Measured);
        incomplete::hold(&mut prediction, measured, [&similar, &of_cgroups]);
    }
    if history.has_untrusted(key) {
        let key = at_its_jobs(&prediction);
        let (all, of_all) = of(&key, TrustScope::All);
        if raise::raise(&mut prediction, all, similar.knows_package(), history.highest_need()) {
            return (prediction, of_all);
        }
        if !similar.knows_package() {
            let untrusted = history.untrusted_on_rung(Rung::Package, &key).count();
            prediction.reason.push_str(&words::not_used(untrusted));
        }
    }
    (prediction, similar)
}

fn work_out_from<'h>(
    history: &'h History,
    key: &Key,
    settings: &Settings,
    trust_scope: TrustScope,
) -> (Prediction, SimilarAttempts<'h>) {
    let mut similar = SimilarAttempts::gather(history, key, settings, trust_scope);
    inputs::adjust(&mut similar, key);
    let build_jobs = jobs::choose(&similar, key, settings);
    let lines = curve::lines(&similar);
    jobs::adjust(&mut similar, lines.memory, build_jobs.value);
    let wall = rates::wall(&similar, settings, build_jobs.value, lines.shared);
    let mut sizes = if similar.fitted() == 0 {
        memory::default_sizes(settings)
    } else {
        memory::size(&similar, settings, price(history, settings, trust_scope))
    };
    let lower_bound = next_size::apply(
        &mut sizes,
        &similar,
        settings,
        (history, key, cost(history, settings, trust_scope)),
    );
    decrease::bound(&mut sizes, history, key, settings);
    let [cpu_request, cpu_limit] = rates::cpu(&similar, settings);
    // by kills alone it is known what is too little, and not what is enough
    let confidence = if sizes.by_kills.is_some() {
        0.0
    } else {
        words::confidence(&similar.fitted_shares, similar.fitted(), sizes.width)
    };
    let mut prediction = Prediction {
        confidence,
        unsure_because: words::unsure_because(&similar, confidence, &sizes),
        attempts: similar.attempts().max(sizes.by_kills.map_or(0, |bound| bound.attempts)),
        reason: words::reason(&similar, key, &sizes, &build_jobs, lines.memory),
        memory_request: sizes.request,
        memory_limit: sizes.limit,
        cpu_request,
        cpu_limit,
        build_jobs,
        wall_p50: wall.half,
        wall_p95: wall.most,
        need_groups: None,
        lower_bound,
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
