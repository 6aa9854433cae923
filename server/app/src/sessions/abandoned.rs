//! Attempts whose agent is silent: after a while the server ends them as lost.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::{Attempt, FinalTotals};
use plimsoll_store::StoreMode;
use tokio::time::Instant;

use super::{
    request::{Change, EndRequest, Finish},
    session::Session,
    worker::Worker,
};

/// Silent attempts that are closed in one step.
const CLOSED_A_STEP: usize = 256;

/// Silence after which an untrusted attempt without any measurement is dropped: it is worthless and takes a slot from others.
const UNMEASURED_SILENCE: Duration = Duration::from_hours(1);

impl Worker {
    /// Frees pool slots of agents that are silent for long enough, well before their attempts are closed, because others wait. An
    /// attempt whose agent sends again takes a slot again, and so does one that had none beside others of its job.
    pub(crate) fn free_silent(&mut self) {
        let pools = &self.parts.pools;
        let patience = pools.now().terms().patience.silent_within_ms;
        let (now, patience) = (self.now().moment, Duration::from_millis(patience));
        self.sessions.free_silent(pools, now, patience);
        let sessions = self.sessions.values();
        let presence = sessions.map(|session| (&*session.attempt, session.is_silent(now, patience)));
        self.parts.tickets.hear(presence);
    }

    /// Closes some of the attempts whose agent was silent for too long; returns whether there may be more. Their end was not observed.
    /// None while the store refuses writes, and for the same time after that.
    pub(crate) async fn close_abandoned(&mut self) -> bool {
        // an end records the last number, so nothing may be in flight
        self.commit_all().await;
        let (now, patience) = (self.now().moment, self.parts.abandon_after);
        if self.parts.store.status().mode != StoreMode::Writable {
            self.commits.note_refused(now);
        }
        if self.commits.was_refused_within(patience, now) {
            // an agent is not to blame for silence while the store refuses writes: the time starts again afterwards
            return false;
        }
        let unfed = self.drop_unfed(now).await;
        let silent =
            self.sessions.values().filter(|session| session.is_silent(now, patience)).take(CLOSED_A_STEP);
        let endings: Vec<_> =
            silent.map(|s| EndRequest { finish: abandoned(s), stream: None, answer: None }).collect();
        let (full, before) = (endings.len() == CLOSED_A_STEP, self.sessions.len());
        self.seal_all(endings).await;
        self.count_open();
        // if the store refuses writes, try again later
        unfed || (full && self.sessions.len() < before)
    }

    /// Drops some of the untrusted attempts that were opened and never sent samples, without a summary; returns whether there may be more.
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
            drop(self.changes.send(Change::Ended(attempt.id.clone())));
        }
        unfed.len() == CLOSED_A_STEP
    }
}

/// The end of an attempt, as far as its samples show it.
pub(crate) fn abandoned(session: &Session) -> Finish {
    Finish {
        attempt: session.attempt.id.clone(),
        last_sequence: session.acknowledged,
        lost: 0,
        wall: session.progress.last.map(|last| last.elapsed),
        exit: None,
        totals: FinalTotals::default(),
        keeps_ticket: false,
        ended: false,
        offloaded_to: String::new(),
        phases: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
