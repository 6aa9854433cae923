//! Attempts whose agent fell silent: after a while the server ends them itself, as lost.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    close::Ending,
    request::Change,
    session::{Finish, Session},
    worker::Worker,
};
use crate::{
    domain::{Attempt, Totals},
    placing::Held,
    store::Mode,
};

/// Silent attempts that are closed in one step.
const STEP: usize = 256;

/// Silence after which an untrusted attempt goes of which nothing was ever measured: it says nothing and takes a place from others.
const UNFED: Duration = Duration::from_hours(1);

impl Worker {
    /// Gives places in pools back whose agents are silent for long enough, far before their attempts are closed: others wait. Those that are
    /// heard of again, or for which there was no room beside others of their job, take theirs.
    pub(super) fn free_silent(&mut self) {
        let placing = &self.parts.placing;
        let patience = placing.now().terms().patience.silent_within_ms;
        let (now, patience) = (self.now().moment, Duration::from_millis(patience));
        for session in self.sessions.values_mut() {
            if session.is_silent(now, patience) {
                session.place = None;
            } else if !session.place.as_ref().is_some_and(Held::takes_place) {
                session.place = placing.hold(&session.attempt);
            }
        }
        let sessions = self.sessions.values();
        let heard = sessions.map(|session| (&*session.attempt, session.is_silent(now, patience)));
        self.parts.ticketing.hear(heard);
    }

    /// Closes attempts whose agent has been silent for too long, some of them; true if there may be more. Nobody saw their end.
    /// None of them while the store takes nothing, and for as long again after that.
    pub(super) async fn close_abandoned(&mut self) -> bool {
        // an end says the last number, which must not grow any more
        self.commit_all().await;
        let (now, patience) = (self.now().moment, self.parts.abandon_after);
        if self.parts.store.status().mode != Mode::Writable {
            self.refused = Some(now);
        }
        if self.refused.is_some_and(|refused| now.saturating_duration_since(refused) <= patience) {
            // an agent cannot make itself heard over a store that takes nothing: the patience begins anew when it does
            return false;
        }
        let unfed = self.drop_unfed(now).await;
        let silent = self.sessions.values().filter(|session| session.is_silent(now, patience)).take(STEP);
        let endings: Vec<_> =
            silent.map(|s| Ending { finish: abandoned(s), stream: None, answer: None }).collect();
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
            self.parts.ticketing.end(attempt, false);
            drop(self.changes.send(Change::Ended(attempt.id.clone())));
        }
        unfed.len() == STEP
    }
}

/// The end of an attempt as far as its samples tell.
pub(super) fn abandoned(session: &Session) -> Finish {
    Finish {
        attempt: session.attempt.id.clone(),
        last_sequence: session.acknowledged,
        lost: 0,
        wall: session.progress.last.map(|last| last.elapsed).unwrap_or_default(),
        exit: None,
        totals: Totals::default(),
        keeps_ticket: false,
        phases: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Claim, Ticket, TicketId},
        ingest::{close::tests::held, fixture, session::StreamHandle},
        store::{Batch, Store, put_ticket},
    };

    /// Lets time pass, and looks for silent attempts.
    async fn swept_after(worker: &mut Worker, time: Duration) -> usize {
        tokio::time::advance(time).await;
        worker.close_abandoned().await;
        worker.sessions.len()
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_is_closed_for_the_silence_of_a_store_that_takes_nothing() {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let (mut worker, _stream) = held(&Store::Memory(memory.clone()), &StreamHandle::new());
        let minute = Duration::from_mins(1);
        memory.refuse_commits("the disk is full");
        assert_eq!(swept_after(&mut worker, fixture::PATIENCE * 2).await, 1);
        memory.accept_commits();
        assert_eq!(swept_after(&mut worker, minute).await, 1, "its agent is given time to come back");
        assert_eq!(swept_after(&mut worker, fixture::PATIENCE).await, 0, "it did not");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_trusted_and_was_never_fed_goes_after_an_hour_and_leaves_nothing() {
        let store = Store::memory();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.parts.abandon_after = Duration::from_hours(24);
        for (id, untrusted, acknowledged) in [("empty", true, 0), ("fed", true, 1), ("trusted", false, 0)] {
            let mut attempt = fixture::attempt(id);
            attempt.opening.untrusted = untrusted;
            let mut batch = Batch::default();
            crate::store::put_attempt(&mut batch, &attempt).unwrap();
            store.commit(batch).await.unwrap();
            let session = Session { acknowledged, ..Session::new(attempt.clone().into(), worker.now()) };
            worker.sessions.insert(attempt.id, session);
        }
        assert_eq!(swept_after(&mut worker, Duration::from_mins(59)).await, 3);
        assert_eq!(swept_after(&mut worker, Duration::from_mins(2)).await, 2);
        let open = crate::store::open_attempts(&store).await.unwrap();
        let mut open: Vec<&str> = open.iter().map(|attempt| attempt.id.as_str()).collect();
        open.sort_unstable();
        assert_eq!(open, ["fed", "trusted"]);
        let gone = crate::domain::AttemptId::parse("empty").unwrap();
        assert_eq!(crate::store::read_summary(&store, &gone).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_agent_holds_the_place_of_its_ticket_for_minutes_and_its_attempt_for_longer() {
        let store = Store::memory();
        let id = TicketId::parse("t").unwrap();
        let ticket = Ticket {
            id: id.clone(),
            claim: Claim::default(),
            round: 1,
            number: 1,
            opened_unix_ms: 0,
            granted_unix_ms: Some(0),
            attempt: None,
        };
        let mut batch = Batch::default();
        put_ticket(&mut batch, &ticket).unwrap();
        store.commit(batch).await.unwrap();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let mut attempt = fixture::attempt("a");
        attempt.opening.ticket = Some(id);
        worker.sessions.insert(attempt.id.clone(), Session::new(attempt.clone().into(), worker.now()));
        worker.parts.ticketing.resume([&attempt]).await.unwrap();
        let places = |worker: &mut Worker| {
            worker.free_silent();
            worker.parts.ticketing.demand().iter().map(|demand| demand.held.places).sum::<u32>()
        };
        tokio::time::advance(Duration::from_mins(9)).await;
        assert_eq!(places(&mut worker), 1);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!((places(&mut worker), worker.sessions.len()), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_agent_without_a_ticket_makes_its_pool_no_busier_until_it_is_heard_of_again() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
        let mut attempt = fixture::attempt("a");
        attempt.opening.pool = "big".to_owned();
        let place = worker.parts.placing.hold(&attempt);
        let session = Session { place, ..Session::new(attempt.clone().into(), worker.now()) };
        worker.sessions.insert(attempt.id.clone(), session);
        let mut busy = async |minutes| {
            tokio::time::advance(Duration::from_mins(minutes)).await;
            worker.free_silent();
            let busy = worker.parts.placing.busy("big");
            // its agent is back
            let now = worker.now();
            worker.sessions.values_mut().for_each(|session| session.heard = now);
            busy
        };
        assert_eq!((busy(9).await, busy(11).await, busy(1).await), (1, 0, 1));
    }
}
