//! How long a ticket lives without a sign of life.
//!
//! | ticket | lives while | and then for |
//! |---|---|---|
//! | waits | a client watches it | [`TicketTimeouts::ask_within_ms`] since it was last asked for or watched |
//! | holds a place, no attempt runs in it | a client watches it and says that it holds it | [`TicketTimeouts::start_within_ms`] since it was granted or the last try in it ended; [`TicketTimeouts::ask_within_ms`] since its holder left |
//! | an attempt runs in its place | the attempt is open and its agent is heard of | [`TicketTimeouts::silent_within_ms`] since its agent was |

use super::{ClockReading, TicketChange, TicketEnd, Tickets};
use crate::domain::{AttemptId, TicketId};

/// No deadline: its owner is there.
pub(super) const NEVER: u64 = u64::MAX;

/// How long tickets stay open without a sign of life, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketTimeouts {
    /// One that waits.
    pub ask_within_ms: u64,
    /// One that was granted and in whose place no attempt has begun.
    pub start_within_ms: u64,
    /// One whose attempt runs: its agent says something every few seconds. Who counts that is not here.
    pub silent_within_ms: u64,
}

/// Who is there for a ticket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TicketPresence {
    /// Who watches it.
    pub watchers: u32,
    /// Of them, who holds its place.
    pub holders: u32,
}

impl Tickets {
    /// A call asked for a ticket. That keeps one that waits; one that was granted needs an attempt.
    pub fn ask(&mut self, id: &TicketId, now: ClockReading) {
        if self.get(id).is_some_and(|ticket| ticket.granted_unix_ms.is_none()) {
            self.rest(id, now);
        }
    }

    /// A watcher of a ticket connects; with `holds`, it is the build itself. False if it is not open.
    pub fn watch(&mut self, id: &TicketId, holds: bool, now: ClockReading) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        entry.presence.watchers = entry.presence.watchers.saturating_add(1);
        entry.presence.holders = entry.presence.holders.saturating_add(u32::from(holds));
        if holds || entry.ticket.granted_unix_ms.is_none() {
            self.rest(id, now);
        }
        true
    }

    /// A watcher of the ticket with this number is gone. One that has the same id and was opened later is not touched.
    pub fn unwatch(&mut self, id: &TicketId, number: u64, held: bool, now: ClockReading) {
        let Some(entry) = self.known.get_mut(id).filter(|entry| entry.ticket.number == number) else {
            return;
        };
        entry.presence.watchers = entry.presence.watchers.saturating_sub(1);
        entry.presence.holders = entry.presence.holders.saturating_sub(u32::from(held));
        let waits = entry.ticket.granted_unix_ms.is_none();
        if waits {
            self.rest(id, now);
        } else if held && entry.presence.holders == 0 && entry.ticket.attempt.is_none() {
            // the build in its place has ended, or lost its connection and comes back
            let until = now.steady_ms.saturating_add(self.terms.patience.ask_within_ms);
            self.lives_until(id, until);
        }
    }

    /// An attempt runs in the place of a ticket: the ticket lives as long as it does. True if that is new. A ticket that waits is
    /// not taken by an attempt that did not wait for it, and a place that has an attempt takes no other one.
    pub fn begin(&mut self, id: &TicketId, attempt: &AttemptId) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        if entry.ticket.granted_unix_ms.is_none() || entry.ticket.attempt.is_some() {
            return false;
        }
        entry.ticket.attempt = Some(attempt.clone());
        self.counts.attend(&entry.counts, true);
        self.lives_until(id, NEVER);
        true
    }

    /// The attempt has ended, however it did: its ticket has, too.
    pub fn end(&mut self, id: &TicketId, attempt: &AttemptId, now: ClockReading) -> Vec<TicketChange> {
        if self.get(id).is_none_or(|ticket| ticket.attempt.as_ref() != Some(attempt)) {
            return Vec::new();
        }
        let Some(ticket) = self.remove(id) else { return Vec::new() };
        let mut changes = vec![TicketChange::Ended(Box::new(ticket), TicketEnd::Closed)];
        changes.extend(self.grant(now));
        changes
    }

    /// The attempt has ended, and another try follows in its place: the ticket holds it as one in whose place nothing has begun yet.
    /// True if it was its attempt.
    pub fn leave(&mut self, id: &TicketId, attempt: &AttemptId, now: ClockReading) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        if entry.ticket.attempt.as_ref() != Some(attempt) {
            return false;
        }
        entry.ticket.attempt = None;
        self.counts.attend(&entry.counts, false);
        self.rest(id, now);
        true
    }

    /// An attempt runs in a pool without a ticket. It is not held back; the place that it takes is not granted.
    pub fn occupy(&mut self, pool: &str) {
        self.counts.set_beside(pool, |beside| beside.saturating_add(1));
    }

    /// One of them has ended.
    pub fn vacate(&mut self, pool: &str, now: ClockReading) -> Vec<TicketChange> {
        self.counts.set_beside(pool, |beside| beside.saturating_sub(1));
        self.grant(now)
    }

    /// Begins the time that a ticket lives without a sign of life.
    pub(super) fn rest(&mut self, id: &TicketId, now: ClockReading) {
        let Some(entry) = self.known.get(id) else { return };
        let TicketPresence { watchers, holders } = entry.presence;
        let TicketTimeouts { ask_within_ms, start_within_ms, .. } = self.terms.patience;
        let waits = entry.ticket.granted_unix_ms.is_none();
        let is_there = holders > 0 || entry.ticket.attempt.is_some() || (waits && watchers > 0);
        let after = if waits { ask_within_ms } else { start_within_ms };
        self.lives_until(id, if is_there { NEVER } else { now.steady_ms.saturating_add(after) });
    }

    fn lives_until(&mut self, id: &TicketId, until_ms: u64) {
        let Some(entry) = self.known.get_mut(id) else { return };
        self.deadlines.remove(&(entry.until_ms, id.clone()));
        entry.until_ms = until_ms;
        if until_ms != NEVER {
            self.deadlines.insert((until_ms, id.clone()));
        }
    }
}
