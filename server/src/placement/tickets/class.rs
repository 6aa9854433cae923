//! Tickets that need the same places: a line for each owner, and the owners that are next.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{TicketId, claim::Counter};

/// The turn of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::placement) struct Order {
    /// The lowest is next.
    pub(in crate::placement) round: u64,
    /// Who came first is next within a round.
    pub(in crate::placement) number: u64,
}

/// Waiting tickets that need the same places.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) places: Vec<Counter>,
    lines: HashMap<String, Line>,
    /// First ticket of each owner that is below its limit.
    next: BTreeSet<(Order, String)>,
    /// Grants to others since this class had one, while somebody waited here.
    pub(super) passed: u32,
}

#[derive(Debug, Default)]
struct Line {
    tickets: BTreeMap<Order, TicketId>,
    is_open: bool,
}

impl Class {
    pub(super) fn new(places: Vec<Counter>) -> Self {
        Self { places, lines: HashMap::new(), next: BTreeSet::new(), passed: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The turn of the ticket that is next, of owners below their limit.
    pub(super) fn first(&self) -> Option<Order> {
        self.next.first().map(|(order, _)| *order)
    }

    pub(super) fn push(&mut self, owner: &str, order: Order, id: TicketId, is_open: bool) {
        self.change(owner, |line| {
            line.is_open = is_open;
            line.tickets.insert(order, id);
        });
    }

    pub(super) fn remove(&mut self, owner: &str, order: Order) {
        self.change(owner, |line| drop(line.tickets.remove(&order)));
    }

    /// Takes the next ticket out.
    pub(super) fn pop(&mut self) -> Option<(Order, TicketId)> {
        let (order, owner) = self.next.first().cloned()?;
        let mut id = None;
        self.change(&owner, |line| id = line.tickets.remove(&order));
        id.map(|id| (order, id))
    }

    /// Whether an owner is below its limit.
    pub(super) fn set_open(&mut self, owner: &str, is_open: bool) {
        if self.lines.get(owner).is_some_and(|line| line.is_open != is_open) {
            self.change(owner, |line| line.is_open = is_open);
        }
    }

    /// Tickets before this turn.
    pub(super) fn before(&self, order: Order) -> usize {
        self.lines.values().map(|line| line.tickets.range(..order).count()).sum()
    }

    /// Changes an owner's line, and keeps `next` true.
    fn change(&mut self, owner: &str, change: impl FnOnce(&mut Line)) {
        let line = self.lines.entry(owner.to_owned()).or_default();
        let first = |line: &Line| line.tickets.keys().next().copied().filter(|_| line.is_open);
        let before = first(line);
        change(line);
        let (after, is_empty) = (first(line), line.tickets.is_empty());
        if is_empty {
            self.lines.remove(owner);
        }
        if before != after {
            before.map(|order| self.next.remove(&(order, owner.to_owned())));
            after.map(|order| self.next.insert((order, owner.to_owned())));
        }
    }
}
