//! Sizes for the next attempt of a key, and the pool that it goes to. All callers get their predictions
//! here, and shadow mode is applied here.
//!
//! | module | content |
//! |---|---|
//! | this one | sizes of a key, for a caller and for other rooms |
//! | [`prediction`] | one prediction: from the cache, or computed; counted, and assigned to a pool |
//! | [`allocation`] | sizes for a job of stock Spack, within a time limit |
//! | [`known_answers`] | answers to stock Spack by the text of the request |
//! | [`explanation`] | explanation of a prediction |
//! | [`shadow_mode`] | whose predictions are in force |

mod allocation;
mod explanation;
mod known_answers;
mod prediction;
pub(crate) mod shadow_mode;

use std::sync::Arc;

pub(crate) use allocation::{Allocation, UnmatchedProjects};
pub(crate) use explanation::Explanation;
pub(crate) use known_answers::KnownAnswers;
use plimsoll_base::named_enum;
use plimsoll_core::{
    domain::{FieldViolation, Key, Prediction},
    predict,
    shared_history::SharedHistory,
};
pub(crate) use prediction::{MemoryPreset, PredictionCache};

use crate::{
    access::identity::Identity,
    pools::PoolRegistry,
    runtime::metrics::{KindLabel, Metrics},
    sizing::shadow_mode::ShadowMode,
};

/// Computes sizes for attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SizingService {
    pub(crate) history: SharedHistory,
    pub(crate) prediction_cache: Arc<PredictionCache>,
    pub(crate) known_answers: Arc<KnownAnswers>,
    pub(crate) settings: Arc<predict::Settings>,
    pub(crate) shadow: ShadowMode,
    pub(crate) pools: PoolRegistry,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) unmatched_projects: Arc<UnmatchedProjects>,
}

/// A prediction, and whether it may be applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SizingAnswer {
    pub(crate) prediction: Arc<Prediction>,
    /// Whether the key is in shadow mode: the prediction is shown, but must not be applied.
    pub(crate) is_withheld: bool,
}

named_enum! {
    /// Kinds of answers that shadow mode withholds, for metrics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum WithheldAnswer {
        Prediction => "prediction",
        Allocation => "allocation",
        Pod => "pod",
    }
}

impl SizingService {
    /// Sizes for the next attempt of `key`.
    /// Errors: the caller may not ask for this project. The error names the field.
    pub(crate) fn predict(&self, caller: &Identity, mut key: Key) -> Result<SizingAnswer, FieldViolation> {
        caller.asks(&mut key.project)?;
        let prediction = self.next_size(&key);
        Ok(self.answer(&key, prediction))
    }

    fn answer(&self, key: &Key, prediction: Arc<Prediction>) -> SizingAnswer {
        SizingAnswer { is_withheld: self.withholds_from(key, WithheldAnswer::Prediction), prediction }
    }

    /// Whether this key is in shadow mode. Does not count in metrics.
    pub(crate) fn is_shadowed(&self, key: &Key) -> bool {
        self.shadow.withholds(key)
    }

    /// Whether shadow mode withholds an answer for this key. Counts the answer as withheld if so.
    fn withholds_from(&self, key: &Key, answer: WithheldAnswer) -> bool {
        let is_shadowed = self.is_shadowed(key);
        if is_shadowed {
            self.withheld(answer);
        }
        is_shadowed
    }

    /// Counts an answer that shadow mode withheld.
    pub(crate) fn withheld(&self, answer: WithheldAnswer) {
        self.metrics.withheld.get_or_create(&KindLabel::of(answer.as_str())).inc();
    }
}
