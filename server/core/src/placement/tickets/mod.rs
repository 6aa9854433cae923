//! Tickets: places in pools, held by attempts and shared fairly among owners. A state machine: events and the time come in,
//! changes go out; the caller stores them.
//!
//! - **Limits** in all, and for each owner, pool, architecture, kind and tag hold at once, at every moment.
//! - **Fair among owners**: a ticket gets a round when it is opened, one after the owner's last that waits for its pool and after
//!   the round that is being granted there. The lowest round is granted first, so that the first ticket of an owner is not behind
//!   the thousandth of another, and a later ticket is behind those that wait. (The idea is that of start-time fair queueing:
//!   Goyal, Vin, Cheng, 1996.) A raised ticket goes one round earlier: an owner's first belongs to the round that is being
//!   granted, and its thousandth is as far behind as other thousandths are.
//! - **No ticket waits for ever**: tickets that need several places at once could be passed over for ever by those that need one. After
//!   [`PATIENCE`] later tickets that took what it needs, what a class of tickets needs is kept free for it until it has it.
//! - **Who runs in a pool without a ticket** takes a place there as well: it is not held back, and no ticket is granted what it has.
//!   All other limits are those of tickets alone.
//! - **Early ends give the place back** at once: an end, a close, or silence for longer than its time.
//! - **Nothing looks at all tickets**, and few things at all classes of them (those that need the same places, at most [`CLASSES`]): an
//!   event costs what the limits are, the classes that it passes over or finds held up elsewhere, and the logarithm of the tickets.
//!
//! | module | |
//! |---|---|
//! | `claim` | the limits, and which of them count a ticket |
//! | `count` | who holds and who waits under each limit |
//! | `change` | what happens to tickets, and why something does not |
//! | `open_ticket` | a ticket from its opening to its end |
//! | `class` | tickets that need the same places, in lines by owner |
//! | `grant` | who is next |
//! | `class_queue` | the classes by their turns, and which of them wait for what |
//! | `terms` | what the operator sets |
//! | `presence` | how long a ticket lives without a message from its caller or agent |
//! | `status` | the status of a ticket: its position, when its turn comes, what it waits for |
//! | `ranks` | a sorted set that counts |

mod change;
mod claim;
mod class;
mod class_queue;
mod count;
mod fixtures;
mod grant;
mod open_ticket;
mod presence;
mod ranks;
mod status;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

pub use change::{ClockReading, TicketChange, TicketEnd, TicketRefusal};
pub use claim::{LimitKey, TicketLimits};
use class::{ClassKey, OwnerIndex, TicketClass};
use class_queue::ClassQueue;
pub use count::Amount;
use count::LimitCounts;
pub use grant::PATIENCE;
use open_ticket::{OpenTicket, OwnerState};
pub use presence::{TicketPresence, TicketTimeouts};
use slab::Slab;
pub use status::{PoolDemand, TicketStatus};
pub use terms::TicketTerms;

use crate::domain::{Ticket, TicketClaim, TicketId};

/// Sorts of tickets that may wait at once: pools times kinds times tags. In the worst of cases a decision looks at each of them.
pub const CLASSES: usize = 4096;

/// Open tickets of an owner for each one that it leaves to others: one owner alone takes four fifths of what may be open.
const TO_ONE_LEFT: usize = 4;

/// All open tickets.
#[derive(Debug)]
pub struct Tickets {
    terms: TicketTerms,
    known: HashMap<TicketId, OpenTicket>,
    counts: LimitCounts,
    classes: Slab<TicketClass>,
    sorts: HashMap<ClassKey, usize>,
    lineup: ClassQueue,
    owners: HashMap<OwnerIndex, OwnerState>,
    deadlines: BTreeSet<(u64, TicketId)>,
    /// The highest round that was granted.
    round: u64,
    next: u64,
}

impl Tickets {
    /// None.
    pub fn new(terms: TicketTerms) -> Self {
        Self {
            terms,
            known: HashMap::new(),
            counts: LimitCounts::default(),
            classes: Slab::new(),
            sorts: HashMap::new(),
            lineup: ClassQueue::default(),
            owners: HashMap::new(),
            deadlines: BTreeSet::new(),
            round: 0,
            next: 0,
        }
    }

    /// Takes up what was open before a restart, in any order, without clients yet. Those that held a place hold it, whatever the
    /// limits are now.
    /// The caller then says which attempts run without a ticket, and grants.
    pub fn restore(&mut self, tickets: impl IntoIterator<Item = Ticket>, now: ClockReading) {
        let mut tickets: Vec<Ticket> = tickets.into_iter().collect();
        // the first that waits for a pool says which round it is at, else who comes now would be put before all that wait
        tickets.sort_unstable_by_key(|ticket| (ticket.round, ticket.number));
        for ticket in tickets {
            self.next = self.next.max(ticket.number + 1);
            self.insert(ticket, now);
        }
        let pools = self.counts.iter().filter(|count| matches!(count.what, LimitKey::Pool(_)));
        self.round = pools.map(|count| count.round).fold(self.round, u64::max);
    }

    /// Opens a ticket; that counts as a sign of life. The same question again is the same ticket.
    ///
    /// # Errors
    /// Another question has the id, too many are open, or it could never be granted.
    pub fn open(
        &mut self,
        id: &TicketId,
        claim: TicketClaim,
        now: ClockReading,
    ) -> Result<Vec<TicketChange>, TicketRefusal> {
        if let Some(open) = self.known.get(id) {
            if !open.ticket.claim.is_same(&claim) {
                return Err(TicketRefusal::Taken(id.clone()));
            }
            self.ask(id, now);
            return Ok(Vec::new());
        }
        if self.known.len() >= self.terms.most_open {
            return Err(TicketRefusal::Full(self.terms.most_open));
        }
        if let Some(never) = claim::counters(&claim).find(|counter| self.terms.limits.of(counter) == Some(0))
        {
            return Err(TicketRefusal::Never(never.to_string()));
        }
        let of_owner = self.owner_of(&claim).map_or(0, |(_, owner)| owner.open);
        if of_owner > 0 && self.terms.most_open.saturating_sub(self.known.len()) <= of_owner / TO_ONE_LEFT {
            return Err(TicketRefusal::Crowded { of_owner, most: self.terms.most_open });
        }
        if self.classes.len() >= CLASSES && !self.has_class_for(&claim) {
            return Err(TicketRefusal::Mixed(CLASSES));
        }
        let ticket = Ticket {
            id: id.clone(),
            round: self.round_for(&claim),
            claim,
            number: self.next,
            opened_unix_ms: now.unix_ms,
            granted_unix_ms: None,
            attempt: None,
        };
        self.next += 1;
        self.insert(ticket, now);
        Ok(self.grant(now))
    }

    /// Ends a ticket; its place goes to who is next.
    ///
    /// # Errors
    /// It is not open.
    pub fn close(&mut self, id: &TicketId, now: ClockReading) -> Result<Vec<TicketChange>, TicketRefusal> {
        let ticket = self.remove(id).ok_or_else(|| TicketRefusal::Unknown(id.clone()))?;
        let mut changes = vec![TicketChange::Ended(Box::new(ticket), TicketEnd::Closed)];
        changes.extend(self.grant(now));
        Ok(changes)
    }

    /// Ends the tickets whose build and clients were silent for too long, at most `most` of them.
    pub fn expire(&mut self, most: usize, now: ClockReading) -> Vec<TicketChange> {
        let mut changes = Vec::new();
        while changes.len() < most {
            let due = self.deadlines.first().filter(|(until, _)| *until < now.steady_ms);
            let Some((_, id)) = due.cloned() else { break };
            let Some(ticket) = self.remove(&id) else { break };
            changes.push(TicketChange::Ended(Box::new(ticket), TicketEnd::Expired));
        }
        if !changes.is_empty() {
            changes.extend(self.grant(now));
        }
        changes
    }

    /// Puts other terms into force. Who holds a place keeps it.
    pub fn limit(&mut self, terms: TicketTerms, now: ClockReading) -> Vec<TicketChange> {
        self.terms = terms;
        self.counts.limit(&self.terms.limits);
        let owners: Vec<OwnerIndex> = self.owners.keys().copied().collect();
        for owner in owners {
            self.settle_owner(owner);
        }
        self.grant(now)
    }

    /// An open ticket.
    pub fn get(&self, id: &TicketId) -> Option<&Ticket> {
        self.known.get(id).map(|entry| &entry.ticket)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What is in force.
    pub fn terms(&self) -> &TicketTerms {
        &self.terms
    }

    /// Places that are held.
    pub fn held(&self, counter: &LimitKey) -> u32 {
        self.counts.of(counter).map_or(0, |count| count.held.places)
    }
}
