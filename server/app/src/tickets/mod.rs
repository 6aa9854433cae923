//! Tickets in memory and on disk: the rules of [`plimsoll_core::placement::tickets`] with a lock, a clock and a store.
//!
//! A call that changes a ticket takes the lock for microseconds, and then waits until the change is on disk: one task, the keeper, commits
//! all queued changes with one sync. No answer contains a change that is not on disk.
//!
//! If the store refuses writes, the change stays in memory, is not answered, and is retried: the caller is told to come back, and finds
//! the result under the ticket's id. A restart restores the older state on disk, which is equally valid.
//!
//! | module | content |
//! |---|---|
//! | `ticket_state` | the state behind the lock |
//! | `keeper` | the task that commits, and ends tickets without a sign of life |
//! | `host_checks` | checks of the hosts that tickets hold |
//! | `upstream` | machines of servers upstream, for tickets of pools that have one |
//! | `upstream_queues` | tickets that want such a machine, and those that have ended |
//! | `numbered` | tickets with numbers as ids, which the server assigns |
//! | `watching` | a watcher that waits for changes |
//! | `waits` | how many clients may wait for their tickets at once |
//! | `ticket_service` | tickets for callers: what a request claims |
//! | `demand` | the demand of each pool, for autoscalers and metrics |

pub(crate) mod demand;
mod host_checks;
mod keeper;
mod numbered;
#[cfg(test)]
mod tests;
pub(crate) mod ticket_service;
mod ticket_state;
mod upstream;
mod upstream_queues;
mod waits;
mod watching;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) use demand::Demands;
use keeper::CommittedChanges;
pub(crate) use keeper::Keeper;
pub(crate) use numbered::NumberedTicket;
use plimsoll_core::{
    domain::{Attempt, AttemptId, FieldViolation, Ticket, TicketClaim, TicketId},
    placement::{
        Pool,
        hosts::HostCounts,
        tickets::{ClockReading, PoolTickets, TicketRefusal, Tickets},
    },
};
use plimsoll_store::{self as store, Store, StoreError};
pub(crate) use ticket_service::TicketService;
use ticket_state::TicketState;
pub(crate) use ticket_state::View;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
pub(crate) use upstream::check_upstream;
pub(crate) use upstream_queues::UpstreamStatus;
pub(crate) use waits::{WaitSlot, WaitSlots};
pub(crate) use watching::Watching;

use crate::{
    access::{Refusal, Reply, identity::Identity},
    pools::PoolRegistry,
    runtime::{clock::Clock, metrics::Metrics},
};

/// All tickets of this server. Cheap to clone; clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct TicketRegistry(Arc<TicketRegistryState>);

#[derive(Debug)]
struct TicketRegistryState {
    state: Mutex<TicketState>,
    /// Wakes the keeper when there are changes to commit.
    wake: Notify,
    /// Wakes the task that checks hosts when a ticket may want one.
    host_wanted: Notify,
    durable: watch::Sender<CommittedChanges>,
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
        let placement = pools.now();
        let tickets = Tickets::new(placement.terms().clone());
        let mut state = TicketState::new(tickets, Arc::clone(&metrics));
        state.placement = Some(placement);
        let shared = Arc::new(TicketRegistryState {
            state: Mutex::new(state),
            wake: Notify::new(),
            host_wanted: Notify::new(),
            durable: watch::Sender::new(CommittedChanges::default()),
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

    /// Restores the stored tickets. `open`: the open attempts; a ticket whose attempt is not among them has ended with it.
    /// Errors: the store cannot be read. A single damaged record is logged and skipped.
    pub(crate) async fn resume<'a>(
        &self,
        open: impl IntoIterator<Item = &'a Attempt>,
    ) -> Result<(), StoreError> {
        let mut kept = Vec::new();
        let loaded = store::load::<Ticket>(&self.0.store, |ticket| kept.push(ticket)).await?;
        let numbers = numbered::read(&self.0.store).await?;
        let upstream = upstream::read(&self.0.store).await?;
        let open: HashMap<&AttemptId, &Attempt> = open.into_iter().map(|open| (&open.id, open)).collect();
        let now = self.0.now();
        let mut state = self.0.state();
        let ended: Vec<(TicketId, AttemptId)> = kept
            .iter()
            .filter_map(|ticket| Some((ticket.id.clone(), ticket.attempt.clone()?)))
            .filter(|(_, attempt)| !open.contains_key(attempt))
            .collect();
        state.restore_machines(&mut kept, upstream);
        state.restore(kept, now);
        state.numbers = numbers;
        self.0.durable.send_modify(|durable| durable.numbers = numbers);
        // attempts without a ticket occupy slots, too: nothing is granted before they are known
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

    /// Opens a ticket, or returns the status of the ticket with this id. The returned state is on disk.
    pub(crate) async fn open(&self, id: &TicketId, claim: TicketClaim) -> Reply<View> {
        let opened = self.0.decide(|state, now| {
            if let Some(ended) = state.ended_as(id, &claim) {
                return Ok(ended);
            }
            if state.was_its_jobs(id, &claim) {
                return Err(TicketRefusal::Taken(id.clone()).into());
            }
            state.take_over(id, &claim, now);
            let known = state.tickets.get(id).map(|ticket| ticket.claim.job_token_ends_unix_ms);
            let changes = state.tickets.open(id, claim, now)?;
            let token_ends = state.tickets.get(id).and_then(|ticket| ticket.claim.job_token_ends_unix_ms);
            match known {
                None => state.opened(id, now),
                Some(known) if known != token_ends => state.changed(id, "renewed"),
                Some(_) => {}
            }
            state.note(changes, now);
            state.view(id, now)
        });
        // also if it is refused: another ticket may have ended for it
        self.0.wake.notify_one();
        self.0.kept(opened).await
    }

    /// Ends a ticket of `owner`. An ended one keeps its result.
    pub(crate) async fn close(&self, id: &TicketId, owner: &str, caller: &Identity) -> Reply<View> {
        let may = |_: &TicketState, claim: &TicketClaim| {
            may_touch(caller, id, claim)?;
            if claim.owner != owner {
                return Err(FieldViolation::new("owner", wrong_owner(owner)).into());
            }
            Ok(())
        };
        self.close_if(id, may).await
    }

    /// Ends a ticket whose last attempt was of this session, and whose slot has no other attempt.
    pub(crate) async fn give_back(&self, id: &TicketId, session: &str, caller: &Identity) -> Reply<View> {
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
        may: impl FnOnce(&TicketState, &TicketClaim) -> Reply<()>,
    ) -> Reply<View> {
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

    /// Watches a ticket; with `holds`, its slot is held while the result lives.
    pub(crate) fn watch(&self, id: &TicketId, holds: bool, caller: &Identity) -> Reply<Watching> {
        let now = self.0.now();
        let mut state = self.0.state();
        let view = state.view(id, now)?;
        may_touch(caller, id, &view.ticket().claim)?;
        state.renew(id, caller);
        state.tickets.watch(id, holds, now);
        let change_receiver = state.change_receiver(id);
        drop(state);
        Ok(Watching::new(Arc::clone(&self.0), view.ticket(), holds, change_receiver))
    }

    /// Records an open attempt that is on disk: in its ticket's slot, else as one without a ticket in its pool.
    pub(crate) fn begin(&self, attempt: &Attempt) {
        if has_place(attempt) && self.0.state().begin(attempt) {
            self.0.wake.notify_one();
        }
    }

    /// Why a ticket holds no slot for an open attempt of a project; `None` if it does.
    pub(crate) fn no_place(&self, id: &TicketId, attempt: &AttemptId, project: &str) -> Option<String> {
        self.0.state().no_place(id, attempt, project)
    }

    /// Records the end of an attempt that is on disk: its ticket ends too, unless it `keeps_ticket` for a retry.
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

    /// Updates which open attempts are silent for longer than slots are kept. Their slots are given to others.
    pub(crate) fn set_silent<'a>(&self, attempts: impl Iterator<Item = (&'a Attempt, bool)>) {
        let now = self.0.now();
        let mut state = self.0.state();
        for (attempt, is_silent) in attempts.filter(|(attempt, _)| has_place(attempt)) {
            state.set_silent(attempt, is_silent, now);
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Number of hosts of a pool by state; `None` if the pool has no hosts.
    pub(crate) fn hosts(&self, pool: &Pool) -> Option<HostCounts> {
        let now = self.0.now();
        (!pool.hosts.names.is_empty()).then(|| self.0.state().hosts.count(&pool.hosts, now.steady_ms))
    }

    /// State of the upstream of a pool; `None` if the pool has no upstream.
    pub(crate) fn upstream(&self, pool: &Pool) -> Option<UpstreamStatus> {
        Some(self.0.state().upstreams.status(pool.upstream.as_ref()?.address.shown()))
    }

    /// Demand by pool.
    pub(crate) fn demand(&self) -> Vec<PoolTickets> {
        self.0.state().tickets.demand()
    }
}

/// Whether `caller` may watch and close this ticket: it opened the ticket, or is an operator for its project. Several callers may share
/// the name of a token issuer; they are told apart by the projects they may see.
fn may_touch(caller: &Identity, id: &TicketId, claim: &TicketClaim) -> Reply<()> {
    let opened = claim.by == caller.stored_name() && caller.sees(&claim.project);
    if opened || caller.operates(&claim.project) {
        return Ok(());
    }
    may_know(caller, id, claim)?;
    Err(Refusal::Forbidden(FieldViolation::new("ticket", format!("was not opened by {}", caller.name))))
}

/// Refuses a caller that may not see the ticket's project, as if the ticket did not exist.
fn may_know(caller: &Identity, id: &TicketId, claim: &TicketClaim) -> Reply<()> {
    if caller.sees(&claim.project) { Ok(()) } else { Err(TicketRefusal::Unknown(id.clone()).into()) }
}

/// Whether an attempt can have a slot: it names its pool.
fn has_place(attempt: &Attempt) -> bool {
    attempt.opening.ticket.is_some() || !attempt.opening.pool.is_empty()
}

fn wrong_owner(owner: &str) -> String {
    if owner.is_empty() {
        return "is empty; send the owner that the answer to OpenTicket named".to_owned();
    }
    "is not the owner of this ticket; send the one that the answer to OpenTicket named".to_owned()
}

impl TicketRegistryState {
    fn state(&self) -> MutexGuard<'_, TicketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> ClockReading {
        let steady = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        ClockReading { unix_ms: self.clock.now_unix_ms(), steady_ms: steady }
    }

    /// Makes a decision under the lock; returns it with the number of the change that must be on disk before it is answered.
    fn decide<T>(&self, decide: impl FnOnce(&mut TicketState, ClockReading) -> Reply<T>) -> (Reply<T>, u64) {
        let now = self.now();
        let mut state = self.state();
        let began = Instant::now();
        let decided = decide(&mut state, now);
        self.metrics.ticket_decision_seconds.observe(began.elapsed().as_secs_f64());
        (decided, state.changes())
    }

    /// Waits until the change with the number `upto` is on disk; then returns the decision.
    async fn kept<T>(&self, (decided, upto): (Reply<T>, u64)) -> Reply<T> {
        if let Ok(_decided) = &decided {
            self.wake.notify_one();
            self.durable(upto).await?;
        }
        decided
    }

    /// Waits until all changes up to this one are on the disk.
    async fn durable(&self, upto: u64) -> Reply<()> {
        let mut durable = self.durable.subscribe();
        loop {
            match durable.borrow_and_update().has(upto) {
                Some(Ok(())) => return Ok(()),
                Some(Err(reason)) => return Err(Refusal::TicketUnwritable(reason.to_string())),
                None => {}
            }
            durable.changed().await.map_err(|_gone| Refusal::Stopping)?;
        }
    }
}
