//! What the next attempt of a key needs, from what earlier ones used.
//!
//! ```text
//! History -> pool    who speaks for the key, and how loudly (the ladder of similarity)
//!         -> jobs    for how many build jobs
//!         -> level   wider rungs are drawn towards the level of similar attempts
//!         -> spread  the expected values, censored ones as "more than"
//!         -> memory, rates    the sizes
//!         -> words   why
//! ```
//!
//! Pure: no I/O, no clock, the same history gives the same answer. An unknown key is an answer with low confidence, never
//! an error. [`predict`] and [`explain`] are one computation.

mod jobs;
mod level;
mod memory;
mod pool;
mod rates;
mod settings;
mod spread;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use self::memory::stopped_at;
use self::pool::Pool;
pub use self::settings::Settings;
use crate::domain::{Bytes, History, Key, Prediction, UsedAttempt};

/// Attempts that [`explain`] lists at most, as the wire contract says.
const LISTED: usize = 200;

/// What the next attempt of `key` should ask for.
pub fn predict(history: &History, key: &Key, settings: &Settings) -> Prediction {
    work_out(history, key, settings).0
}

/// The same prediction as [`predict`], with the attempts that it learnt from, heaviest first.
pub fn explain(history: &History, key: &Key, settings: &Settings) -> (Prediction, Vec<UsedAttempt>) {
    let (prediction, pool) = work_out(history, key, settings);
    let mut used: Vec<UsedAttempt> = pool
        .used
        .iter()
        .map(|used| UsedAttempt {
            attempt: used.summary.attempt.clone(),
            rung: used.rung,
            weight: used.weight,
            need: Bytes::from_f64(used.need),
            censored: used.summary.censored,
        })
        .collect();
    used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    used.truncate(LISTED);
    (prediction, used)
}

/// Stub.
pub fn predict_above(_h: &History, _k: &Key, _s: &Settings, above: Bytes) -> Bytes { Bytes(above.0.saturating_mul(3)/2) }

fn work_out<'h>(history: &'h History, key: &Key, settings: &Settings) -> (Prediction, Pool<'h>) {
    let mut pool = Pool::gather(history, key);
    let build_jobs = jobs::choose(&pool, key, settings);
    let slope = jobs::adjust(&mut pool, build_jobs.value);
    let wall = rates::wall(&pool, settings);
    let sizes = if pool.used.is_empty() {
        memory::default_sizes(settings)
    } else {
        memory::size(&pool, settings, wall.mean)
    };
    let [cpu_request, cpu_limit] = rates::cpu(&pool, settings);
    let prediction = Prediction {
        confidence: words::confidence(&pool, sizes.width),
        attempts: pool.attempts(),
        reason: words::reason(&pool, key, settings, &sizes, (build_jobs.value, slope)),
        memory_request: sizes.request,
        memory_limit: sizes.limit,
        cpu_request,
        cpu_limit,
        build_jobs,
        wall_p50: wall.half,
        wall_p95: wall.most,
    };
    (prediction, pool)
}
