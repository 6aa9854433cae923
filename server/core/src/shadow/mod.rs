//! Shadow mode: measures and predicts, but applies predictions to a share of the builds only. Pure.
//!
//! A build's key decides whether predictions are applied to it. So the decision is always the same for a build, and a larger share only
//! adds builds. For the other builds, the prediction is compared with request and need ([`ShadowComparison`]).

use plimsoll_proto::measured;

use crate::domain::{Cause, Fnv, Key, Summary};

/// The operator's settings for shadow mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Whether shadow mode is on: predictions then apply only to the shares of builds in `apply`.
    pub is_on: bool,
    /// Share of the builds of each stack or project, 0 to 1. If both are named, the smaller one counts.
    pub apply: Vec<(String, f64)>,
}

/// Name for every stack without a share of its own.
pub(crate) const ANY_STACK: &str = "*";

impl Settings {
    /// Whether predictions for this key are only shown and not applied.
    pub fn withholds(&self, key: &Key) -> bool {
        self.is_on && position(key) >= self.share_of(key)
    }

    fn share_of(&self, key: &Key) -> f64 {
        let named = |name: &str| self.apply.iter().find(|(known, _)| known == name).map(|(_, share)| *share);
        let smallest = [&key.stack, &key.project].into_iter().filter_map(|name| named(name)).reduce(f64::min);
        smallest.or_else(|| named(ANY_STACK)).unwrap_or(0.0)
    }
}

/// A number between 0 and 1 for a build, uniformly distributed over builds: [`Fnv`] over its key, then the finalizer of `SplitMix64`
/// (Steele, Lea, Flood 2014), which mixes all bits.
fn position(key: &Key) -> f64 {
    let built = key.fingerprint_texts().filter(|(name, _)| !["ref", "owner"].contains(name));
    // a byte that occurs in no text separates the fields of the key
    let mut hash = Fnv::default().with(built.flat_map(|(_, text)| text.bytes().chain([0xff]))).value();
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let top = u32::try_from((hash ^ (hash >> 31)) >> 32).unwrap_or(0);
    f64::from(top) / f64::from(u32::MAX).next_up()
}

/// An ended attempt, compared with the sizes predicted when it opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowComparison {
    /// Requested memory multiplied by wall time, bytes x s.
    pub asked: f64,
    /// Predicted request multiplied by wall time, bytes x s.
    pub predicted: f64,
    /// Whether memory ended the attempt.
    pub failed: bool,
    /// Whether the need is above the predicted limit.
    pub would_fail: bool,
}

impl ShadowComparison {
    /// Compares an attempt; `None` if it has no prediction, or if its request or need is unknown.
    pub fn of(summary: &Summary) -> Option<Self> {
        let predicted = summary.predicted_at_start()?;
        let asked = summary.resources.memory_size_asked()?;
        let seconds = summary.wall.as_f64() / 1000.0;
        summary.counts_for_memory().then(|| Self {
            asked: asked.as_f64() * seconds,
            predicted: predicted.memory_request.as_f64() * seconds,
            failed: summary.cause.is_some_and(Cause::is_memory),
            would_fail: holds(summary, predicted.memory_limit.0) == Some(false),
        })
    }
}

/// Whether the need of an attempt was at most `bytes` ([`measured::need_fits`]); `None` if that is unknown.
pub fn holds(summary: &Summary, bytes: u64) -> Option<bool> {
    let need = Some(summary.proven_need().0).filter(|_| summary.counts_for_memory())?;
    measured::need_fits(need, summary.censored, bytes)
}

#[cfg(test)]
mod tests;
