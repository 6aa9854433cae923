//! Queues of the servers upstream: tickets that want a machine, and those that have ended and may be closed there.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use plimsoll_core::{
    domain::{Ticket, TicketId, UpstreamServer, UpstreamTicket},
    placement::upstream::{LedgerCounts, TicketHolder},
};
use tokio::sync::Notify;

/// The state of an upstream, for callers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UpstreamStatus {
    /// Address of the upstream, without credentials.
    pub(crate) address: String,
    /// Why the last call got no answer; empty if it got one.
    pub(crate) problem: String,
    /// Number of tickets upstream, by state.
    pub(crate) counts: LedgerCounts,
}

/// The tickets of all upstreams, by address.
#[derive(Debug, Default)]
pub(super) struct UpstreamQueues {
    pub(super) queues: HashMap<String, UpstreamQueue>,
    /// Tickets here that have a ticket upstream, or for which one is being taken: the number of the ticket here, and the upstream's
    /// address.
    pub(super) taken: HashMap<TicketId, (u64, String)>,
    /// There may be an upstream without a worker.
    pub(super) changed: Arc<Notify>,
}

/// The tickets of one upstream.
#[derive(Debug, Default)]
pub(super) struct UpstreamQueue {
    /// Tickets that have a slot and no ticket upstream yet, in the order of opening.
    pub(super) wanted: BTreeSet<(u64, TicketId)>,
    /// How many calls of `takeTicket` for a wanted ticket the upstream answered with a fault: other tickets go first.
    take_faults: HashMap<(u64, TicketId), u32>,
    /// Tickets that have ended, and may still have a ticket upstream.
    pub(super) ended: Vec<TicketHolder>,
    /// Wakes the worker when there is something to do.
    pub(super) wake: Arc<Notify>,
    /// The record that was on disk at the start, until the worker takes it.
    pub(super) server: Option<UpstreamServer>,
    pub(super) tickets: Vec<UpstreamTicket>,
    pub(super) status: UpstreamStatus,
}

impl UpstreamQueue {
    /// Removes the next ticket from the queue: the oldest one with the fewest faults.
    pub(super) fn take_next_wanted(&mut self) -> Option<(u64, TicketId)> {
        let Self { wanted, take_faults, .. } = self;
        take_faults.retain(|turn, _faults| wanted.contains(turn));
        let faults = |turn: &(u64, TicketId)| take_faults.get(turn).copied().unwrap_or_default();
        let next = wanted.iter().min_by_key(|turn| (faults(turn), turn.0))?.clone();
        wanted.take(&next)
    }
}

impl UpstreamQueues {
    /// Notes that the upstream answered a call of `takeTicket` for this ticket with a fault.
    pub(super) fn note_take_fault(&mut self, address: &str, (id, number): &TicketHolder) {
        *self.of(address).take_faults.entry((*number, id.clone())).or_default() += 1;
    }

    pub(super) fn of(&mut self, address: &str) -> &mut UpstreamQueue {
        if !self.queues.contains_key(address) {
            self.changed.notify_one();
        }
        self.queues.entry(address.to_owned()).or_default()
    }

    /// Whether a ticket has a ticket upstream, or one is being taken for it.
    pub(super) fn has(&self, ticket: &Ticket) -> bool {
        self.taken.get(&ticket.id).is_some_and(|(number, _)| *number == ticket.number)
    }

    /// Queues a ticket for a machine.
    pub(super) fn want(&mut self, address: &str, ticket: &Ticket) {
        let queue = self.of(address);
        queue.wanted.insert((ticket.number, ticket.id.clone()));
        queue.wake.notify_one();
    }

    /// Removes a ticket from the queues for machines.
    pub(super) fn want_none(&mut self, ticket: &Ticket) {
        let turn = (ticket.number, ticket.id.clone());
        for queue in self.queues.values_mut() {
            queue.wanted.remove(&turn);
        }
    }

    /// Notes that a ticket has ended, so that its ticket upstream is closed.
    pub(super) fn ended(&mut self, ticket: &Ticket) {
        if !self.has(ticket) {
            return;
        }
        if let Some((number, address)) = self.taken.remove(&ticket.id) {
            let queue = self.of(&address);
            queue.ended.push((ticket.id.clone(), number));
            queue.wake.notify_one();
        }
    }

    /// Empties the queues for machines; returns the tickets that were in them.
    pub(super) fn take_wanted(&mut self) -> Vec<TicketId> {
        let wanted = self.queues.values_mut().flat_map(|queue| std::mem::take(&mut queue.wanted));
        wanted.map(|(_, id)| id).collect()
    }

    /// Wakes all workers, because the pools file has changed.
    pub(super) fn wake_all(&self) {
        self.changed.notify_one();
        self.queues.values().for_each(|queue| queue.wake.notify_one());
    }

    /// The state of an upstream, for callers.
    pub(super) fn status(&self, address: &str) -> UpstreamStatus {
        let known = self.queues.get(address).map(|queue| queue.status.clone()).unwrap_or_default();
        UpstreamStatus { address: address.to_owned(), ..known }
    }

    /// Whether any ticket wants a machine of this upstream.
    pub(super) fn wants(&self, address: &str) -> bool {
        self.queues.get(address).is_some_and(|queue| !queue.wanted.is_empty())
    }

    /// Nothing is upstream for this ticket any more.
    pub(super) fn give_up(&mut self, (id, number): &TicketHolder) {
        if self.taken.get(id).is_some_and(|(taken, _)| taken == number) {
            self.taken.remove(id);
        }
    }

    /// An upstream that no pool names, without tickets.
    pub(super) fn forget(&mut self, address: &str) {
        self.queues.remove(address);
    }
}
