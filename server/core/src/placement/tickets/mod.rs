//! Tickets: slots in pools, held by attempts and shared fairly among owners. This is a state machine: its input are events and the time,
//! its output are changes, which the caller stores.
//!
//! - **Limits** hold at every moment: in total, and for each owner, pool, architecture, kind and tag.
//! - **Fair among owners**: a new ticket gets a round, one after the owner's last waiting ticket for its pool, and at least the round that
//!   is being granted there. The lowest round is granted first. So an owner's first ticket does not wait behind another owner's thousandth,
//!   and a later ticket comes after those that wait already. (After start-time fair queueing: Goyal, Vin, Cheng, 1996.) A raised ticket
//!   goes one round earlier: an owner's first raised ticket joins the round being granted, and the owner's thousandth is as far behind as
//!   other owners' thousandths.
//! - **No starvation**: tickets that need several slots at once could be passed over for ever by tickets that need one. After [`MAX_PASSED_OVER`]
//!   later tickets took slots that a class needs, slots are reserved for that class until it can be granted.
//! - **Attempts without a ticket** occupy slots of their pool too: they are not held back, and their slots are not granted. They count for
//!   pools only, not for other limits.
//! - **Early ends free the slot** at once: an end, a close, or silence beyond the time limit.
//! - **Cost**: no event examines all tickets. It examines the limits, the classes that it passes over or finds blocked (a class is the
//!   tickets that need the same slots; at most [`CLASSES`]), and takes time logarithmic in the tickets.
//!
//! | module | content |
//! |---|---|
//! | `claim` | the limits, and which of them apply to a ticket |
//! | `count` | held and waiting tickets under each limit |
//! | `change` | changes of tickets, and reasons for refusals |
//! | `open_ticket` | a ticket from its opening to its end |
//! | `class` | tickets that need the same slots, with a queue for each owner |
//! | `grant` | which ticket is next |
//! | `class_queue` | the classes in order, and which limits block them |
//! | `terms` | the operator's settings |
//! | `presence` | how long a ticket lives without a message from its caller or agent |
//! | `status` | a ticket's position, its expected wait and what it waits for |

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
use count::LimitCounts;
pub use count::TicketAmount;
pub use grant::MAX_PASSED_OVER;
use open_ticket::{OpenTicket, OwnerState};
pub use presence::{TicketPresence, TicketTimeouts};
use slab::Slab;
pub use status::{PoolTickets, TicketStatus};
pub use terms::TicketTerms;

use crate::domain::{Ticket, TicketClaim, TicketId, UpstreamMachine};

/// Most combinations of pool, kind and tags with waiting tickets. In the worst case a decision examines all of them.
pub const CLASSES: usize = 4096;

/// Most open tickets of one CI job or pod: each is for one build, and a job runs some commands at once.
pub const MAX_OPEN_OF_JOB: usize = 16;

/// An owner may open no further ticket if the number of tickets that may still be opened is at most the number of the owner's tickets
/// divided by this. So one owner can have at most four fifths of the limit.
const TO_ONE_LEFT: usize = 4;

/// All open tickets.
#[derive(Debug, Default)]
pub struct Tickets {
    terms: TicketTerms,
    known: HashMap<TicketId, OpenTicket>,
    counts: LimitCounts,
    classes: Slab<TicketClass>,
    sorts: HashMap<ClassKey, usize>,
    lineup: ClassQueue,
    owners: HashMap<OwnerIndex, OwnerState>,
    deadlines: BTreeSet<(u64, TicketId)>,
    /// Number of open tickets by the name of the CI job or pod that opened them.
    of_jobs: HashMap<String, usize>,
    /// The highest round that was granted so far.
    round: u64,
    next: u64,
}

impl Tickets {
    /// An empty set of tickets.
    pub fn new(terms: TicketTerms) -> Self {
        Self { terms, ..Self::default() }
    }

    /// Restores the tickets that were open before a restart, in any order. No client is connected to them yet. Tickets that held a slot
    /// keep it, even above the current limits. Afterwards the caller reports attempts without a ticket, and calls [`Self::grant`].
    pub fn restore(&mut self, tickets: impl IntoIterator<Item = Ticket>, now: ClockReading) {
        let mut tickets: Vec<Ticket> = tickets.into_iter().collect();
        // the first waiting ticket of a pool determines the pool's current round; without it, new tickets would go before all that wait
        tickets.sort_unstable_by_key(|ticket| (ticket.round, ticket.number));
        for ticket in tickets {
            self.next = self.next.max(ticket.number + 1);
            self.insert(ticket, now);
        }
        let pools = self.counts.iter().filter(|count| matches!(count.scope, LimitKey::Pool(_)));
        self.round = pools.map(|count| count.round).fold(self.round, u64::max);
    }

    /// Gives no ticket this number in the order of opening, or a lower one: a ticket with it has ended, and something may still name it.
    pub fn skip_number(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Opens a ticket, which counts as a sign of life. The same request again returns the same ticket.
    /// Errors: the id belongs to another request, too many tickets are open, or the ticket could never be granted.
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
            self.renew(id, claim.job_token_ends_unix_ms);
            self.ask(id, now);
            return Ok(Vec::new());
        }
        if self.known.len() >= self.terms.most_open {
            return Err(TicketRefusal::Full(self.terms.most_open));
        }
        if let Some(never) =
            claim::scopes_with_owner(&claim).find(|counter| self.terms.limits.limit_of(counter) == Some(0))
        {
            return Err(TicketRefusal::Never(never.to_string()));
        }
        let is_of_job = claim.job_token_ends_unix_ms.is_some();
        if is_of_job && self.of_jobs.get(&claim.by).is_some_and(|open| *open >= MAX_OPEN_OF_JOB) {
            return Err(TicketRefusal::OfJob(MAX_OPEN_OF_JOB));
        }
        let of_owner = self.owner_of(&claim).map_or(0, |(_, owner)| owner.open_tickets);
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
            collected: None,
            host: None,
            machine: None,
        };
        self.next += 1;
        self.insert(ticket, now);
        Ok(self.grant(now))
    }

    /// Ends a ticket, and grants its slot to the next ticket.
    /// Errors: the ticket is not open.
    pub fn close(&mut self, id: &TicketId, now: ClockReading) -> Result<Vec<TicketChange>, TicketRefusal> {
        let ticket = self.remove(id).ok_or_else(|| TicketRefusal::Unknown(id.clone()))?;
        let mut changes = vec![TicketChange::Ended(Box::new(ticket), TicketEnd::Closed)];
        changes.extend(self.grant(now));
        Ok(changes)
    }

    /// Ends the tickets with a build and clients that were silent for too long, at most `most` of them.
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

    /// Applies new settings. Tickets keep slots that they hold.
    pub fn limit(&mut self, terms: TicketTerms, now: ClockReading) -> Vec<TicketChange> {
        self.terms = terms;
        self.counts.apply_limits(&self.terms.limits);
        let owners: Vec<OwnerIndex> = self.owners.keys().copied().collect();
        for owner in owners {
            self.update_owner_limit(owner);
        }
        self.grant(now)
    }

    /// Sets the pools that have another limit than the operator's settings say: tickets hold hosts there that are no longer listed.
    pub fn set_slots(&mut self, slots: HashMap<String, u32>, now: ClockReading) -> Vec<TicketChange> {
        self.counts.set_slots(slots);
        self.counts.apply_limits(&self.terms.limits);
        self.grant(now)
    }

    /// Records the host of a ticket that holds a slot, so that the ticket waits no longer. Returns false if it does not hold a slot.
    pub fn set_host(&mut self, id: &TicketId, host: &str, now: ClockReading) -> bool {
        let entry = self.known.get_mut(id).filter(|entry| entry.ticket.granted_unix_ms.is_some());
        let is_there = entry.map(|entry| entry.ticket.host = Some(host.to_owned())).is_some();
        if is_there {
            self.start_timeout(id, now);
        }
        is_there
    }

    /// A ticket holds this machine of a server upstream. It may wait for its slot: after a crash, when its grant was not on disk, and its
    /// machine was. Returns false if there is no such ticket.
    pub fn set_machine(&mut self, id: &TicketId, machine: UpstreamMachine, now: ClockReading) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        let waited = !entry.ticket.is_ready();
        entry.ticket.machine = Some(machine);
        if waited && entry.ticket.is_ready() {
            self.start_timeout(id, now);
        }
        true
    }

    /// Sets whether each ticket that waits for a slot or a host is to get a host. `has_hosts` answers this for the ticket's pool; `None`
    /// leaves the ticket unchanged. Returns the tickets that changed.
    pub fn set_on_host(
        &mut self,
        has_hosts: impl Fn(&str) -> Option<bool>,
        now: ClockReading,
    ) -> Vec<TicketId> {
        let mut changed = Vec::new();
        for (id, entry) in &mut self.known {
            let waits = entry.ticket.granted_unix_ms.is_none() || !entry.ticket.is_ready();
            let claim = &mut entry.ticket.claim;
            if waits && let Some(on_host) = has_hosts(&claim.pool).filter(|has| *has != claim.on_host) {
                claim.on_host = on_host;
                changed.push(id.clone());
            }
        }
        for id in &changed {
            self.start_timeout(id, now);
        }
        changed
    }

    /// The ticket with this id, if it is open.
    pub fn get(&self, id: &TicketId) -> Option<&Ticket> {
        self.known.get(id).map(|entry| &entry.ticket)
    }

    /// Number of open tickets.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no ticket is open.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The settings in force.
    pub fn terms(&self) -> &TicketTerms {
        &self.terms
    }

    /// Number of held slots under a limit.
    pub fn held(&self, counter: &LimitKey) -> u32 {
        self.counts.of(counter).map_or(0, |count| count.held.slots)
    }
}
