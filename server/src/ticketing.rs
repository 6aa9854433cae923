//! Tickets, kept: the rules of [`crate::placement::tickets`] with a lock, a clock and a disk around them.
//!
//! Whoever changes a ticket takes the lock, which is held for microseconds, and then waits until what was changed is on the disk:
//! one task, the keeper, commits all that has gathered with one sync. Nobody is told what is not on the disk yet.
//!
//! If the disk takes nothing, what was changed stays changed, is told to nobody, and is tried again: whoever asked is told to come
//! back, and finds under his id what became of it. A restart takes up what is on the disk: that is older, and as true.
//!
//! | module | |
//! |---|---|
//! | `claim` | what a question becomes: the pool, the limits that count it, its size and time |
//! | `desk` | what the lock guards |
//! | `keeper` | the task that commits, and ends what nobody is heard of |
//! | `refusal` | why something is refused |
//! | `watching` | one who waits for a change |

mod claim;
mod desk;
mod keeper;
mod refusal;
#[cfg(test)]
mod tests;
mod watching;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) use claim::{Asked, Claims};
use desk::Desk;
pub(crate) use desk::View;
use keeper::Durable;
pub(crate) use keeper::Keeper;
pub(crate) use refusal::Refusal;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
pub(crate) use watching::Watching;

use crate::{
    clock::Clock,
    domain::{Attempt, AttemptId, Claim, Fault, TicketId},
    identity::{Identity, Role},
    metrics::Metrics,
    placement::tickets::{Demand, Now, Refused, Tickets},
    placing::Placing,
    store::{self, Store, StoreError},
};

/// A handle on the tickets.
#[derive(Debug, Clone)]
pub(crate) struct Ticketing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    /// Something is to be committed.
    wake: Notify,
    durable: watch::Sender<Durable>,
    store: Store,
    placing: Placing,
    metrics: Arc<Metrics>,
    clock: Clock,
    began: Instant,
}

impl Ticketing {
    /// The handle, and the keeper that somebody must run. Without tickets until [`Self::resume`].
    pub(crate) fn new(store: Store, placing: Placing, metrics: Arc<Metrics>, clock: Clock) -> (Self, Keeper) {
        let tickets = Tickets::new(placing.now().terms().clone());
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk::new(tickets, Arc::clone(&metrics))),
            wake: Notify::new(),
            durable: watch::Sender::new(Durable::default()),
            store,
            placing,
            metrics,
            clock,
            began: Instant::now(),
        });
        let known = Arc::downgrade(&shared);
        shared.placing.ask_tickets(move |pool| known.upgrade()?.desk().tickets.demand_in(pool));
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
        let open: HashMap<&AttemptId, &Attempt> = open.into_iter().map(|open| (&open.id, open)).collect();
        let now = self.0.now();
        let mut desk = self.0.desk();
        let ended: Vec<(TicketId, AttemptId)> = kept
            .iter()
            .filter_map(|ticket| Some((ticket.id.clone(), ticket.attempt.clone()?)))
            .filter(|(_, attempt)| !open.contains_key(attempt))
            .collect();
        desk.tickets.restore(kept, now);
        // who runs without a ticket takes places, too: nothing is granted before that is known
        for attempt in open.values() {
            desk.begin(attempt);
        }
        let gone = ended.len();
        for (id, attempt) in ended {
            let changes = desk.tickets.end(&id, &attempt, now);
            desk.note(changes, now);
        }
        let changes = desk.tickets.grant(now);
        desk.note(changes, now);
        drop(desk);
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
    pub(crate) async fn open(&self, id: &TicketId, claim: Claim) -> Result<View, Refusal> {
        let opened = self.0.decide(|desk, now| {
            if let Some(ended) = desk.ended_as(id, &claim) {
                return Ok(ended);
            }
            desk.oust(id, &claim, now);
            let is_new = desk.tickets.get(id).is_none();
            let changes = desk.tickets.open(id, claim, now)?;
            if is_new {
                desk.opened(id);
            }
            desk.note(changes, now);
            desk.view(id, now)
        });
        // also if it is refused: another one may have ended for it
        self.0.wake.notify_one();
        self.0.kept(opened).await
    }

    /// Ends a ticket of `owner`. One that has ended stays as it ended.
    pub(crate) async fn close(&self, id: &TicketId, owner: &str, caller: &Identity) -> Result<View, Refusal> {
        let may = |_: &Desk, claim: &Claim| {
            may_touch(caller, id, claim)?;
            if claim.owner != owner {
                return Err(Fault::new("owner", whose(owner)).into());
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
        let may = |desk: &Desk, claim: &Claim| {
            may_know(caller, id, claim)?;
            if desk.was_left_by(id, session) {
                return Ok(());
            }
            let description =
                "is not that of the last attempt in the ticket's place, or another one runs there";
            Err(Fault::new("session", description).into())
        };
        self.close_if(id, may).await
    }

    async fn close_if(
        &self,
        id: &TicketId,
        may: impl FnOnce(&Desk, &Claim) -> Result<(), Refusal>,
    ) -> Result<View, Refusal> {
        let closed = self.0.decide(|desk, now| {
            let view = desk.view(id, now)?;
            may(desk, &view.ticket().claim)?;
            if matches!(view, View::Ended(..)) {
                return Ok(view);
            }
            let changes = desk.tickets.close(id, now)?;
            desk.note(changes, now);
            desk.view(id, now)
        });
        self.0.kept(closed).await
    }

    /// Watches a ticket; with `holds`, its place is held as long as the result lives.
    pub(crate) fn watch(&self, id: &TicketId, holds: bool, caller: &Identity) -> Result<Watching, Refusal> {
        let now = self.0.now();
        let mut desk = self.0.desk();
        let view = desk.view(id, now)?;
        may_touch(caller, id, &view.ticket().claim)?;
        desk.tickets.watch(id, holds, now);
        let bell = desk.bell(id);
        drop(desk);
        Ok(Watching::new(Arc::clone(&self.0), view.ticket(), holds, bell))
    }

    /// An attempt is open and on the disk: if it names a ticket, it runs in its place, else beside the tickets of its pool.
    pub(crate) fn begin(&self, attempt: &Attempt) {
        if has_place(attempt) && self.0.desk().begin(attempt) {
            self.0.wake.notify_one();
        }
    }

    /// Why a ticket holds no place for an attempt of a project that is open; `None` if it does.
    pub(crate) fn no_place(&self, id: &TicketId, attempt: &AttemptId, project: &str) -> Option<String> {
        self.0.desk().no_place(id, attempt, project)
    }

    /// An attempt has ended, and that is on the disk: so has its ticket, unless it `keeps_ticket` for another try.
    pub(crate) fn end(&self, attempt: &Attempt, keeps_ticket: bool) {
        if !has_place(attempt) {
            return;
        }
        let now = self.0.now();
        let mut desk = self.0.desk();
        if keeps_ticket {
            desk.leave(attempt, now);
        } else {
            desk.end(attempt, now);
        }
        drop(desk);
        self.0.wake.notify_one();
    }

    /// Open attempts, each with whether its agent is silent for longer than places are kept for it. What those hold goes to others.
    pub(crate) fn hear<'a>(&self, attempts: impl Iterator<Item = (&'a Attempt, bool)>) {
        let now = self.0.now();
        let mut desk = self.0.desk();
        for (attempt, is_silent) in attempts.filter(|(attempt, _)| has_place(attempt)) {
            desk.hear(attempt, is_silent, now);
        }
        drop(desk);
        self.0.wake.notify_one();
    }

    /// What is wanted and held, by pool.
    pub(crate) fn demand(&self) -> Vec<Demand> {
        self.0.desk().tickets.demand()
    }
}

/// Whether `caller` may watch and close this ticket: he opened it, or runs the server. Several callers share the name of an issuer of
/// tokens; what they may see tells them apart.
fn may_touch(caller: &Identity, id: &TicketId, claim: &Claim) -> Result<(), Refusal> {
    if (claim.by == claim::by(caller) && caller.sees(&claim.project)) || caller.roles.has(Role::Operator) {
        return Ok(());
    }
    may_know(caller, id, claim)?;
    Err(Refusal::Forbidden(Fault::new("ticket", format!("was not opened by {}", caller.name))))
}

/// Who may not see the project of a ticket does not learn that it is there.
fn may_know(caller: &Identity, id: &TicketId, claim: &Claim) -> Result<(), Refusal> {
    if caller.sees(&claim.project) { Ok(()) } else { Err(Refused::Unknown(id.clone()).into()) }
}

/// Whether an attempt can take a place: it says where it runs.
fn has_place(attempt: &Attempt) -> bool {
    attempt.opening.ticket.is_some() || !attempt.opening.pool.is_empty()
}

fn whose(owner: &str) -> String {
    if owner.is_empty() {
        return "is empty; send the owner that the answer to OpenTicket named".to_owned();
    }
    "is not the owner of this ticket; send the one that the answer to OpenTicket named".to_owned()
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        let steady = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { unix_ms: self.clock.now_unix_ms(), steady_ms: steady }
    }

    /// Decides something under the lock; gives what is to be told once everything up to the number is on the disk.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Desk, Now) -> Result<T, Refusal>,
    ) -> (Result<T, Refusal>, u64) {
        let now = self.now();
        let mut desk = self.desk();
        let began = Instant::now();
        let decided = decide(&mut desk, now);
        self.metrics.ticket_decision_seconds.observe(began.elapsed().as_secs_f64());
        (decided, desk.changes())
    }

    /// Waits until what was decided may be told.
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
