//! The task that writes tickets to disk, ends silent ones, and applies a changed file of pools.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::{Ticket, TicketId, TicketNumbers};
use plimsoll_store::{self as store, BATCH_OPERATIONS, Batch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{TicketRegistryState, host_checks, upstream};

/// Interval for ending silent tickets, and for repeating failed writes.
const TICK: Duration = Duration::from_secs(1);

/// Tickets ended for silence while the lock is held once.
const MAX_EXPIRED_PER_LOCK: usize = 256;

/// Most tickets in one commit: each has one part of at most 4 KiB, so that they fit into the commit's bytes.
const MAX_TICKETS_PER_COMMIT: usize = BATCH_OPERATIONS / 4;

/// Which changes are on disk, and the error of the last commit.
#[derive(Debug, Default)]
pub(super) struct CommittedChanges {
    /// Number of the last change on disk.
    last_committed: u64,
    /// The last number that was given out as the id of a ticket.
    pub(super) numbers: TicketNumbers,
    /// A later change up to which a commit failed, and why.
    failed: Option<(u64, Arc<str>)>,
}

impl CommittedChanges {
    /// Whether a change is on disk, or why not; `None` if that is not known yet.
    pub(super) fn has(&self, change: u64) -> Option<Result<(), Arc<str>>> {
        if self.last_committed >= change {
            return Some(Ok(()));
        }
        let failed = self.failed.as_ref().filter(|(last_committed, _)| *last_committed >= change);
        failed.map(|(_, reason)| Err(Arc::clone(reason)))
    }
}

impl TicketRegistryState {
    /// Applies a changed file of pools.
    pub(super) fn apply_pools(&self) {
        let placement = self.pools.now();
        let mut state = self.state();
        if state.placement.as_ref().is_some_and(|known| Arc::ptr_eq(known, &placement)) {
            return;
        }
        let (now, terms) = (self.now(), placement.terms().clone());
        state.placement = Some(placement);
        state.is_list_new = true;
        state.apply_on_host(now);
        state.upstreams.wake_all();
        let changes = state.tickets.limit(terms, now);
        state.note(changes, now);
    }
}

/// The task. Without it no request is answered.
#[derive(Debug)]
pub(crate) struct Keeper(pub(super) Arc<TicketRegistryState>);

impl Keeper {
    /// Runs until `stop`, then writes what is left.
    pub(crate) async fn run(self, stop: CancellationToken) {
        tokio::join!(
            host_checks::run(Arc::clone(&self.0), stop.clone()),
            upstream::run(Arc::clone(&self.0), stop.clone()),
            self.keep(stop)
        );
    }

    async fn keep(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stopping = tokio::select! {
                () = self.0.wake.notified() => false,
                _ = tick.tick() => {
                    self.apply_pools_and_expire();
                    false
                }
                () = stop.cancelled() => true,
            };
            self.commit().await;
            self.0.host_wanted.notify_one();
            if stopping {
                return;
            }
        }
    }

    /// Applies a changed file of pools, and ends silent tickets. Releases the lock between steps.
    pub(super) fn apply_pools_and_expire(&self) {
        self.0.apply_pools();
        let now = self.0.now();
        loop {
            let mut state = self.0.state();
            let changes = state.tickets.expire(MAX_EXPIRED_PER_LOCK, now);
            if changes.is_empty() {
                return;
            }
            state.note(changes, now);
        }
    }

    /// Writes all changes.
    pub(super) async fn commit(&self) {
        let (dirty, last_committed, numbers) = {
            let mut state = self.0.state();
            (state.take_dirty(), state.changes(), state.numbers)
        };
        let given_out = (self.0.durable.borrow().numbers != numbers).then_some(numbers);
        // numbers may be given out without a ticket
        let none = given_out.filter(|_| dirty.is_empty()).map(|_| &[][..]);
        for (n, some) in none.into_iter().chain(dirty.chunks(MAX_TICKETS_PER_COMMIT)).enumerate() {
            if let Err(reason) = self.write(some, given_out.filter(|_| n == 0)).await {
                tracing::error!(
                    reason,
                    tickets = dirty.len(),
                    "could not put tickets on the disk; they are tried again"
                );
                let left = dirty.iter().skip(n * MAX_TICKETS_PER_COMMIT).map(|(id, _)| id.clone());
                self.0.state().put_back(left);
                self.0.durable.send_modify(|durable| durable.failed = Some((last_committed, reason.into())));
                return;
            }
        }
        self.0.durable.send_if_modified(|durable| {
            let is_news = last_committed > durable.last_committed;
            if is_news {
                *durable = CommittedChanges { last_committed, numbers, failed: None };
            }
            is_news
        });
    }

    async fn write(
        &self,
        some: &[(TicketId, Option<Ticket>)],
        numbers: Option<TicketNumbers>,
    ) -> Result<(), String> {
        let mut batch = Batch::default();
        if let Some(numbers) = numbers {
            store::put(&mut batch, &numbers).map_err(|error| error.to_string())?;
        }
        for (id, ticket) in some {
            match ticket {
                Some(ticket) => store::put(&mut batch, ticket).map_err(|error| error.to_string())?,
                None => store::delete_ticket(&mut batch, id),
            }
        }
        self.0.store.commit(batch).await.map(drop).map_err(|error| error.to_string())
    }
}
