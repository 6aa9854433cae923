//! An open ticket, and how it is added to and removed from the counts and queues.

use std::collections::BTreeSet;

use super::{
    ClockReading, LimitKey, Tickets, claim,
    class::{ClassKey, TicketClass},
    presence::{self, TicketPresence},
};
use crate::domain::{Ticket, TicketId};

#[derive(Debug, Clone)]
pub(super) struct OpenTicket {
    pub(super) ticket: Ticket,
    /// Indexes of the limits that the ticket counts against; the owner's is last.
    pub(super) counts: Vec<usize>,
    pub(super) presence: TicketPresence,
    /// When the ticket expires, by the monotonic clock in milliseconds; [`presence::NEVER`] while a client is connected or an attempt runs.
    pub(super) until_ms: u64,
}

#[derive(Debug)]
pub(super) struct OwnerState {
    pub(super) open_tickets: usize,
    /// Whether the owner is below its limit, as it was last recorded in its classes.
    pub(super) is_open: bool,
    /// Classes in which the owner has waiting tickets.
    pub(super) classes: BTreeSet<usize>,
}

impl OwnerState {
    fn new(is_open: bool) -> Self {
        Self { open_tickets: 0, is_open, classes: BTreeSet::new() }
    }
}

/// How long a job's ticket outlives its token: a watch ends with its token, and a client whose token was renewed watches again at once.
const RECONNECT_WITHIN_MS: u64 = 30_000;

impl OpenTicket {
    /// Whether the ticket stays open until its client closes it: a client of Resalloc that has asked for it, and is no job.
    pub(super) fn is_kept_for_client(&self) -> bool {
        self.ticket.collected == Some(true) && self.ticket.claim.job_token_ends_unix_ms.is_none()
    }

    /// When the ticket ends without a sign of life for `after_ms`, by the monotonic clock in milliseconds: earlier if its job's token ends.
    pub(super) fn ends_within(&self, after_ms: u64, now: ClockReading) -> u64 {
        let of_token = self.ticket.claim.job_token_ends_unix_ms;
        let left_ms = of_token.map(|ends| ends.saturating_sub(now.unix_ms).max(RECONNECT_WITHIN_MS));
        now.steady_ms.saturating_add(left_ms.unwrap_or(u64::MAX).min(after_ms))
    }
}

impl Tickets {
    /// Adds a ticket that holds a slot or waits for one.
    pub(super) fn insert(&mut self, ticket: Ticket, now: ClockReading) {
        let counters: Vec<LimitKey> = claim::scopes_with_owner(&ticket.claim).collect();
        let counts: Vec<usize> =
            counters.into_iter().map(|counter| self.counts.index_for(counter, &self.terms.limits)).collect();
        self.counts.add(&counts, &ticket);
        let Some((owner_at, places)) = counts.split_last().map(|(owner, places)| (*owner, places)) else {
            return;
        };
        let is_open = self.counts.free_slots_of(owner_at) > 0;
        let owner = self.owners.entry(owner_at).or_insert_with(|| OwnerState::new(is_open));
        owner.open_tickets += 1;
        if ticket.granted_unix_ms.is_none() {
            let sort = ClassKey { counts: places.to_vec(), raised: ticket.claim.raised };
            let at = match self.sorts.get(&sort) {
                Some(at) => *at,
                None => self.classes.insert(TicketClass::new(sort.clone())),
            };
            self.sorts.insert(sort, at);
            owner.classes.insert(at);
            if let Some(class) = self.classes.get_mut(at) {
                class.push(owner_at, (ticket.round, ticket.number), ticket.id.clone(), is_open);
            }
            self.update_order(at);
        }
        if ticket.claim.job_token_ends_unix_ms.is_some() {
            *self.of_jobs.entry(ticket.claim.by.clone()).or_default() += 1;
        }
        let id = ticket.id.clone();
        let entry =
            OpenTicket { ticket, counts, presence: TicketPresence::default(), until_ms: presence::NEVER };
        self.known.insert(id.clone(), entry);
        self.start_timeout(&id, now);
        // after a restart, tickets that hold slots may be added after tickets that wait
        self.update_owner_limit(owner_at);
    }

    /// Removes and returns a ticket; `None` if it is not open.
    pub(super) fn remove(&mut self, id: &TicketId) -> Option<Ticket> {
        let OpenTicket { ticket, counts, until_ms, .. } = self.known.remove(id)?;
        self.deadlines.remove(&(until_ms, id.clone()));
        if ticket.claim.job_token_ends_unix_ms.is_some()
            && let Some(open) = self.of_jobs.get_mut(&ticket.claim.by)
        {
            *open -= 1;
            if *open == 0 {
                self.of_jobs.remove(&ticket.claim.by);
            }
        }
        let owner_at = *counts.last()?;
        let waits = ticket.granted_unix_ms.is_none();
        if waits && let Some(class) = self.class_of(&counts, ticket.claim.raised) {
            if let Some(class) = self.classes.get_mut(class) {
                class.remove(owner_at, (ticket.round, ticket.number));
            }
            self.update_order(class);
            self.remove_empty_owner(class, owner_at);
        }
        self.counts.subtract(&counts, &ticket, true);
        if let Some(owner) = self.owners.get_mut(&owner_at) {
            owner.open_tickets -= 1;
            if owner.open_tickets == 0 {
                self.owners.remove(&owner_at);
            }
        }
        self.update_owner_limit(owner_at);
        Some(ticket)
    }
}
