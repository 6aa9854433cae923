//! Tickets, kept: the rules of [`plimsoll_core::placement::tickets`] with a lock, a clock and a disk around them.
//!
//! A call that changes a ticket takes the lock, which is held for microseconds, and then waits until the change is on the disk:
//! one task, the keeper, commits all that has gathered with one sync. No answer says what is not on the disk yet.
//!
//! If the disk takes nothing, the change stays, is not answered, and is tried again: the caller is asked to come back, and
//! finds the result under the ticket's id. A restart takes up what is on the disk: that is older, and as true.
//!
//! | module | |
//! |---|---|
//! | `ticket_state` | what the lock guards |
//! | `keeper` | the task that commits, and ends tickets without a sign of life |
//! | `numbered` | tickets with numbers as their ids, which the server gives out |
//! | `refusal` | why something is refused |
//! | `watching` | one who waits for a change |

mod keeper;
mod numbered;
mod refusal;
#[cfg(test)]
mod tests;
mod ticket_state;
mod watching;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keeper::Durable;
pub(crate) use keeper::Keeper;
pub(crate) use numbered::NumberedTicket;
use plimsoll_core::{
    domain::{Attempt, AttemptId, FieldViolation, TicketClaim, TicketId},
    placement::tickets::{ClockReading, PoolDemand, TicketRefusal, Tickets},
};
use plimsoll_store::{self as store, Store, StoreError};
pub(crate) use refusal::Refusal;
use ticket_state::TicketState;
pub(crate) use ticket_state::View;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
pub(crate) use watching::Watching;

use crate::{
    access::identity::Identity,
    runtime::{clock::Clock, metrics::Metrics},
    state::pools::PoolRegistry,
};

/// A handle on the tickets.
#[derive(Debug, Clone)]
pub(crate) struct TicketRegistry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<TicketState>,
    /// Something is to be committed.
    wake: Notify,
    durable: watch::Sender<Durable>,
    store: Store,
    pools: PoolRegistry,
    metrics: Arc<Metrics>,
    clock: Clock,
    began: Instant,
}

impl TicketRegistry {
    /// The handle, and the keeper, which the caller must run. Without tickets until [`Self::resume`].
    pub(crate) fn new(
        store: Store,
        pools: PoolRegistry,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> (Self, Keeper) {
        let tickets = Tickets::new(pools.now().terms().clone());
        let shared = Arc::new(Shared {
            state: Mutex::new(TicketState::new(tickets, Arc::clone(&metrics))),
            wake: Notify::new(),
            durable: watch::Sender::new(Durable::default()),
            store,
            pools,
            metrics,
            clock,
            began: Instant::now(),
        });
        let known = Arc::downgrade(&shared);
        shared.pools.ask_tickets(move |pool| known.upgrade()?.state().tickets.demand_in(pool));
        (Self(Arc::clone(&shared)), Keeper(shared))
    }

    /// Takes up the tickets of the store. `open` are the attempts that are open: a ticket whose attempt is not has ended with it.
    ///
    /// # Errors
    /// The store cannot be read. A single damaged record is logged and skipped.
    pub(crate) async fn resume<'a>(
        &self,
        open: impl IntoIterator<Item = &'a Attempt>,
    ) -> Result<(), StoreError> {
        let mut kept = Vec::new();
        let loaded = store::load_tickets(&self.0.store, |ticket| kept.push(ticket)).await?;
        let numbers = numbered::read(&self.0.store).await?;
        let open: HashMap<&AttemptId, &Attempt> = open.into_iter().map(|open| (&open.id, open)).collect();
        let now = self.0.now();
        let mut state = self.0.state();
        let ended: Vec<(TicketId, AttemptId)> = kept
            .iter()
            .filter_map(|ticket| Some((ticket.id.clone(), ticket.attempt.clone()?)))
            .filter(|(_, attempt)| !open.contains_key(attempt))
            .collect();
        state.tickets.restore(kept, now);
        state.numbers = numbers;
        self.0.durable.send_modify(|durable| durable.numbers = numbers);
        // who runs without a ticket takes places, too: nothing is granted before that is known
        for attempt in open.values() {
            state.begin(attempt);
        }
        let gone = ended.len();
        for (id, attempt) in ended {
            let changes = state.tickets.end(&id, &attempt, now);
            state.note(changes, now);
        }
        let changes = state.tickets.grant(now);
        state.note(changes, now);
        drop(state);
        if loaded.records > 0 {
            let pools = self.demand().len();
            tracing::info!(
                tickets = loaded.records,
                damaged = loaded.damaged,
                gone,
                pools,
                "took tickets up"
            );
        }
        self.0.wake.notify_one();
        Ok(())
    }

    /// Opens a ticket, or says where the one with this id stands. What is answered is on the disk.
    pub(crate) async fn open(&self, id: &TicketId, claim: TicketClaim) -> Result<View, Refusal> {
        let opened = self.0.decide(|state, now| {
            if let Some(ended) = state.ended_as(id, &claim) {
                return Ok(ended);
            }
            if state.was_its_jobs(id, &claim) {
                return Err(TicketRefusal::Taken(id.clone()).into());
            }
            state.take_over(id, &claim, now);
            let is_new = state.tickets.get(id).is_none();
            let changes = state.tickets.open(id, claim, now)?;
            if is_new {
                state.opened(id);
            }
            state.note(changes, now);
            state.view(id, now)
        });
        // also if it is refused: another one may have ended for it
        self.0.wake.notify_one();
        self.0.kept(opened).await
    }

    /// Ends a ticket of `owner`. One that has ended stays as it ended.
    pub(crate) async fn close(&self, id: &TicketId, owner: &str, caller: &Identity) -> Result<View, Refusal> {
        let may = |_: &TicketState, claim: &TicketClaim| {
            may_touch(caller, id, claim)?;
            if claim.owner != owner {
                return Err(FieldViolation::new("owner", wrong_owner(owner)).into());
            }
            Ok(())
        };
        self.close_if(id, may).await
    }

    /// Ends a ticket whose last attempt was of this session, and in whose place no other one has begun.
    pub(crate) async fn give_back(
        &self,
        id: &TicketId,
        session: &str,
        caller: &Identity,
    ) -> Result<View, Refusal> {
        let may = |state: &TicketState, claim: &TicketClaim| {
            may_know(caller, id, claim)?;
            if state.was_left_by(id, session) {
                return Ok(());
            }
            let description =
                "is not that of the last attempt in the ticket's place, or another one runs there";
            Err(FieldViolation::new("session", description).into())
        };
        self.close_if(id, may).await
    }

    async fn close_if(
        &self,
        id: &TicketId,
        may: impl FnOnce(&TicketState, &TicketClaim) -> Result<(), Refusal>,
    ) -> Result<View, Refusal> {
        let closed = self.0.decide(|state, now| {
            let view = state.view(id, now)?;
            may(state, &view.ticket().claim)?;
            if matches!(view, View::Ended(..)) {
                return Ok(view);
            }
            let changes = state.tickets.close(id, now)?;
            state.note(changes, now);
            state.view(id, now)
        });
        self.0.kept(closed).await
    }

    /// Watches a ticket; with `holds`, its place is held as long as the result lives.
    pub(crate) fn watch(&self, id: &TicketId, holds: bool, caller: &Identity) -> Result<Watching, Refusal> {
        let now = self.0.now();
        let mut state = self.0.state();
        let view = state.view(id, now)?;
        may_touch(caller, id, &view.ticket().claim)?;
        state.tickets.watch(id, holds, now);
        let bell = state.bell(id);
        drop(state);
        Ok(Watching::new(Arc::clone(&self.0), view.ticket(), holds, bell))
    }

    /// An attempt is open and on the disk: if it names a ticket, it runs in its place, else beside the tickets of its pool.
    pub(crate) fn begin(&self, attempt: &Attempt) {
        if has_place(attempt) && self.0.state().begin(attempt) {
            self.0.wake.notify_one();
        }
    }

    /// Why a ticket holds no place for an attempt of a project that is open; `None` if it does.
    pub(crate) fn no_place(&self, id: &TicketId, attempt: &AttemptId, project: &str) -> Option<String> {
        self.0.state().no_place(id, attempt, project)
    }

    /// An attempt has ended, and that is on the disk: so has its ticket, unless it `keeps_ticket` for another try.
    pub(crate) fn end(&self, attempt: &Attempt, keeps_ticket: bool) {
        if !has_place(attempt) {
            return;
        }
        let now = self.0.now();
        let mut state = self.0.state();
        if keeps_ticket {
            state.vacate_for_retry(attempt, now);
        } else {
            state.end(attempt, now);
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Open attempts, each with whether its agent is silent for longer than places are kept for it. What those hold goes to others.
    pub(crate) fn hear<'a>(&self, attempts: impl Iterator<Item = (&'a Attempt, bool)>) {
        let now = self.0.now();
        let mut state = self.0.state();
        for (attempt, is_silent) in attempts.filter(|(attempt, _)| has_place(attempt)) {
            state.hear(attempt, is_silent, now);
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// What is wanted and held, by pool.
    pub(crate) fn demand(&self) -> Vec<PoolDemand> {
        self.0.state().tickets.demand()
    }
}

/// Whether `caller` may watch and close this ticket: it opened the ticket, or operates its project. Several callers share the name of an issuer of
/// tokens; what they may see tells them apart.
fn may_touch(caller: &Identity, id: &TicketId, claim: &TicketClaim) -> Result<(), Refusal> {
    let opened = claim.by == caller.stored_name() && caller.sees(&claim.project);
    if opened || caller.operates(&claim.project) {
        return Ok(());
    }
    may_know(caller, id, claim)?;
    Err(Refusal::Forbidden(FieldViolation::new("ticket", format!("was not opened by {}", caller.name))))
}

/// Who may not see the project of a ticket does not learn that it is there.
fn may_know(caller: &Identity, id: &TicketId, claim: &TicketClaim) -> Result<(), Refusal> {
    if caller.sees(&claim.project) { Ok(()) } else { Err(TicketRefusal::Unknown(id.clone()).into()) }
}

/// Whether an attempt can take a place: it says where it runs.
fn has_place(attempt: &Attempt) -> bool {
    attempt.opening.ticket.is_some() || !attempt.opening.pool.is_empty()
}

fn wrong_owner(owner: &str) -> String {
    if owner.is_empty() {
        return "is empty; send the owner that the answer to OpenTicket named".to_owned();
    }
    "is not the owner of this ticket; send the one that the answer to OpenTicket named".to_owned()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, TicketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> ClockReading {
        let steady = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        ClockReading { unix_ms: self.clock.now_unix_ms(), steady_ms: steady }
    }

    /// Decides something under the lock; gives what may be answered once everything up to the number is on the disk.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&mut TicketState, ClockReading) -> Result<T, Refusal>,
    ) -> (Result<T, Refusal>, u64) {
        let now = self.now();
        let mut state = self.state();
        let began = Instant::now();
        let decided = decide(&mut state, now);
        self.metrics.ticket_decision_seconds.observe(began.elapsed().as_secs_f64());
        (decided, state.changes())
    }

    /// Waits until what was decided may be answered.
    async fn kept<T>(&self, (decided, upto): (Result<T, Refusal>, u64)) -> Result<T, Refusal> {
        if let Ok(_decided) = &decided {
            self.wake.notify_one();
            self.durable(upto).await?;
        }
        decided
    }

    /// Waits until all changes up to this one are on the disk.
    async fn durable(&self, upto: u64) -> Result<(), Refusal> {
        let mut durable = self.durable.subscribe();
        loop {
            match durable.borrow_and_update().has(upto) {
                Some(Ok(())) => return Ok(()),
                Some(Err(reason)) => return Err(Refusal::Unwritable(reason.to_string())),
                None => {}
            }
            durable.changed().await.map_err(|_gone| Refusal::Stopping)?;
        }
    }
}
