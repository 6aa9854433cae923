//! Attempts whose agent fell silent: after a while the server ends them itself, as lost.

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
const STEP: usize = 256;

/// Silence after which an untrusted attempt goes of which nothing was ever measured: it says nothing and takes a place from others.
const UNFED: Duration = Duration::from_hours(1);

impl Worker {
    /// Gives places in pools back whose agents are silent for long enough, far before their attempts are closed: others wait. Those that are
    /// heard of again, or for which there was no room beside others of their job, take theirs.
    pub(crate) fn free_silent(&mut self) {
        let pools = &self.parts.pools;
        let patience = pools.now().terms().patience.silent_within_ms;
        let (now, patience) = (self.now().moment, Duration::from_millis(patience));
        self.sessions.free_silent(pools, now, patience);
        let sessions = self.sessions.values();
        let presence = sessions.map(|session| (&*session.attempt, session.is_silent(now, patience)));
        self.parts.tickets.hear(presence);
    }

    /// Closes attempts whose agent has been silent for too long, some of them; true if there may be more. Their end was not seen.
    /// None of them while the store takes nothing, and for as long again after that.
    pub(crate) async fn close_abandoned(&mut self) -> bool {
        // an end says the last number, which must not grow any more
        self.commit_all().await;
        let (now, patience) = (self.now().moment, self.parts.abandon_after);
        if self.parts.store.status().mode != StoreMode::Writable {
            self.commits.note_refused(now);
        }
        if self.commits.was_refused_within(patience, now) {
            // an agent cannot make itself heard over a store that takes nothing: the patience begins anew when it does
            return false;
        }
        let unfed = self.drop_unfed(now).await;
        let silent = self.sessions.values().filter(|session| session.is_silent(now, patience)).take(STEP);
        let endings: Vec<_> =
            silent.map(|s| EndRequest { finish: abandoned(s), stream: None, answer: None }).collect();
        let (full, before) = (endings.len() == STEP, self.sessions.len());
        self.seal_all(endings).await;
        self.count_open();
        // a store that takes nothing is tried again later
        unfed || (full && self.sessions.len() < before)
    }

    /// Drops untrusted attempts that were opened and never fed, some of them, without a word in the history; true if there may be more.
    async fn drop_unfed(&mut self, now: Instant) -> bool {
        let unfed = self.sessions.values().filter(|s| s.is_unfed() && s.is_silent(now, UNFED));
        let unfed: Vec<Arc<Attempt>> = unfed.take(STEP).map(|s| Arc::clone(&s.attempt)).collect();
        for attempt in &unfed {
            if let Err(refusal) = self.drop_stored(&attempt.id).await {
                tracing::warn!(attempt = %attempt.id, error = %refusal, "could not drop an attempt without samples");
                return false;
            }
            self.sessions.remove(&attempt.id);
            self.parts.tickets.end(attempt, false);
            drop(self.changes.send(Change::Ended(attempt.id.clone())));
        }
        unfed.len() == STEP
    }
}

/// The end of an attempt as far as its samples tell.
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
