//! A job's own agent takes its id from whoever came before it without proof.
//!
//! Ids of CI jobs can be guessed, and a static token or that of a pod proves no job: whoever has one may open the attempt of a job that
//! has yet to begin. When an agent comes whose token proves that very job, all that was sent under the id is dropped, from the disk
//! first and then from memory, and the attempt begins anew as if it had come first.
//!
//! | what is under the id, without proof | then |
//! |---|---|
//! | an open attempt | it goes, and the stream that writes it is told so and ends |
//! | an ended one that did not teach | it goes with its verdicts |
//! | an ended one that taught | it goes if whoever comes may teach as well, else it stays: nobody untrusted lowers what others are told |
//! | an attempt, open or ended, of an agent that proved the job | it stays: the first agent of a job has its id |
//!
//! On the disk the samples go first and what names the attempt last, in steps. A server that dies in between finds what is left under
//! the name that it had, and the agent, which was not answered, comes again. Only what goes is cut short by that.

use std::sync::PoisonError;

use super::{
    refusal::Refusal, request::Change, round::Round, session::Session, stage::unwritable, worker::Worker,
};
use crate::{
    domain::{Attempt, AttemptId},
    log::AUDIT,
    metrics::Kind,
    store,
};

impl Worker {
    /// Drops the open attempt that has the id of `attempt`, which is proven.
    pub(super) async fn oust_open(&mut self, round: &mut Round, attempt: &Attempt) -> Result<(), Refusal> {
        // nothing of it is on the way any more, to the disk or into a block
        self.commit(round).await;
        self.stop_rolling([&attempt.id].into_iter()).await;
        self.drop_stored(&attempt.id).await?;
        let Some(Session { attempt: ousted, holder, .. }) = self.sessions.remove(&attempt.id) else {
            return Ok(());
        };
        if let Some(stream) = holder {
            stream.oust(&ousted.id);
        }
        // a ticket that the job names stays the job's
        self.parts.ticketing.end(&ousted, ousted.opening.ticket == attempt.opening.ticket);
        drop(self.changes.send(Change::Ended(ousted.id.clone())));
        self.note_ousted("open", attempt, &ousted.key.project);
        Ok(())
    }

    /// Drops the ended attempt that has the id of `attempt`, which is proven.
    pub(super) async fn oust_ended(
        &mut self,
        round: &mut Round,
        attempt: &Attempt,
        project: &str,
    ) -> Result<(), Refusal> {
        // a verdict on it may be on the way
        self.commit(round).await;
        self.drop_stored(&attempt.id).await?;
        self.parts.learned.unlearn(&attempt.id);
        self.note_ousted("ended", attempt, project);
        Ok(())
    }

    pub(super) async fn drop_stored(&mut self, id: &AttemptId) -> Result<(), Refusal> {
        store::forget(&self.parts.store, id).await.map_err(unwritable)?;
        // the walk over samples remembers whose it saw last
        self.pass.last = None;
        self.parts.judging.unlearn(id);
        self.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner).forget(id, "");
        Ok(())
    }

    fn note_ousted(&self, kind: &'static str, attempt: &Attempt, project: &str) {
        self.parts.metrics.ousted.get_or_create(&Kind::of(kind)).inc();
        tracing::warn!(
            target: AUDIT,
            what = kind,
            attempt = %attempt.id,
            project = attempt.key.project,
            said_project = project,
            "dropped what came under a job's id before the job's own agent"
        );
    }
}

#[cfg(test)]
mod tests;
