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

/// An upstream, as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UpstreamStatus {
    /// Without credentials.
    pub(crate) address: String,
    /// Why the last call got no answer; empty if it got one.
    pub(crate) problem: String,
    /// Tickets there.
    pub(crate) counts: LedgerCounts,
}

/// The tickets of all upstreams, by address.
#[derive(Debug, Default)]
pub(super) struct UpstreamQueues {
    pub(super) queues: HashMap<String, UpstreamQueue>,
    /// Tickets that have one upstream, or for which one is being taken: their number, and the address.
    pub(super) taken: HashMap<TicketId, (u64, String)>,
    /// There may be an upstream without a worker.
    pub(super) changed: Arc<Notify>,
}

/// The tickets of one upstream.
#[derive(Debug, Default)]
pub(super) struct UpstreamQueue {
    /// They have their slot, and nothing upstream; in the order of opening.
    pub(super) wanted: BTreeSet<(u64, TicketId)>,
    /// They have ended, and may have something upstream.
    pub(super) ended: Vec<TicketHolder>,
    /// There is something for the worker to do.
    pub(super) wake: Arc<Notify>,
    /// What was on disk at the start; the worker takes it.
    pub(super) server: Option<UpstreamServer>,
    pub(super) tickets: Vec<UpstreamTicket>,
    pub(super) status: UpstreamStatus,
}

impl UpstreamQueues {
    pub(super) fn of(&mut self, address: &str) -> &mut UpstreamQueue {
        if !self.queues.contains_key(address) {
            self.changed.notify_one();
        }
        self.queues.entry(address.to_owned()).or_default()
    }

    /// Whether a ticket has something upstream.
    pub(super) fn has(&self, ticket: &Ticket) -> bool {
        self.taken.get(&ticket.id).is_some_and(|(number, _)| *number == ticket.number)
    }

    /// A ticket wants a machine.
    pub(super) fn want(&mut self, address: &str, ticket: &Ticket) {
        let queue = self.of(address);
        queue.wanted.insert((ticket.number, ticket.id.clone()));
        queue.wake.notify_one();
    }

    /// A ticket wants no machine.
    pub(super) fn want_none(&mut self, ticket: &Ticket) {
        let turn = (ticket.number, ticket.id.clone());
        for queue in self.queues.values_mut() {
            queue.wanted.remove(&turn);
        }
    }

    /// A ticket has ended.
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

    /// All tickets that want a machine; afterwards none does.
    pub(super) fn take_wanted(&mut self) -> Vec<TicketId> {
        let wanted = self.queues.values_mut().flat_map(|queue| std::mem::take(&mut queue.wanted));
        wanted.map(|(_, id)| id).collect()
    }

    /// The file of pools has changed.
    pub(super) fn wake_all(&self) {
        self.changed.notify_one();
        self.queues.values().for_each(|queue| queue.wake.notify_one());
    }

    /// An upstream, as it is shown.
    pub(super) fn status(&self, address: &str) -> UpstreamStatus {
        let known = self.queues.get(address).map(|queue| queue.status.clone()).unwrap_or_default();
        UpstreamStatus { address: address.to_owned(), ..known }
    }

    /// Whether a ticket wants a machine.
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
