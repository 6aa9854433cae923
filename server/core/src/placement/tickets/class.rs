//! A class: waiting tickets that need the same slots, with a queue for each owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ranks::QueueRank;
use crate::domain::TicketId;

/// Order of a ticket: round and number. The ticket with the lowest order is next.
pub(super) type QueueOrder = QueueRank;

/// Index of an owner's count.
pub(super) type OwnerIndex = usize;

/// Identifies a class: the counts that its tickets belong to, without those of owners, and whether the tickets are raised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    pub(super) counts: Vec<usize>,
    pub(super) raised: bool,
}

/// Waiting tickets that need the same slots.
#[derive(Debug)]
pub(super) struct TicketClass {
    pub(super) key: ClassKey,
    queues: HashMap<OwnerIndex, OwnerQueue>,
    /// Order of the first ticket of each owner that is below its limit.
    next: BTreeSet<(QueueOrder, OwnerIndex)>,
    /// Number of later tickets that got slots which this class needs, since the last grant in this class.
    pub(super) passed_over: u32,
}

#[derive(Debug, Default)]
struct OwnerQueue {
    tickets: BTreeMap<QueueOrder, TicketId>,
    is_open: bool,
}

impl TicketClass {
    pub(super) fn new(sort: ClassKey) -> Self {
        Self { key: sort, queues: HashMap::new(), next: BTreeSet::new(), passed_over: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether an owner has a ticket waiting in this class.
    pub(super) fn has(&self, owner: OwnerIndex) -> bool {
        self.queues.contains_key(&owner)
    }

    /// Order of the next ticket, among those of owners below their limit.
    pub(super) fn first(&self) -> Option<QueueOrder> {
        self.next.first().map(|(order, _)| *order)
    }

    /// Order of the last ticket of an owner in this class.
    pub(super) fn last_of(&self, owner: OwnerIndex) -> Option<QueueOrder> {
        self.queues.get(&owner)?.tickets.keys().next_back().copied()
    }

    pub(super) fn push(&mut self, owner: OwnerIndex, order: QueueOrder, id: TicketId, is_open: bool) {
        self.change(owner, |line| {
            line.is_open = is_open;
            line.tickets.insert(order, id);
        });
    }

    pub(super) fn remove(&mut self, owner: OwnerIndex, order: QueueOrder) {
        self.change(owner, |line| drop(line.tickets.remove(&order)));
    }

    /// Removes and returns the next ticket.
    pub(super) fn pop(&mut self) -> Option<TicketId> {
        let (order, owner) = *self.next.first()?;
        let mut id = None;
        self.change(owner, |line| id = line.tickets.remove(&order));
        id
    }

    /// Records whether an owner is below its limit, so that its tickets can be granted.
    pub(super) fn set_open(&mut self, owner: OwnerIndex, is_open: bool) {
        if self.queues.get(&owner).is_some_and(|line| line.is_open != is_open) {
            self.change(owner, |line| line.is_open = is_open);
        }
    }

    /// Changes an owner's queue, and updates `next`.
    fn change(&mut self, owner: OwnerIndex, change: impl FnOnce(&mut OwnerQueue)) {
        let line = self.queues.entry(owner).or_default();
        let first = |line: &OwnerQueue| line.tickets.keys().next().copied().filter(|_| line.is_open);
        let before = first(line);
        change(line);
        let (after, is_empty) = (first(line), line.tickets.is_empty());
        if is_empty {
            self.queues.remove(&owner);
        }
        if before != after {
            before.map(|order| self.next.remove(&(order, owner)));
            after.map(|order| self.next.insert((order, owner)));
        }
    }
}
