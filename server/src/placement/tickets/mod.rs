//! Tickets: places in pools, held by attempts and shared fairly among owners. A state machine: events and the time come in,
//! changes go out; whoever runs it keeps them.
//!
//! - **Limits** in all, and for each owner, pool, architecture, kind and tag hold at once, at every moment.
//! - **Fair among owners**: a ticket gets a round when it is opened, one after the owner's last that waits for its pool and after
//!   the round that is being granted there. The lowest round is granted first, so that the first ticket of an owner is not behind
//!   the thousandth of another, and whoever comes later is behind whoever waits. (The idea is that of start-time fair queueing:
//!   Goyal, Vin, Cheng, 1996.) A raised ticket goes one round earlier: an owner's first belongs to the round that is being
//!   granted, and its thousandth is as far behind as other thousandths are.
//! - **Nobody waits for ever**: tickets that need several places at once could be passed over for ever by those that need one. After
//!   [`PATIENCE`] later tickets that took what it needs, what a class of tickets needs is kept free for it until it has it.
//! - **Who runs in a pool without a ticket** takes a place there as well: nobody holds it back, and no ticket is granted what it has.
//!   All other limits are those of tickets alone.
//! - **Early ends give the place back** at once: an end, a close, or silence for longer than its time.
//! - **Nothing looks at all tickets**, and few things at all classes of them (those that need the same places, at most [`CLASSES`]): an
//!   event costs what the limits are, the classes that it passes over or finds held up elsewhere, and the logarithm of the tickets.
//!
//! | module | |
//! |---|---|
//! | `claim` | the limits, and which of them count a ticket |
//! | `count` | who holds and who waits under each limit |
//! | `class` | tickets that need the same places, in lines by owner |
//! | `grant` | who is next |
//! | `lineup` | the classes by their turns, and which of them wait for what |
//! | `terms` | what the operator says of all that |
//! | `heard` | how long a ticket lives of which nobody is heard |
//! | `told` | what is told of a ticket: its position, when its turn comes, what it waits for |
//! | `ranks` | a sorted set that counts |

mod claim;
mod class;
mod count;
mod grant;
mod heard;
mod lineup;
mod ranks;
mod terms;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeSet, HashMap};

pub use claim::{Counter, Limits};
use class::{Class, OwnerAt, Sort};
pub use count::Amount;
use count::Counts;
pub use grant::PATIENCE;
pub use heard::{Heard, Patience};
use lineup::Lineup;
use slab::Slab;
pub use terms::Terms;
pub use told::{Demand, Told};

use crate::domain::{Claim, Ticket, TicketId};

/// Sorts of tickets that may wait at once: pools times kinds times tags. In the worst of cases a decision looks at each of them.
pub const CLASSES: usize = 4096;

/// Open tickets of an owner for each one that it leaves to others: one owner alone takes four fifths of what may be open.
const TO_ONE_LEFT: usize = 4;

/// A moment by two clocks: that of the wall, for what is told and kept; and one that nobody sets, for what expires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// Milliseconds since some moment.
    pub steady_ms: u64,
}

/// How a ticket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Somebody closed it, or its attempt ended.
    Closed,
    /// Nobody was heard of it for too long.
    Expired,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A ticket has its place.
    Granted(TicketId),
    /// A ticket is there no longer.
    Ended(Box<Ticket>, End),
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many are open as may be.
    #[error("{0} tickets are open, which is the bound; come back later")]
    Full(usize),
    /// So many of the owner are open that the rest of the bound is left to others.
    #[error(
        "{of_owner} tickets of this owner are open, and what is left of {most} is for others; come back later"
    )]
    Crowded {
        /// Open tickets of the owner.
        of_owner: usize,
        /// As many may be open, of all owners.
        most: usize,
    },
    /// Tickets of so many sorts wait that no other sort is taken.
    #[error(
        "tickets with {0} different combinations of pool, kind and tags wait, which is the bound; come back later"
    )]
    Mixed(usize),
    /// Another question has this id.
    #[error("ticket {0} is open for another key, kind, owner, pool or tags; give this one an id of its own")]
    Taken(TicketId),
    /// It is not open.
    #[error(
        "ticket {0} is not open: it was never opened, or it has ended; how a ticket ended is told for a while, and not after a restart of \
         the server"
    )]
    Unknown(TicketId),
    /// With these limits it could never be granted.
    #[error("the limit for {0} is 0: it would wait for ever")]
    Never(String),
}

/// A ticket while it is open.
#[derive(Debug, Clone)]
struct Entry {
    ticket: Ticket,
    /// Where it is counted, its owner last.
    counts: Vec<usize>,
    heard: Heard,
    /// When it expires, by the steady clock; [`heard::NEVER`] while somebody is there.
    until_ms: u64,
}

#[derive(Debug)]
struct Owner {
    open: usize,
    /// It is below its limit, as its classes know.
    is_open: bool,
    /// Classes in which it waits.
    classes: BTreeSet<usize>,
}

impl Owner {
    fn new(is_open: bool) -> Self {
        Self { open: 0, is_open, classes: BTreeSet::new() }
    }
}

/// All open tickets.
#[derive(Debug)]
pub struct Tickets {
    terms: Terms,
    known: HashMap<TicketId, Entry>,
    counts: Counts,
    classes: Slab<Class>,
    sorts: HashMap<Sort, usize>,
    lineup: Lineup,
    owners: HashMap<OwnerAt, Owner>,
    deadlines: BTreeSet<(u64, TicketId)>,
    /// The highest round that was granted.
    round: u64,
    next: u64,
}

impl Tickets {
    /// None.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            known: HashMap::new(),
            counts: Counts::default(),
            classes: Slab::new(),
            sorts: HashMap::new(),
            lineup: Lineup::default(),
            owners: HashMap::new(),
            deadlines: BTreeSet::new(),
            round: 0,
            next: 0,
        }
    }

    /// What was open before a restart, in any order, without anybody who is heard of. Those that held a place hold it, whatever the
    /// limits are now.
    /// Whoever calls this says who runs without a ticket, and then grants.
    pub fn restore(&mut self, tickets: impl IntoIterator<Item = Ticket>, now: Now) {
        let mut tickets: Vec<Ticket> = tickets.into_iter().collect();
        // the first that waits for a pool says which round it is at, else who comes now would be put before all that wait
        tickets.sort_unstable_by_key(|ticket| (ticket.round, ticket.number));
        for ticket in tickets {
            self.next = self.next.max(ticket.number + 1);
            self.insert(ticket, now);
        }
        let pools = self.counts.iter().filter(|count| matches!(count.what, Counter::Pool(_)));
        self.round = pools.map(|count| count.round).fold(self.round, u64::max);
    }

    /// Opens a ticket, which is heard of by that. The same question again is the same ticket.
    ///
    /// # Errors
    /// Another question has the id, too many are open, or it could never be granted.
    pub fn open(&mut self, id: &TicketId, claim: Claim, now: Now) -> Result<Vec<Change>, Refused> {
        if let Some(open) = self.known.get(id) {
            if !open.ticket.claim.is_same(&claim) {
                return Err(Refused::Taken(id.clone()));
            }
            self.ask(id, now);
            return Ok(Vec::new());
        }
        if self.known.len() >= self.terms.most_open {
            return Err(Refused::Full(self.terms.most_open));
        }
        if let Some(never) = claim::counters(&claim).find(|counter| self.terms.limits.of(counter) == Some(0))
        {
            return Err(Refused::Never(never.to_string()));
        }
        let of_owner = self.owner_of(&claim).map_or(0, |(_, owner)| owner.open);
        if of_owner > 0 && self.terms.most_open.saturating_sub(self.known.len()) <= of_owner / TO_ONE_LEFT {
            return Err(Refused::Crowded { of_owner, most: self.terms.most_open });
        }
        if self.classes.len() >= CLASSES && !self.has_class_for(&claim) {
            return Err(Refused::Mixed(CLASSES));
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
    pub fn close(&mut self, id: &TicketId, now: Now) -> Result<Vec<Change>, Refused> {
        let ticket = self.remove(id).ok_or_else(|| Refused::Unknown(id.clone()))?;
        let mut changes = vec![Change::Ended(Box::new(ticket), End::Closed)];
        changes.extend(self.grant(now));
        Ok(changes)
    }

    /// Ends the tickets that nobody was heard of for too long, at most `most` of them.
    pub fn expire(&mut self, most: usize, now: Now) -> Vec<Change> {
        let mut changes = Vec::new();
        while changes.len() < most {
            let due = self.deadlines.first().filter(|(until, _)| *until < now.steady_ms);
            let Some((_, id)) = due.cloned() else { break };
            let Some(ticket) = self.remove(&id) else { break };
            changes.push(Change::Ended(Box::new(ticket), End::Expired));
        }
        if !changes.is_empty() {
            changes.extend(self.grant(now));
        }
        changes
    }

    /// Puts other terms into force. Who holds a place keeps it.
    pub fn limit(&mut self, terms: Terms, now: Now) -> Vec<Change> {
        self.terms = terms;
        self.counts.limit(&self.terms.limits);
        let owners: Vec<OwnerAt> = self.owners.keys().copied().collect();
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
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Places that are held.
    pub fn held(&self, counter: &Counter) -> u32 {
        self.counts.of(counter).map_or(0, |count| count.held.places)
    }

    fn insert(&mut self, ticket: Ticket, now: Now) {
        let counters: Vec<Counter> = claim::counters(&ticket.claim).collect();
        let counts: Vec<usize> =
            counters.into_iter().map(|counter| self.counts.place(counter, &self.terms.limits)).collect();
        self.counts.add(&counts, &ticket);
        let Some((owner_at, places)) = counts.split_last().map(|(owner, places)| (*owner, places)) else {
            return;
        };
        let is_open = self.counts.free(owner_at) > 0;
        let owner = self.owners.entry(owner_at).or_insert_with(|| Owner::new(is_open));
        owner.open += 1;
        if ticket.granted_unix_ms.is_none() {
            let sort = Sort { places: places.to_vec(), raised: ticket.claim.raised };
            let at = match self.sorts.get(&sort) {
                Some(at) => *at,
                None => self.classes.insert(Class::new(sort.clone())),
            };
            self.sorts.insert(sort, at);
            owner.classes.insert(at);
            if let Some(class) = self.classes.get_mut(at) {
                class.push(owner_at, (ticket.round, ticket.number), ticket.id.clone(), is_open);
            }
            self.reseat(at);
        }
        let id = ticket.id.clone();
        let entry = Entry { ticket, counts, heard: Heard::default(), until_ms: heard::NEVER };
        self.known.insert(id.clone(), entry);
        self.rest(&id, now);
        // after a restart those that hold may come behind those that wait
        self.settle_owner(owner_at);
    }

    fn remove(&mut self, id: &TicketId) -> Option<Ticket> {
        let Entry { ticket, counts, until_ms, .. } = self.known.remove(id)?;
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
