//! What is counted under each limit: who holds, who waits, and when places come free.

use std::collections::HashMap;

use slab::Slab;

use super::{
    claim::{LimitKey, TicketLimits},
    ranks::Ranks,
};
use crate::domain::{Ticket, TicketClaim};

/// Places, and what is in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tickets.
    pub places: u32,
    /// Bytes of memory that they request.
    pub memory_bytes: u64,
    /// Cores that they request, in thousandths.
    pub milli_cores: u64,
}

impl Amount {
    fn add(&mut self, claim: &TicketClaim) {
        self.places += 1;
        self.memory_bytes = self.memory_bytes.saturating_add(claim.memory.0);
        self.milli_cores = self.milli_cores.saturating_add(claim.milli_cores);
    }

    fn take(&mut self, claim: &TicketClaim) {
        self.places = self.places.saturating_sub(1);
        self.memory_bytes = self.memory_bytes.saturating_sub(claim.memory.0);
        self.milli_cores = self.milli_cores.saturating_sub(claim.milli_cores);
    }
}

/// All tickets under one limit.
#[derive(Debug)]
pub(super) struct LimitCount {
    pub(super) what: LimitKey,
    pub(super) limit: Option<u32>,
    pub(super) held: Amount,
    pub(super) queued: Amount,
    /// Attempts that run here without a ticket: they take places as well, and are not granted. Of pools alone.
    pub(super) beside: u32,
    /// Held ones with an attempt in them.
    pub(super) attended: u32,
    /// The turns of those that wait.
    pub(super) waiting: Ranks,
    /// When those that hold are predicted to end, milliseconds since 1970.
    pub(super) ends: Ranks,
    /// The highest round that was granted here; at least the one before the first that waited.
    pub(super) round: u64,
    /// Sum of the predicted times of all, milliseconds.
    walls: u64,
}

impl LimitCount {
    /// Places that are taken, with a ticket or without.
    pub(super) fn taken(&self) -> u32 {
        self.held.places.saturating_add(self.beside)
    }

    /// Places that are free.
    pub(super) fn free(&self) -> u32 {
        self.limit.map_or(u32::MAX, |most| most.saturating_sub(self.taken()))
    }

    /// Whether no end of a ticket makes a place free here.
    pub(super) fn is_closed(&self) -> bool {
        self.limit.is_some_and(|most| most <= self.beside)
    }

    /// Time that a ticket under this limit holds its place, in the mean, milliseconds.
    pub(super) fn usual_ms(&self) -> u64 {
        let all = u64::from(self.held.places) + u64::from(self.queued.places);
        self.walls.checked_div(all).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.held.places == 0 && self.queued.places == 0
    }
}

/// When a ticket that holds its place is predicted to end, and its number.
fn end(ticket: &Ticket) -> (u64, u64) {
    let granted = ticket.granted_unix_ms.unwrap_or_default();
    (granted.saturating_add(ticket.claim.wall.0), ticket.number)
}

/// The counts of everything that is held or waited for.
#[derive(Debug, Default)]
pub(super) struct LimitCounts {
    all: Slab<LimitCount>,
    known: HashMap<LimitKey, usize>,
    /// Attempts that run without a ticket, by pool: also where no ticket is counted.
    beside: HashMap<String, u32>,
}

impl LimitCounts {
    pub(super) fn get(&self, at: usize) -> Option<&LimitCount> {
        self.all.get(at)
    }

    pub(super) fn free(&self, at: usize) -> u32 {
        self.get(at).map_or(u32::MAX, LimitCount::free)
    }

    /// Where something is counted, if anything is counted there.
    pub(super) fn at(&self, counter: &LimitKey) -> Option<usize> {
        self.known.get(counter).copied()
    }

    pub(super) fn of(&self, counter: &LimitKey) -> Option<&LimitCount> {
        self.at(counter).and_then(|at| self.get(at))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LimitCount> {
        self.all.iter().map(|(_, count)| count)
    }

    /// Attempts that run there without a ticket.
    pub(super) fn beside(&self, what: &LimitKey) -> u32 {
        let LimitKey::Pool(name) = what else { return 0 };
        self.beside.get(name).copied().unwrap_or(0)
    }

    /// Says how many attempts run in a pool without a ticket: so many as `change` makes of what was.
    pub(super) fn set_beside(&mut self, pool: &str, change: impl FnOnce(u32) -> u32) {
        let now = change(self.beside.remove(pool).unwrap_or(0));
        if now > 0 {
            self.beside.insert(pool.to_owned(), now);
        }
        let count = self.at(&LimitKey::Pool(pool.to_owned())).and_then(|at| self.all.get_mut(at));
        if let Some(count) = count {
            count.beside = now;
        }
    }

    /// Where something is counted.
    pub(super) fn place(&mut self, what: LimitKey, limits: &TicketLimits) -> usize {
        if let Some(at) = self.known.get(&what) {
            return *at;
        }
        let at = self.all.insert(LimitCount {
            limit: limits.of(&what),
            what: what.clone(),
            held: Amount::default(),
            queued: Amount::default(),
            beside: self.beside(&what),
            attended: 0,
            waiting: Ranks::default(),
            ends: Ranks::default(),
            round: 0,
            walls: 0,
        });
        self.known.insert(what, at);
        at
    }

    /// Counts a ticket in all these places, as one that waits or as one that holds.
    pub(super) fn add(&mut self, places: &[usize], ticket: &Ticket) {
        for at in places {
            let Some(count) = self.all.get_mut(*at) else { continue };
            count.walls = count.walls.saturating_add(ticket.claim.wall.0);
            if ticket.granted_unix_ms.is_some() {
                count.held.add(&ticket.claim);
                count.ends.insert(end(ticket));
                count.attended += u32::from(ticket.attempt.is_some());
                count.round = count.round.max(ticket.round);
            } else {
                // where none waited, other rounds may have gone by
                let before = Some(ticket.round.saturating_sub(1)).filter(|_| count.waiting.len() == 0);
                count.round = count.round.max(before.unwrap_or_default());
                count.queued.add(&ticket.claim);
                count.waiting.insert((ticket.round, ticket.number));
            }
        }
    }

    /// The opposite. What counts nothing any more is forgotten, if `forget` says so.
    pub(super) fn take(&mut self, places: &[usize], ticket: &Ticket, forget: bool) {
        for at in places {
            let Some(count) = self.all.get_mut(*at) else { continue };
            count.walls = count.walls.saturating_sub(ticket.claim.wall.0);
            if ticket.granted_unix_ms.is_some() {
                count.held.take(&ticket.claim);
                count.ends.remove(end(ticket));
                count.attended -= u32::from(ticket.attempt.is_some());
            } else {
                count.queued.take(&ticket.claim);
                count.waiting.remove((ticket.round, ticket.number));
            }
            if forget && count.is_empty() {
                self.known.remove(&count.what);
                self.all.remove(*at);
            }
        }
    }

    /// An attempt runs in a held place now, or none does any more.
    pub(super) fn attend(&mut self, places: &[usize], runs: bool) {
        for at in places {
            if let Some(count) = self.all.get_mut(*at) {
                count.attended =
                    count.attended.saturating_add(u32::from(runs)).saturating_sub(u32::from(!runs));
            }
        }
    }

    /// Puts other limits into force.
    pub(super) fn limit(&mut self, limits: &TicketLimits) {
        for (_, count) in &mut self.all {
            count.limit = limits.of(&count.what);
        }
    }
}
