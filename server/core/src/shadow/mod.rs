//! Shadow mode: measure and predict, and leave what builds get as it is, but for a share of them. Pure.
//!
//! Which builds belong to the share follows from what is built, so that a build is always on the same side, and a larger share
//! only adds builds. What the others would have got is held against what they asked and needed ([`ShadowComparison`]).

use plimsoll_proto::measured;

use crate::domain::{Cause, Fnv, Key, Summary};

/// What the operator decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Predictions are in force for the builds of `apply` only.
    pub on: bool,
    /// Shares by stack, 0 to 1.
    pub apply: Vec<(String, f64)>,
}

/// Stands for every stack that is not named.
pub(crate) const ANY_STACK: &str = "*";

impl Settings {
    /// Whether predictions are shown only, and builds of this key get what they have today.
    pub fn withholds(&self, key: &Key) -> bool {
        self.on && place(key) >= self.share(&key.stack)
    }

    fn share(&self, stack: &str) -> f64 {
        let named = |name: &str| self.apply.iter().find(|(known, _)| known == name).map(|(_, share)| *share);
        named(stack).or_else(|| named(ANY_STACK)).unwrap_or(0.0)
    }
}

/// Where a build stands between 0 and 1, evenly spread: [`Fnv`] over what is built, and the
/// finalizer of `SplitMix64` (Steele, Lea, Flood 2014), which lets every bit count.
fn place(key: &Key) -> f64 {
    let built = key.texts().into_iter().filter(|(name, _)| !["ref", "owner"].contains(name));
    // a byte that no text holds keeps neighbours apart
    let mut hash = Fnv::default().with(built.flat_map(|(_, text)| text.bytes().chain([0xff]))).value();
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let top = u32::try_from((hash ^ (hash >> 31)) >> 32).unwrap_or(0);
    f64::from(top) / f64::from(u32::MAX).next_up()
}

/// An ended attempt, had it had the sizes that were predicted when it opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowComparison {
    /// Memory that it asked for over its time, bytes x s.
    pub asked: f64,
    /// Memory that the predicted request would have asked for over the same time, bytes x s.
    pub predicted: f64,
    /// Memory ended it.
    pub failed: bool,
    /// Its need is above the predicted limit.
    pub would_fail: bool,
}

impl ShadowComparison {
    /// `None` for an attempt without a prediction, or whose ask or need is not known.
    pub fn of(summary: &Summary) -> Option<Self> {
        let predicted = summary.predicted_at_start()?;
        let asked = summary.resources.memory_size_asked()?;
        let seconds = summary.wall.as_f64() / 1000.0;
        summary.teaches_memory().then(|| Self {
            asked: asked.as_f64() * seconds,
            predicted: predicted.memory_request.as_f64() * seconds,
            failed: summary.cause.is_some_and(Cause::is_memory),
            would_fail: holds(summary, predicted.memory_limit.0) == Some(false),
        })
    }
}

/// Whether the need of an attempt stayed at or below `bytes` ([`measured::holds`]); `None` also of one that says nothing of memory.
pub fn holds(summary: &Summary, bytes: u64) -> Option<bool> {
    let need = Some(summary.proven_need().0).filter(|_| summary.teaches_memory())?;
    measured::holds(need, summary.censored, bytes)
}

#[cfg(test)]
mod tests;
