//! Attempts with an agent that sends nothing any more: after a while the server ends them as lost.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::Attempt;
use plimsoll_store::StoreMode;
use tokio::time::Instant;

use super::{
    request::{AttemptChange, EndRequest, Finish},
    session::Session,
    shown_by,
    worker::Worker,
};

/// Most silent attempts that are closed in one step.
const CLOSED_A_STEP: usize = 256;

/// Silence after which an untrusted attempt without any sample is dropped: it has no value, and
/// counts toward the limit of open attempts.
const UNMEASURED_SILENCE: Duration = Duration::from_hours(1);

impl Worker {
    /// Frees the pool slots of agents that have been silent for some time, long before their
    /// attempts are closed, because others wait for slots. When the agent of such an attempt sends
    /// again, the attempt takes a slot again. So does an attempt that had no slot because other
    /// attempts of its job had one.
    pub(crate) fn free_silent(&mut self) {
        let pools = &self.parts.pools;
        let patience = pools.now().terms().timeouts.silent_within_ms;
        let (now, patience) = (self.now().moment, Duration::from_millis(patience));
        self.sessions.free_silent(pools, now, patience);
        let sessions = self.sessions.values();
        let presence = sessions.map(|session| (&*session.attempt, session.is_silent(now, patience)));
        self.parts.tickets.set_silent(presence);
    }

    /// Closes some of the attempts whose agent was silent for too long; returns whether there may
    /// be more. Their end counts as not observed. Closes none while the store refuses writes, nor
    /// for the same time after that.
    pub(crate) async fn close_abandoned(&mut self) -> bool {
        // the end of an attempt records its last number, so no samples may be on their way to the
        // disk
        self.commit_all().await;
        let (now, patience) = (self.now().moment, self.parts.abandon_after);
        if self.parts.store.status().mode != StoreMode::Writable {
            self.commits.note_refused(now);
        }
        if self.commits.was_refused_within(patience, now) {
            // while the store refuses writes, silence is not the agent's fault: the time starts
            // again when it accepts writes
            return false;
        }
        let unfed = self.drop_unfed(now).await;
        let silent =
            self.sessions.values().filter(|session| session.is_silent(now, patience)).take(CLOSED_A_STEP);
        let endings: Vec<_> =
            silent.map(|s| EndRequest { finish: end_of_abandoned(s), stream: None, answer: None }).collect();
        let (full, before) = (endings.len() == CLOSED_A_STEP, self.sessions.len());
        self.seal_all(endings).await;
        self.count_open();
        // if none was closed because the store refuses writes, try again later
        unfed || (full && self.sessions.len() < before)
    }

    /// Drops some of the untrusted attempts that were opened and never sent samples. No summary is
    /// kept of them. Returns whether there may be more.
    async fn drop_unfed(&mut self, now: Instant) -> bool {
        let unfed = self.sessions.values().filter(|s| s.is_unfed() && s.is_silent(now, UNMEASURED_SILENCE));
        let unfed: Vec<Arc<Attempt>> = unfed.take(CLOSED_A_STEP).map(|s| Arc::clone(&s.attempt)).collect();
        for attempt in &unfed {
            if let Err(refusal) = self.drop_stored(&attempt.id).await {
                tracing::warn!(attempt = %attempt.id, error = %refusal, "could not drop an attempt without samples");
                return false;
            }
            self.sessions.remove(&attempt.id);
            self.parts.tickets.end(attempt, false);
            drop(self.changes.send(AttemptChange::Ended(attempt.id.clone())));
        }
        unfed.len() == CLOSED_A_STEP
    }
}

/// The end of an attempt, as far as its samples show it: how it ended is unknown.
pub(crate) fn end_of_abandoned(session: &Session) -> Finish {
    let (totals, rescue) = shown_by(session.acts);
    Finish {
        wall: session.progress.last.map(|last| last.elapsed),
        totals,
        rescue,
        ..Finish::unknown(session.attempt.id.clone(), session.acknowledged)
    }
}

#[cfg(test)]
mod tests;
