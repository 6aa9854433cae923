//! `ShouldRetry` and `CorrectVerdict`: computes verdicts and writes them to disk before they are
//! answered; computes a verdict again when its attempt ends.

pub(crate) mod after_memory_end;
mod answer;
mod case;
pub(crate) mod correcting;
mod judge;
mod numbers;
mod previous_attempt;
pub(crate) mod queue;
pub(crate) mod rejudging;

use plimsoll_core::domain::{AttemptId, Verdict};
use plimsoll_store as store;

use super::{Ingest, Refusal};
use crate::{runtime::audit::AUDIT, verdicts::known::in_order};

impl Ingest {
    /// All verdicts on an attempt of this project (without project if it is empty), the one in
    /// force first. Verdicts that were requested for another project, or by a caller that may not
    /// report on the project, are left out.
    pub(crate) async fn verdicts(&self, id: &AttemptId, project: &str) -> Result<Vec<Verdict>, Refusal> {
        let mut given = in_order(&self.parts.store, id).await?;
        given.retain(|verdict| verdict.counts_for(project));
        given.reverse();
        Ok(given)
    }

    /// Removes the verdict with this time on an attempt of unknown project.
    async fn make_room(&self, attempt: &AttemptId, given_unix_ms: u64) -> Result<(), Refusal> {
        tracing::warn!(target: AUDIT, %attempt, "forgot an old verdict: too many callers ask about an attempt without measurements");
        let is_meant = |verdict: &Verdict| verdict.given_unix_ms.unwrap_or(0) == given_unix_ms;
        let gone = store::forget_verdicts_if(&self.parts.store, attempt, is_meant).await;
        gone.map(drop).map_err(|error| Refusal::Unreadable(error.to_string()))
    }
}
