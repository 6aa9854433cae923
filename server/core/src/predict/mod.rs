//! What the next attempt of a key needs, from what earlier ones used.
//!
//! ```text
//! History -> pool    who speaks for the key, and how loudly (the ladder of similarity)
//!         -> inputs  for how much input
//!         -> curve   what other numbers of build jobs say, as lines
//!         -> jobs    for how many build jobs
//!         -> deviation, spread    the expected values, censored ones as "more than", and what was not seen yet
//!         -> plan    the sizes of least expected cost, one after the other
//!         -> memory, rates    the answer
//!         -> exact   the values of CPU and time as attempts had them
//!         -> known   how well each number but memory is known
//!         -> decrease    how far below the last one, if the operator bounds that
//!         -> words   why
//!         -> groups  whether the attempts are of several groups that need different sizes
//!         -> raise   what untrusted attempts may add
//!         -> scraped limits that peaks from Prometheus do not lower
//!         -> guess   the default where too little is known
//! pool    -> curve   the same build at other numbers of jobs
//! ```
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
mod inputs;
mod jobs;
mod known;
mod memory;
mod plan;
mod raise;
mod rates;
mod scraped;
mod settings;
mod similar;
#[cfg(test)]
mod tests;
mod words;

use self::memory::FailureCost;
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
    let (prediction, pool) = work_out(history, key, settings);
    grouped(prediction, groups::find(&pool, key).map(|found| found.groups))
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

/// A prediction as an answer to a caller. Where attempts were killed and none fitted, memory that would be only the default is the next
/// size that the verdict names. A guess gives way to the default. Those with a bound of their own for what is sure ask by [`predict`].
pub fn as_answer(prediction: Prediction, history: &History, key: &Key, settings: &Settings) -> Prediction {
    let is_guess = guess::is_guess(&prediction);
    let mut answer = if is_guess { without_guess(prediction, history, key, settings) } else { prediction };
    let Some(bound) = answer.lower_bound else { return answer };
    for size in [&mut answer.memory_request, &mut answer.memory_limit] {
        memory::step_for_default(size, &bound, settings);
    }
    if let Some(known) = answer.reason.strip_suffix(words::SIZES_ARE_DEFAULT) {
        answer.reason = format!("{known}{}", words::REST_IS_DEFAULT);
    }
    answer
}

/// The default in the place of a guess.
fn without_guess(prediction: Prediction, history: &History, key: &Key, settings: &Settings) -> Prediction {
    let known = work_out_with(history, key, |key, heard| {
        let (mut known, pool) = work_out_from(history, key, settings, heard);
        guess::replace(&mut known, &pool, key, settings);
        (known, pool)
    });
    Prediction { need_groups: prediction.need_groups, ..known.0 }
}

/// What the operator says of a build of which nothing is known, whatever is known.
pub fn defaults(key: &Key, settings: &Settings) -> Prediction {
    predict(&History::new(1), key, settings)
}

/// The same, but no memory size is below what attempts of the package have shown to be needed: for those to whom a prediction is not sure
/// enough.
pub fn defaults_above_need(history: &History, key: &Key, settings: &Settings) -> Prediction {
    let (_, pool) = work_out_from(history, key, settings, TrustScope::Trusted);
    let least = memory::least_sizes(&pool, settings);
    Prediction { memory_request: least.request, memory_limit: least.limit, ..defaults(key, settings) }
}

/// The least size after one that was too little, in whole MiB, where more than that was needed by builds that are known.
pub(crate) fn smallest_step(failed: Bytes) -> Bytes {
    memory::smallest_step(failed)
}

/// The size after one at which memory stopped builds, where nothing is known of those that need more: in whole MiB. Verdicts, predictions
/// and pods have it from here.
pub(crate) fn blind_step(failed: Bytes) -> Bytes {
    memory::blind_step(failed)
}

/// The attempts of the groups that [`predict_grouped`] finds, each with the place of its group; none where it finds none.
pub fn group_members(history: &History, key: &Key, settings: &Settings) -> Vec<(usize, AttemptId)> {
    let (_, pool) = work_out(history, key, settings);
    let found = groups::find(&pool, key).map(|found| found.members).unwrap_or_default();
    found.into_iter().map(|(group, used)| (group, used.fact.brief.attempt.clone())).collect()
}

/// The same prediction as [`predict_grouped`], with the attempts that it learnt from, heaviest first.
pub fn explain(history: &History, key: &Key, settings: &Settings) -> (Prediction, Vec<UsedAttempt>) {
    let (prediction, pool) = work_out(history, key, settings);
    let mut used: Vec<UsedAttempt> = pool
        .used
        .iter()
        .map(|used| UsedAttempt {
            attempt: used.fact.brief.attempt.clone(),
            rung: used.rung,
            weight: used.weight,
            need: Bytes::from_f64(used.need.exp2()),
            measured: used.fact.brief.proven().unwrap_or_default(),
            build_jobs: Some(u32::from(used.fact.jobs)).filter(|jobs| *jobs > 0),
            wall: used.fact.brief.wall,
            censored: used.fact.censored,
        })
        .collect();
    used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    used.truncate(LISTED);
    (grouped(prediction, groups::find(&pool, key).map(|found| found.groups)), used)
}

/// What a build of `key` needs at different numbers of build jobs, and which of them fit `limit`.
pub fn jobs_curve(history: &History, key: &Key, settings: &Settings, limit: Option<Bytes>) -> JobsCurve {
    let mut pool = SimilarAttempts::gather(history, key, settings, TrustScope::Trusted);
    inputs::adjust(&mut pool, key);
    let usual = jobs::choose(&pool, key, settings);
    curve::draw(&pool, u32::try_from(usual.value).unwrap_or(u32::MAX), limit)
}

/// The memory to ask for when `failed` was too little: enough for nine in ten of what may be above it, or less if a step in
/// between is expected to cost less; at least a real step larger, within the cap. After a second failure a preset is not
/// tried around any longer.
pub fn predict_above(history: &History, key: &Key, settings: &Settings, failed: Bytes) -> Bytes {
    let above = |heard| {
        let mut pool = SimilarAttempts::gather_for_retry(history, key, settings, heard);
        inputs::adjust(&mut pool, key);
        let build_jobs = jobs::choose(&pool, key, settings);
        let lines = curve::lines(&pool);
        jobs::adjust(&mut pool, lines.memory, build_jobs.value);
        let cost = FailureCost { price: price(history, settings, heard), held: history.mean_held() };
        let size = settings.bound_memory(memory::above(&pool, settings, cost, failed)).0;
        (size, pool.knows_package())
    };
    let (trusted, known) = above(TrustScope::Trusted);
    if history.has_untrusted(key) {
        let least = if known { Some(0) } else { history.highest_need().map(|highest| highest.0) };
        let most = trusted.0.saturating_mul(raise::MOST).max(least.unwrap_or(u64::MAX));
        trusted.max(above(TrustScope::All).0.min(Bytes(most)))
    } else {
        trusted
    }
}

/// What one failure costs, in GiB x h.
fn price(history: &History, settings: &Settings, heard: TrustScope) -> f64 {
    let mean = || match heard {
        TrustScope::Measured => history.mean_held_measured(),
        TrustScope::Trusted | TrustScope::All => history.mean_held(),
    };
    settings.failure_price.unwrap_or_else(mean).max(0.0)
}

fn work_out<'h>(history: &'h History, key: &Key, settings: &Settings) -> (Prediction, SimilarAttempts<'h>) {
    work_out_with(history, key, |key, heard| work_out_from(history, key, settings, heard))
}

/// The prediction by trusted attempts, held against those by other attempts: `of` works it out by the attempts of one scope.
fn work_out_with<'h>(
    history: &'h History,
    key: &Key,
    of: impl Fn(&Key, TrustScope) -> (Prediction, SimilarAttempts<'h>),
) -> (Prediction, SimilarAttempts<'h>) {
    let (mut prediction, pool) = of(key, TrustScope::Trusted);
    let at_its_jobs = |prediction: &Prediction| {
        let build_jobs = u32::try_from(prediction.build_jobs.value).ok();
        Key { hints: Hints { build_jobs, ..key.hints }, ..key.clone() }
    };
    if history.has_scraped() || pool.used.iter().any(|used| used.fact.scraped) {
        let (measured, _) = of(&at_its_jobs(&prediction), TrustScope::Measured);
        scraped::hold_limits(&mut prediction, measured);
    }
    if history.has_untrusted(key) {
        let key = at_its_jobs(&prediction);
        let (all, of_all) = of(&key, TrustScope::All);
        if raise::raise(&mut prediction, all, pool.knows_package(), history.highest_need()) {
            return (prediction, of_all);
        }
        if !pool.knows_package() {
            let untrusted = history.untrusted_on_rung(Rung::Package, &key).count();
            prediction.reason.push_str(&words::not_used(untrusted));
        }
    }
    (prediction, pool)
}

fn work_out_from<'h>(
    history: &'h History,
    key: &Key,
    settings: &Settings,
    heard: TrustScope,
) -> (Prediction, SimilarAttempts<'h>) {
    let mut pool = SimilarAttempts::gather(history, key, settings, heard);
    inputs::adjust(&mut pool, key);
    let build_jobs = jobs::choose(&pool, key, settings);
    let lines = curve::lines(&pool);
    jobs::adjust(&mut pool, lines.memory, build_jobs.value);
    let wall = rates::wall(&pool, settings, build_jobs.value, lines.shared);
    let mut sizes = if pool.fitted() == 0 {
        memory::default_sizes(settings)
    } else {
        memory::size(&pool, settings, price(history, settings, heard))
    };
    memory::raise_above_kills(&mut sizes, &pool, settings);
    decrease::bound(&mut sizes, history, key, settings);
    let [cpu_request, cpu_limit] = rates::cpu(&pool, settings);
    let confidence = words::confidence(&pool.fitted_shares, pool.fitted(), sizes.width);
    let mut prediction = Prediction {
        confidence,
        unsure_because: words::unsure_because(&pool, confidence, sizes.width),
        attempts: pool.attempts(),
        reason: words::reason(&pool, key, &sizes, &build_jobs, lines.memory),
        memory_request: sizes.request,
        memory_limit: sizes.limit,
        cpu_request,
        cpu_limit,
        build_jobs,
        wall_p50: wall.half,
        wall_p95: wall.most,
        need_groups: None,
        lower_bound: memory::lower_bound(&pool),
        placed: PoolAssignment::default(),
    };
    for quantity in prediction.quantities_mut() {
        let basis = &mut quantity.basis;
        basis.all_of_rung = basis.attempts > 0 && pool.are_all_of(basis.rung);
    }
    (prediction, pool)
}
