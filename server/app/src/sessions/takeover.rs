//! A job's own agent takes its id from a caller that came before it without proof.
//!
//! Ids of CI jobs can be guessed, and a static token or that of a pod proves no job: a caller with one may open the attempt of a job that
//! has yet to begin. When an agent comes whose token proves that very job, all that was sent under the id is dropped, from the disk
//! first and then from memory, and the attempt begins anew as if it had come first.
//!
//! | what is under the id, without proof | then |
//! |---|---|
//! | an open attempt | it goes, and the stream that writes it ends with that reason |
//! | an ended one that does not count for predictions | it goes with its verdicts |
//! | an ended one that counts for predictions | it goes if the new one may count as well, else it stays: no untrusted caller lowers predictions for others |
//! | an attempt, open or ended, of an agent that proved the job | it stays: the first agent of a job has its id |
//!
//! On the disk the samples go first and what names the attempt last, in steps. A server that dies in between finds what is left under
//! the name that it had, and the agent, which was not answered, comes again. Only what goes is cut short by that.

use std::sync::PoisonError;

use plimsoll_core::domain::{Attempt, AttemptId};
use plimsoll_store as store;

use crate::{
    runtime::{audit::AUDIT, metrics::Kind},
    sessions::{
        refusal::{Refusal, unwritable},
        request::Change,
        session::Session,
        worker::Worker,
    },
};

impl Worker {
    /// Drops the open attempt that has the id of `attempt`, which is proven.
    pub(crate) async fn take_over_open(&mut self, attempt: &Attempt) -> Result<(), Refusal> {
        // nothing of it is on the way any more, to the disk or into a block
        self.commit_all().await;
        self.stop_rolling([&attempt.id].into_iter()).await;
        self.drop_stored(&attempt.id).await?;
        let Some(Session { attempt: taken_over, holder, .. }) = self.sessions.remove(&attempt.id) else {
            return Ok(());
        };
        if let Some(stream) = holder {
            stream.mark_taken_over(&taken_over.id);
        }
        // a ticket that the job names stays the job's
        self.parts.tickets.end(&taken_over, taken_over.opening.ticket == attempt.opening.ticket);
        drop(self.changes.send(Change::Ended(taken_over.id.clone())));
        self.note_takeover("open", attempt, &taken_over.key.project);
        Ok(())
    }

    /// Drops the ended attempt that has the id of `attempt`, which is proven.
    pub(crate) async fn take_over_ended(&mut self, attempt: &Attempt, project: &str) -> Result<(), Refusal> {
        // a verdict on it may be on the way
        self.commit_all().await;
        self.drop_stored(&attempt.id).await?;
        self.parts.history.unlearn(&attempt.id);
        self.note_takeover("ended", attempt, project);
        Ok(())
    }

    pub(crate) async fn drop_stored(&mut self, id: &AttemptId) -> Result<(), Refusal> {
        store::forget(&self.parts.store, id).await.map_err(unwritable)?;
        self.retention.attempt_dropped();
        self.parts.verdict_engine.unlearn(id);
        self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).forget(id, "");
        Ok(())
    }

    fn note_takeover(&self, kind: &'static str, attempt: &Attempt, project: &str) {
        self.parts.metrics.taken_over.get_or_create(&Kind::of(kind)).inc();
        tracing::warn!(
            target: AUDIT,
            what = kind,
            attempt = %attempt.id,
            project = attempt.key.project,
            dropped_project = project,
            "dropped an attempt that another caller opened under a job's id"
        );
    }
}

#[cfg(test)]
mod tests;
