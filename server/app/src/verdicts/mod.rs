//! The only home of a verdict: whether a failed attempt should be retried, and with what size.
//!
//! A question goes one way: who may ask (`permission`), which attempt is meant (`attempt_names`), its turn (`queue`), what is known
//! (`known`, `case`), the verdict (`engine`, with the rules in force), the disk (the writer, see [`AttemptWriter`]), the answer
//! without what the caller may not read (`answer`).
//!
//! | module | content |
//! |---|---|
//! | `permission`, `attempt_names` | who may ask and correct, and which attempt a caller means |
//! | `queue` | bounds of questions; one at a time for an attempt |
//! | `judge`, `case`, `numbers` | the verdict from all evidence, its fingerprints |
//! | `correcting` | corrections by people |
//! | `previous_attempt`, `after_memory_end` | sizes that earlier attempts were advised |
//! | `known` | stored verdicts of one attempt |
//! | `rejudging` | new verdicts on attempts that ended after they were judged |

pub(crate) mod after_memory_end;
mod answer;
pub(crate) mod attempt_names;
mod case;
pub(crate) mod correcting;
mod judge;
pub(crate) mod known;
mod numbers;
pub(crate) mod permission;
mod previous_attempt;
mod queue;
pub(crate) mod rejudging;

use std::{fmt::Debug, pin::Pin, sync::Arc};

pub(crate) use after_memory_end::AfterMemoryEnd;
pub(crate) use attempt_names::AttemptNames;
pub(crate) use correcting::CorrectionJob;
pub(crate) use known::{Asker, ReadableWords};
pub(crate) use permission::CorrectionRequest;
use plimsoll_core::{
    domain::{AttemptBrief, AttemptId, Summary, Verdict},
    predict,
    retry::{FailureGroup, FlakyFailure, SilencedRule, WrongVerdicts},
    shared_history::SharedHistory,
};
use plimsoll_store::{self as store, Store};
pub(crate) use rejudging::Rejudging;

use crate::{
    access::{Refusal, identity::Identity, privacy::Private},
    runtime::{audit::AUDIT, clock::Clock, metrics::Metrics},
    state::{pools::PoolRegistry, verdict_engine::VerdictEngine},
};
use known::in_order;
use queue::VerdictQueue;

/// The answer of an [`AttemptWriter`].
pub(crate) type WriterAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// The one writer of attempts, as far as verdicts need it: it owns the open attempts, and writes verdicts in the order of everything
/// else on the attempt.
pub(crate) trait AttemptWriter: Debug + Send + Sync {
    /// The summary of an attempt, and whether the attempt is still open; `None` if it is unknown.
    fn find<'a>(&'a self, id: &'a AttemptId) -> WriterAnswer<'a, Option<(Arc<Summary>, bool)>>;
    /// Writes a verdict to disk, and its cause into the attempt's summary. If one with this number was written already, returns that
    /// instead.
    fn record(&self, number: u64, verdict: Verdict) -> WriterAnswer<'_, Verdict>;
    /// The ids of at most `most` open attempts that `caller` may see.
    fn open_ids(&self, most: usize, caller: Arc<Identity>) -> WriterAnswer<'_, Vec<AttemptId>>;
}

/// What verdicts depend on.
#[derive(Debug, Clone)]
pub(crate) struct VerdictParts {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) engine: VerdictEngine,
    pub(crate) pools: PoolRegistry,
}

/// Gives verdicts, keeps them, and shows those that were given. Cheap to clone; clones share the queue.
#[derive(Debug, Clone)]
pub(crate) struct Verdicts {
    pub(crate) parts: VerdictParts,
    writer: Arc<dyn AttemptWriter>,
    pub(crate) private: Arc<Private>,
    queue: VerdictQueue,
}

impl Verdicts {
    pub(crate) fn new(parts: VerdictParts, writer: Arc<dyn AttemptWriter>, private: Arc<Private>) -> Self {
        let queue = VerdictQueue::new(Arc::clone(&parts.metrics));
        Self { parts, writer, private, queue }
    }

    /// All verdicts on an attempt of this project (without project if it is empty), the one in
    /// force first. Verdicts that were requested for another project, or by a caller that may not
    /// report on the project, are left out.
    pub(crate) async fn given(&self, id: &AttemptId, project: &str) -> Result<Vec<Verdict>, Refusal> {
        let mut given = in_order(&self.parts.store, id).await?;
        given.retain(|verdict| verdict.counts_for(project));
        given.reverse();
        Ok(given)
    }

    /// The projects for which verdicts on an attempt were requested, that of the verdict in force first.
    async fn judged_projects(&self, attempt: &AttemptId) -> Result<Vec<String>, Refusal> {
        let mut given = in_order(&self.parts.store, attempt).await?;
        given.reverse();
        Ok(given.into_iter().map(|verdict| verdict.basis.reported.project).collect())
    }

    /// Removes the verdict with this time on an attempt of unknown project.
    async fn make_room(&self, attempt: &AttemptId, given_unix_ms: u64) -> Result<(), Refusal> {
        tracing::warn!(target: AUDIT, %attempt, "forgot an old verdict: too many callers ask about an attempt without measurements");
        let is_meant = |verdict: &Verdict| verdict.given_unix_ms.unwrap_or(0) == given_unix_ms;
        let gone = store::forget_verdicts_if(&self.parts.store, attempt, is_meant).await;
        gone.map(drop).map_err(|error| Refusal::Unreadable(error.to_string()))
    }

    /// Failures with ended retries, most retries first.
    pub(crate) fn flaky(&self, most: usize) -> Vec<FlakyFailure> {
        self.parts.history.read(|history| self.parts.engine.flaky(history, most))
    }

    /// Groups of equal failures for which `takes` returns true, most attempts first.
    pub(crate) fn failure_groups(
        &self,
        takes: impl Fn(&AttemptBrief) -> bool,
        most: usize,
    ) -> Vec<FailureGroup> {
        self.parts.history.read(|history| self.parts.engine.failure_groups(history, takes, most))
    }

    /// Rules that have lost their say, by name.
    pub(crate) fn silenced(&self) -> Vec<SilencedRule> {
        self.parts.engine.silenced(&self.parts.history)
    }

    /// Rules with corrected causes in the projects for which `sees` returns true, most often
    /// corrected first.
    pub(crate) fn wrong_verdicts(&self, sees: impl Fn(&str) -> bool) -> Vec<WrongVerdicts> {
        self.parts.engine.wrong_verdicts(sees)
    }
}
