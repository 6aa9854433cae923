//! A ticket while it is open: where it is counted and lined up from its beginning to its end.

use std::collections::BTreeSet;

use super::{
    ClockReading, LimitKey, Tickets, claim,
    class::{ClassKey, TicketClass},
    presence::{self, TicketPresence},
};
use crate::domain::{Ticket, TicketId};

/// A ticket while it is open.
#[derive(Debug, Clone)]
pub(super) struct OpenTicket {
    pub(super) ticket: Ticket,
    /// Where it is counted, its owner last.
    pub(super) counts: Vec<usize>,
    pub(super) presence: TicketPresence,
    /// When it expires, by the steady clock; [`presence::NEVER`] while a client or an attempt is there.
    pub(super) until_ms: u64,
}

#[derive(Debug)]
pub(super) struct OwnerState {
    pub(super) open: usize,
    /// It is below its limit, as its classes know.
    pub(super) is_open: bool,
    /// Classes in which it waits.
    pub(super) classes: BTreeSet<usize>,
}

impl OwnerState {
    fn new(is_open: bool) -> Self {
        Self { open: 0, is_open, classes: BTreeSet::new() }
    }
}

impl Tickets {
    /// Takes a ticket in, as one that holds or as one that waits.
    pub(super) fn insert(&mut self, ticket: Ticket, now: ClockReading) {
        let counters: Vec<LimitKey> = claim::counters(&ticket.claim).collect();
        let counts: Vec<usize> =
            counters.into_iter().map(|counter| self.counts.place(counter, &self.terms.limits)).collect();
        self.counts.add(&counts, &ticket);
        let Some((owner_at, places)) = counts.split_last().map(|(owner, places)| (*owner, places)) else {
            return;
        };
        let is_open = self.counts.free(owner_at) > 0;
        let owner = self.owners.entry(owner_at).or_insert_with(|| OwnerState::new(is_open));
        owner.open += 1;
        if ticket.granted_unix_ms.is_none() {
            let sort = ClassKey { places: places.to_vec(), raised: ticket.claim.raised };
            let at = match self.sorts.get(&sort) {
                Some(at) => *at,
                None => self.classes.insert(TicketClass::new(sort.clone())),
            };
            self.sorts.insert(sort, at);
            owner.classes.insert(at);
            if let Some(class) = self.classes.get_mut(at) {
                class.push(owner_at, (ticket.round, ticket.number), ticket.id.clone(), is_open);
            }
            self.reseat(at);
        }
        let id = ticket.id.clone();
        let entry =
            OpenTicket { ticket, counts, presence: TicketPresence::default(), until_ms: presence::NEVER };
        self.known.insert(id.clone(), entry);
        self.rest(&id, now);
        // after a restart those that hold may come behind those that wait
        self.settle_owner(owner_at);
    }

    /// The opposite; gives the ticket, if it is open.
    pub(super) fn remove(&mut self, id: &TicketId) -> Option<Ticket> {
        let OpenTicket { ticket, counts, until_ms, .. } = self.known.remove(id)?;
        self.deadlines.remove(&(until_ms, id.clone()));
        let owner_at = *counts.last()?;
        let waits = ticket.granted_unix_ms.is_none();
        if waits && let Some(class) = self.class_of(&counts, ticket.claim.raised) {
            if let Some(class) = self.classes.get_mut(class) {
                class.remove(owner_at, (ticket.round, ticket.number));
            }
            self.reseat(class);
            self.left(class, owner_at);
        }
        self.counts.take(&counts, &ticket, true);
        if let Some(owner) = self.owners.get_mut(&owner_at) {
            owner.open -= 1;
            if owner.open == 0 {
                self.owners.remove(&owner_at);
            }
        }
        self.settle_owner(owner_at);
        Some(ticket)
    }
}
