//! Decides every verdict: whether a failed attempt should be retried, and with what size.
//!
//! A question goes one way: who may ask (`permission`), which attempt is meant (`attempt_names`), its turn (`queue`), what is known
//! (`known`, `case`), the verdict (`judge`, by the finding of `ingest`'s classifier), the disk (the writer, `ingest`), the answer
//! without what the caller may not read (`access`).
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

mod after_memory_end;
mod attempt_names;
mod case;
mod correcting;
mod judge;
mod known;
mod numbers;
mod permission;
mod previous_attempt;
mod queue;
mod rejudging;

use std::sync::Arc;

pub(crate) use after_memory_end::AfterMemoryEnd;
pub(crate) use attempt_names::MeantAttempt;
pub(crate) use correcting::CorrectionRequest;
pub(crate) use known::Asker;
use plimsoll_core::{
    domain::{AttemptId, Summary, Verdict},
    predict,
    shared_history::SharedHistory,
};
use plimsoll_store::{self as store, Store};
pub(crate) use rejudging::Rejudging;

use crate::{
    access::{Refusal, Reply, privacy::PrivacySettings},
    causes::FailureClassifier,
    ingest::{Ingest, job_pods::JobPods},
    pools::PoolRegistry,
    runtime::{audit::AUDIT, clock::Clock, metrics::Metrics},
};
use queue::VerdictQueue;

/// The summary of an attempt, and whether it is still running; `None` if it was not measured.
pub(crate) type FoundAttempt = Option<(Arc<Summary>, bool)>;

/// What a verdict is decided from.
#[derive(Debug, Clone)]
pub(crate) struct VerdictParts {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) classifier: FailureClassifier,
    pub(crate) job_pods: JobPods,
    pub(crate) pools: PoolRegistry,
}

/// Gives verdicts, keeps them, and shows those that were given. Cheap to clone; clones share the queue.
#[derive(Debug, Clone)]
pub(crate) struct Verdicts {
    ingest: Ingest,
    parts: VerdictParts,
    pub(crate) private: Arc<PrivacySettings>,
    queue: VerdictQueue,
}

impl Verdicts {
    /// The verdicts on the attempts that `ingest` writes.
    pub(crate) fn new(ingest: Ingest, parts: VerdictParts, private: Arc<PrivacySettings>) -> Self {
        let queue = VerdictQueue::new(Arc::clone(&parts.metrics));
        Self { ingest, parts, private, queue }
    }

    /// All verdicts on an attempt of this project (without project if it is empty), the one in
    /// force first. Verdicts that were requested for another project, or by a caller that may not
    /// report on the project, are left out.
    pub(crate) async fn given(&self, id: &AttemptId, project: &str) -> Reply<Vec<Verdict>> {
        let mut given = store::read_verdicts(&self.parts.store, id).await?;
        given.retain(|verdict| verdict.counts_for(project));
        given.reverse();
        Ok(given)
    }

    /// The projects for which verdicts on an attempt were requested, that of the verdict in force first.
    async fn judged_projects(&self, attempt: &AttemptId) -> Reply<Vec<String>> {
        let given = store::read_verdicts(&self.parts.store, attempt).await?;
        Ok(given.into_iter().rev().map(|verdict| verdict.basis.reported.project).collect())
    }

    /// Removes the verdict with this time on an attempt of unknown project.
    async fn make_room(&self, attempt: &AttemptId, given_unix_ms: u64) -> Reply<()> {
        tracing::warn!(target: AUDIT, %attempt, "forgot an old verdict: too many callers ask about an attempt without measurements");
        let is_meant = |verdict: &Verdict| verdict.given_unix_ms.unwrap_or(0) == given_unix_ms;
        let gone = self.ingest.forget_verdicts(attempt, is_meant).await;
        gone.map_err(|error| Refusal::Unreadable(error.to_string()))
    }
}
