//! Tickets: places in pools, held by attempts and shared fairly among owners. A state machine: events and the time come in,
//! changes go out; whoever runs it keeps them.
//!
//! - **Limits** in all, and for each owner, pool, architecture, kind and tag hold at once, at every moment.
//! - **Fair among owners**: a ticket gets a round when it is opened, one after the owner's last and after the round that is being
//!   granted. The lowest round is granted first, so that the first ticket of an owner is not behind the thousandth of another, and
//!   whoever comes later is behind whoever waits. (The idea is that of start-time fair queueing: Goyal, Vin, Cheng, 1996.)
//! - **Nobody waits for ever**: tickets that need several places at once could be passed over for ever by those that need one. After
//!   [`PATIENCE`] grants that passed it over, what a class of tickets needs is kept free for it until it has it.
//! - **Early ends give the place back** at once: an end, a close, or silence for longer than its time.

mod claim;
mod class;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

pub use claim::{Claim, Counter, Limits};
use class::{Class, Order};

use crate::domain::Millis;

/// Grants that may pass a class of tickets over before its places are kept free for it.
pub const PATIENCE: u32 = 64;

/// What a ticket is called.
pub type TicketId = String;

/// Where a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds a place.
    Granted,
    /// It waits.
    Waiting,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A ticket has its place.
    Granted(TicketId),
    /// A ticket ended because nobody was heard of it.
    Expired(TicketId),
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many are open as may be.
    #[error("{0} tickets are open, which is the bound; come back later")]
    Full(usize),
    /// Another claim has this id.
    #[error("ticket {0} is open with another claim")]
    Taken(TicketId),
    /// It is not open.
    #[error("ticket {0} is not open")]
    Unknown(TicketId),
    /// It belongs to somebody else.
    #[error("ticket {0} belongs to another owner")]
    NotYours(TicketId),
    /// With these limits it could never be granted.
    #[error("the limit for {0} is 0")]
    Never(String),
}

/// One open ticket, with all that a restart needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// What it wants.
    pub claim: Claim,
    /// Where it stands.
    pub standing: Standing,
    /// Until when somebody must be heard of, milliseconds since 1970.
    pub until_unix_ms: u64,
    /// Its turn.
    pub(super) order: Order,
}

/// All open tickets.
#[derive(Debug)]
pub struct Tickets {
    limits: Limits,
    most: usize,
    known: HashMap<TicketId, Ticket>,
    held: HashMap<Counter, u32>,
    classes: Vec<Class>,
    /// Last round of each owner with open tickets, and how many are open.
    owners: HashMap<String, Owner>,
    deadlines: BTreeSet<(u64, TicketId)>,
    /// The round of the last grant.
    round: u64,
    next: u64,
}

#[derive(Debug, Default)]
struct Owner {
    last: u64,
    open: usize,
    waiting: usize,
}

impl Tickets {
    /// None, and room for so many.
    pub fn new(limits: Limits, most: usize) -> Self {
        Self {
            limits,
            most,
            known: HashMap::new(),
            held: HashMap::new(),
            classes: Vec::new(),
            owners: HashMap::new(),
            deadlines: BTreeSet::new(),
            round: 0,
            next: 0,
        }
    }

    /// What was open before a restart, in any order. Those that held a place hold it, whatever the limits are now.
    pub fn restore(&mut self, tickets: impl IntoIterator<Item = (TicketId, Ticket)>) -> Vec<Change> {
        for (id, ticket) in tickets {
            self.next = self.next.max(ticket.order.number + 1);
            if ticket.standing == Standing::Granted {
                self.round = self.round.max(ticket.order.round);
            }
            self.insert(id, ticket);
        }
        self.grant()
    }

    /// Opens a ticket that is heard of until `until_unix_ms`. The same claim again is the same ticket.
    ///
    /// # Errors
    /// Another claim has the id, too many are open, or it could never be granted.
    pub fn open(&mut self, id: &str, claim: Claim, until_unix_ms: u64) -> Result<Vec<Change>, Refused> {
        if let Some(open) = self.known.get(id) {
            if open.claim != claim {
                return Err(Refused::Taken(id.to_owned()));
            }
            return self.hear(id, until_unix_ms).map(|()| Vec::new());
        }
        if self.known.len() >= self.most {
            return Err(Refused::Full(self.most));
        }
        if let Some(never) = claim.counters().find(|counter| self.limits.of(counter) == Some(0)) {
            return Err(Refused::Never(never.to_string()));
        }
        let last = self.owners.get(&claim.owner).map_or(0, |owner| owner.last);
        let order = Order { round: last.max(self.round) + 1, number: self.next };
        self.next += 1;
        let standing = Standing::Waiting;
        self.insert(id.to_owned(), Ticket { claim, standing, until_unix_ms, order });
        Ok(self.grant())
    }

    /// Somebody was heard of a ticket.
    ///
    /// # Errors
    /// It is not open.
    pub fn hear(&mut self, id: &str, until_unix_ms: u64) -> Result<(), Refused> {
        let ticket = self.known.get_mut(id).ok_or_else(|| Refused::Unknown(id.to_owned()))?;
        if until_unix_ms > ticket.until_unix_ms {
            self.deadlines.remove(&(ticket.until_unix_ms, id.to_owned()));
            ticket.until_unix_ms = until_unix_ms;
            self.deadlines.insert((until_unix_ms, id.to_owned()));
        }
        Ok(())
    }

    /// Ends a ticket; its place goes to who is next.
    ///
    /// # Errors
    /// It is not open, or belongs to another owner.
    pub fn close(&mut self, id: &str, owner: &str) -> Result<Vec<Change>, Refused> {
        let ticket = self.known.get(id).ok_or_else(|| Refused::Unknown(id.to_owned()))?;
        if ticket.claim.owner != owner {
            return Err(Refused::NotYours(id.to_owned()));
        }
        self.remove(id);
        Ok(self.grant())
    }

    /// Ends the tickets that nobody was heard of until now.
    pub fn expire(&mut self, now_unix_ms: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some((until, id)) =
            self.deadlines.first().cloned().filter(|(until, _)| *until < now_unix_ms)
        {
            self.deadlines.remove(&(until, id.clone()));
            self.remove(&id);
            changes.push(Change::Expired(id));
        }
        if !changes.is_empty() {
            changes.extend(self.grant());
        }
        changes
    }

    /// Puts other limits into force. Who holds a place keeps it.
    pub fn limit(&mut self, limits: Limits) -> Vec<Change> {
        self.limits = limits;
        let owners: Vec<String> = self.owners.keys().cloned().collect();
        for owner in owners {
            self.settle_owner(&owner);
        }
        self.grant()
    }

    /// An open ticket.
    pub fn get(&self, id: &str) -> Option<&Ticket> {
        self.known.get(id)
    }

    /// All open tickets, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&TicketId, &Ticket)> {
        self.known.iter()
    }

    /// Places that are held.
    pub fn held(&self, counter: &Counter) -> u32 {
        self.held.get(counter).copied().unwrap_or_default()
    }

    /// Tickets of the same class that are granted before this one, those of owners at their limit included; 0 if it holds a place. Looks at
    /// all that wait.
    pub fn ahead(&self, id: &str) -> usize {
        let Some(ticket) = self.known.get(id).filter(|ticket| ticket.standing == Standing::Waiting) else {
            return 0;
        };
        let places = ticket.claim.places();
        let class = self.classes.iter().find(|class| class.places == places);
        class.map_or(0, |class| class.before(ticket.order))
    }

    /// When a ticket will have its place, if each place is held for `usual`; a guess.
    pub fn estimate(&self, id: &str, usual: Millis) -> Option<Millis> {
        let ticket = self.known.get(id)?;
        if ticket.standing == Standing::Granted {
            return Some(Millis(0));
        }
        let limits = ticket.claim.counters().filter_map(|counter| self.limits.of(&counter));
        let turns = (self.ahead(id) as u64 + 1).div_ceil(u64::from(limits.min().unwrap_or(1).max(1)));
        Some(Millis(usual.0.saturating_mul(turns)))
    }

    fn insert(&mut self, id: TicketId, ticket: Ticket) {
        let owner = self.owners.entry(ticket.claim.owner.clone()).or_default();
        owner.open += 1;
        owner.last = owner.last.max(ticket.order.round);
        self.deadlines.insert((ticket.until_unix_ms, id.clone()));
        match ticket.standing {
            Standing::Granted => self.count(&ticket.claim, true),
            Standing::Waiting => {
                owner.waiting += 1;
                let is_open = self.has_room(&Counter::Owner(ticket.claim.owner.clone()));
                self.class_of(&ticket.claim).push(&ticket.claim.owner, ticket.order, id.clone(), is_open);
            }
        }
        self.known.insert(id, ticket);
    }

    fn remove(&mut self, id: &str) {
        let Some(ticket) = self.known.remove(id) else { return };
        self.deadlines.remove(&(ticket.until_unix_ms, id.to_owned()));
        let name = &ticket.claim.owner;
        if ticket.standing == Standing::Waiting {
            self.class_of(&ticket.claim).remove(name, ticket.order);
        }
        if let Some(owner) = self.owners.get_mut(name) {
            owner.open -= 1;
            owner.waiting -= usize::from(ticket.standing == Standing::Waiting);
            if owner.waiting == 0 {
                // who waits for nothing starts afresh, and does not pay for what it took back
                owner.last = owner.last.min(self.round);
            }
            if owner.open == 0 {
                self.owners.remove(name);
            }
        }
        if ticket.standing == Standing::Granted {
            self.count(&ticket.claim, false);
        }
        self.classes.retain(|class| !class.is_empty());
    }

    /// Grants what can be granted, lowest round first.
    fn grant(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(at) = self.next_class() {
            let Some((order, id)) = self.classes.get_mut(at).and_then(Class::pop) else { break };
            let Some(ticket) = self.known.get_mut(&id) else { continue };
            ticket.standing = Standing::Granted;
            let claim = ticket.claim.clone();
            self.round = self.round.max(order.round);
            if let Some(owner) = self.owners.get_mut(&claim.owner) {
                owner.waiting -= 1;
            }
            self.pass_over(at);
            self.count(&claim, true);
            changes.push(Change::Granted(id));
        }
        self.classes.retain(|class| !class.is_empty());
        changes
    }

    /// The class whose first ticket is next, if any can be granted.
    fn next_class(&self) -> Option<usize> {
        let kept = self.classes.iter().filter(|class| class.passed >= PATIENCE && class.first().is_some());
        // one at a time, the one that was passed over most: it gets what it needs, and then the next
        let kept = kept.max_by_key(|class| class.passed);
        let may = |class: &Class| {
            let places = || class.places.iter();
            if kept.is_some_and(|kept| !std::ptr::eq(kept, class)) {
                let free = |counter: &Counter| self.free(counter);
                let is_kept = |counter: &Counter| kept.is_some_and(|kept| kept.places.contains(counter));
                return places().all(|counter| free(counter) > u32::from(is_kept(counter)));
            }
            places().all(|counter| self.has_room(counter))
        };
        let ready =
            self.classes.iter().enumerate().filter_map(|(at, class)| Some((class.first()?, at, class)));
        ready.filter(|(_, _, class)| may(class)).min_by_key(|(order, _, _)| *order).map(|(_, at, _)| at)
    }

    /// Counts a grant against the classes that wait for longer and did not get it.
    fn pass_over(&mut self, granted: usize) {
        for (at, class) in self.classes.iter_mut().enumerate() {
            if at == granted {
                class.passed = 0;
            } else if class.first().is_some() {
                class.passed = class.passed.saturating_add(1);
            }
        }
    }

    fn class_of(&mut self, claim: &Claim) -> &mut Class {
        let places = claim.places();
        let at = self.classes.iter().position(|class| class.places == places).unwrap_or(self.classes.len());
        if at == self.classes.len() {
            self.classes.push(Class::new(places));
        }
        // it is there: it was found, or it was put there
        #[expect(clippy::indexing_slicing, reason = "`at` is below the length")]
        &mut self.classes[at]
    }

    fn free(&self, counter: &Counter) -> u32 {
        self.limits.of(counter).map_or(u32::MAX, |most| most.saturating_sub(self.held(counter)))
    }

    fn has_room(&self, counter: &Counter) -> bool {
        self.free(counter) > 0
    }

    fn count(&mut self, claim: &Claim, up: bool) {
        for counter in claim.counters() {
            let held = self.held.entry(counter.clone()).or_default();
            *held = if up { *held + 1 } else { held.saturating_sub(1) };
            if *held == 0 {
                self.held.remove(&counter);
            }
        }
        self.settle_owner(&claim.owner);
    }

    /// Takes an owner's tickets out of the running while it is at its limit.
    fn settle_owner(&mut self, owner: &str) {
        let is_open = self.has_room(&Counter::Owner(owner.to_owned()));
        for class in &mut self.classes {
            class.set_open(owner, is_open);
        }
    }
}
