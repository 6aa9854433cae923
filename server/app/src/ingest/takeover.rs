//! A CI job's own agent takes over the job's id from a caller that opened an attempt under it
//! before, without proof.
//!
//! Ids of CI jobs can be guessed. A caller with a static token or a pod's token, which prove no
//! job, may open the attempt of a job that has not started. When an agent connects whose token
//! proves exactly this job, everything sent under the id before is dropped, first from disk and
//! then from memory. The attempt then starts as if its own agent had connected first.
//!
//! | attempt that has the id | result |
//! |---|---|
//! | open, not proven | it is dropped, and its stream ends with that reason |
//! | ended, not proven, does not count for predictions | it is dropped with its verdicts |
//! | ended, not proven, counts for predictions | it is dropped if the new one may count, too; otherwise it stays, because an untrusted caller must not lower predictions for others |
//! | of an agent that proved the job, open or ended | it stays: the first agent of a job keeps its id |
//!
//! On disk the samples are removed first and the record with the id last, in steps. If the server
//! crashes in between, the rest is found under the same id. The agent got no answer, so it connects
//! again, and the takeover is repeated. Only data that is to be dropped is incomplete in between.

use plimsoll_core::domain::{Attempt, AttemptId};
use plimsoll_store as store;

use crate::{
    ingest::{Reply, request::AttemptChange, session::Session, unwritable, worker::Worker},
    runtime::{audit::AUDIT, metrics::KindLabel},
};

impl Worker {
    /// Drops the open attempt that has the id of `attempt`. `attempt` is proven.
    pub(crate) async fn take_over_open(&mut self, attempt: &Attempt) -> Reply<()> {
        // nothing of the attempt may be on its way to the disk or be compacted
        self.commit_all().await;
        self.stop_compactions([&attempt.id].into_iter()).await;
        self.drop_stored(&attempt.id).await?;
        let Some(Session { attempt: taken_over, holder, .. }) = self.sessions.remove(&attempt.id) else {
            return Ok(());
        };
        if let Some(stream) = holder {
            stream.mark_taken_over(&taken_over.id);
        }
        // if the job names the same ticket, the ticket stays open for the job
        self.parts.tickets.end(&taken_over, taken_over.opening.ticket == attempt.opening.ticket);
        drop(self.changes.send(AttemptChange::Ended(taken_over.id.clone())));
        self.note_takeover("open", attempt, &taken_over.key.project);
        Ok(())
    }

    /// Drops the ended attempt that has the id of `attempt`. `attempt` is proven.
    pub(crate) async fn take_over_ended(&mut self, attempt: &Attempt, project: &str) -> Reply<()> {
        // a verdict on the attempt may be on its way to the disk
        self.commit_all().await;
        self.drop_stored(&attempt.id).await?;
        self.parts.history.unlearn(&attempt.id);
        self.note_takeover("ended", attempt, project);
        Ok(())
    }

    pub(crate) async fn drop_stored(&mut self, id: &AttemptId) -> Reply<()> {
        store::forget_attempt(&self.parts.store, id).await.map_err(unwritable)?;
        self.retention.attempt_dropped();
        self.parts.classifier.unlearn(id);
        Ok(())
    }

    fn note_takeover(&self, kind: &'static str, attempt: &Attempt, project: &str) {
        self.parts.metrics.taken_over.get_or_create(&KindLabel::of(kind)).inc();
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
