//! Sizes: what the next attempt of a key should ask for. The one place where a prediction is made and withheld in shadow mode, for every
//! way in.
//!
//! | module | |
//! |---|---|
//! | this one | the sizes of a key, for a caller and for the other services |
//! | [`prediction`] | one prediction: looked up in the cache, else worked out; counted, and put into a pool |
//! | [`allocation`] | the sizes of a job of stock Spack, within a time |
//! | [`explanation`], [`need_groups`] | what a prediction stands on |

mod allocation;
mod explanation;
mod need_groups;
mod prediction;

use std::sync::Arc;

pub(crate) use allocation::{Allocation, UnmatchedProjects};
pub(crate) use explanation::Explanation;
use plimsoll_core::{
    domain::{FieldViolation, Key, Prediction},
    predict, shadow,
    shared_history::SharedHistory,
};
pub(crate) use prediction::PredictionCache;

use crate::{
    access::{identity::Identity, privacy::Private},
    runtime::metrics::{Kind, Metrics},
    sessions::Ingest,
    state::pools::PoolRegistry,
};

/// Says what attempts should ask for. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SizingService {
    pub(crate) history: SharedHistory,
    pub(crate) private: Arc<Private>,
    pub(crate) cache: Arc<PredictionCache>,
    pub(crate) settings: Arc<predict::Settings>,
    pub(crate) shadow: Arc<shadow::Settings>,
    pub(crate) ingest: Ingest,
    pub(crate) pools: PoolRegistry,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) unmatched: Arc<UnmatchedProjects>,
}

/// A prediction, and whether it may be put into force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SizingAnswer {
    pub(crate) prediction: Prediction,
    /// Shadow mode is on for the key: it is shown and changes nothing.
    pub(crate) is_withheld: bool,
}

/// What shadow mode withholds, as metrics have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithheldAnswer {
    Prediction,
    Allocation,
    Pod,
}

impl WithheldAnswer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Prediction => "prediction",
            Self::Allocation => "allocation",
            Self::Pod => "pod",
        }
    }
}

impl SizingService {
    /// What the next attempt of `key` should ask for.
    ///
    /// # Errors
    /// The caller may not ask for this project; names the field.
    pub(crate) fn predict(&self, caller: &Identity, mut key: Key) -> Result<SizingAnswer, FieldViolation> {
        caller.asks("key.project", &mut key)?;
        let prediction = self.next_size(&key);
        Ok(self.answer(&key, prediction))
    }

    fn answer(&self, key: &Key, prediction: Prediction) -> SizingAnswer {
        SizingAnswer { is_withheld: self.withholds_from(key, WithheldAnswer::Prediction), prediction }
    }

    /// Whether shadow mode is on for this key. Nothing is counted.
    pub(super) fn is_shadowed(&self, key: &Key) -> bool {
        self.shadow.withholds(key)
    }

    /// Whether shadow mode withholds an answer about this key; counts it if so.
    fn withholds_from(&self, key: &Key, answer: WithheldAnswer) -> bool {
        let is_shadowed = self.is_shadowed(key);
        if is_shadowed {
            self.withheld(answer);
        }
        is_shadowed
    }

    /// Counts an answer that shadow mode withheld.
    pub(super) fn withheld(&self, answer: WithheldAnswer) {
        self.metrics.withheld.get_or_create(&Kind::of(answer.as_str())).inc();
    }
}
