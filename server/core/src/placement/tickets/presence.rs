//! Decides how long a ticket stays open without a sign of life from its client or agent.
//!
//! | ticket | lives while | and afterwards for |
//! |---|---|---|
//! | waits for its slot or its host | a client watches it | [`TicketTimeouts::ask_within_ms`] since the last request for it or the last watch |
//! | holds a slot, no attempt runs in it | a client watches it as its holder | [`TicketTimeouts::start_within_ms`] since it was granted or got its host, or the last try in it ended; [`TicketTimeouts::ask_within_ms`] since its holder disconnected |
//! | has a number as its id, not yet collected by its client | a client watches it while it waits | [`TicketTimeouts::ask_within_ms`] since it was opened, granted or last watched |
//! | has a number as its id, collected | until its client closes it | |
//! | the same, of a CI job's or pod's token | as a ticket without a number | |
//! | an attempt runs in its slot | the attempt is open and its agent sends messages | [`TicketTimeouts::silent_within_ms`] since the agent's last message |
//!
//! A ticket that a CI job or pod opened ends with the job's token, or 30 s after the last sign of life if that is later.

use super::{ClockReading, TicketChange, TicketEnd, Tickets};
use crate::domain::{AttemptId, TicketId};

/// No deadline, because a client is connected or an attempt runs.
pub(super) const NEVER: u64 = u64::MAX;

/// Times for which tickets stay open without a sign of life, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketTimeouts {
    /// How long a waiting ticket stays open while no client asks for it or watches it, milliseconds.
    pub ask_within_ms: u64,
    /// How long a granted ticket stays open without an attempt in its slot, milliseconds.
    pub start_within_ms: u64,
    /// How long a ticket with a running attempt stays open while its agent is silent, milliseconds. The agent sends something every few
    /// seconds; the caller measures its silence.
    pub silent_within_ms: u64,
}

/// Connected clients of a ticket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TicketPresence {
    /// Number of clients that watch the ticket.
    pub watchers: u32,
    /// Number of these clients that hold the ticket's slot.
    pub holders: u32,
}

impl Tickets {
    /// Notes a request for a ticket. A request keeps a waiting ticket open, but not a granted one, which needs an attempt.
    pub fn ask(&mut self, id: &TicketId, now: ClockReading) {
        if self.get(id).is_some_and(|ticket| !ticket.is_ready()) {
            self.start_timeout(id, now);
        }
    }

    /// Notes that the ticket has a number as its id, which its client gets in the answer. Until the client asks for the ticket by that id,
    /// it has the timeout of a waiting ticket, even once it has its slot.
    pub fn await_collector(&mut self, id: &TicketId, now: ClockReading) {
        let Some(entry) = self.known.get_mut(id) else { return };
        entry.ticket.collected = Some(false);
        self.start_timeout(id, now);
    }

    /// Notes that the client of a ticket with a number as its id asked for it by this id. From then on the ticket stays open until the
    /// client closes it, unless the client is a CI job or pod. Returns true the first time.
    pub fn collect(&mut self, id: &TicketId, now: ClockReading) -> bool {
        self.ask(id, now);
        let Some(entry) = self.known.get_mut(id).filter(|entry| entry.ticket.collected == Some(false)) else {
            return false;
        };
        entry.ticket.collected = Some(true);
        self.start_timeout(id, now);
        true
    }

    /// Notes when the token ends with which a job asked again for its ticket. Returns true if it ends later than the one before.
    pub fn renew(&mut self, id: &TicketId, job_token_ends_unix_ms: Option<u64>) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        let known = &mut entry.ticket.claim.job_token_ends_unix_ms;
        let is_later = known.is_some() && job_token_ends_unix_ms > *known;
        if is_later {
            *known = job_token_ends_unix_ms;
        }
        is_later
    }

    /// Notes that a watcher connected; with `holds` it is the build itself. Returns false if the ticket is not open.
    pub fn watch(&mut self, id: &TicketId, holds: bool, now: ClockReading) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        entry.presence.watchers = entry.presence.watchers.saturating_add(1);
        entry.presence.holders = entry.presence.holders.saturating_add(u32::from(holds));
        if holds || !entry.ticket.is_ready() {
            self.start_timeout(id, now);
        }
        true
    }

    /// Notes that a watcher of the ticket with this number disconnected. A later ticket with the same id is not affected.
    pub fn unwatch(&mut self, id: &TicketId, number: u64, held: bool, now: ClockReading) {
        let Some(entry) = self.known.get_mut(id).filter(|entry| entry.ticket.number == number) else {
            return;
        };
        entry.presence.watchers = entry.presence.watchers.saturating_sub(1);
        entry.presence.holders = entry.presence.holders.saturating_sub(u32::from(held));
        let waits = !entry.ticket.is_ready();
        if waits || entry.ticket.collected == Some(false) || entry.is_kept_for_client() {
            self.start_timeout(id, now);
        } else if held && entry.presence.holders == 0 && entry.ticket.attempt.is_none() {
            // the build in the slot has ended, or it lost its connection and will reconnect
            let until = entry.ends_within(self.terms.timeouts.ask_within_ms, now);
            self.set_deadline(id, until);
        }
    }

    /// Notes that an attempt started in the slot of a ticket. The ticket then stays open as long as the attempt runs. Returns true if that
    /// is new; false if the ticket holds no slot, or if another attempt runs in it.
    pub fn begin(&mut self, id: &TicketId, attempt: &AttemptId) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        if entry.ticket.granted_unix_ms.is_none() || entry.ticket.attempt.is_some() {
            return false;
        }
        entry.ticket.attempt = Some(attempt.clone());
        self.counts.set_running(&entry.counts, true);
        self.set_deadline(id, NEVER);
        true
    }

    /// Notes that the attempt ended, with whatever outcome. Its ticket ends too, unless the client knows the ticket's id
    /// (`Ticket::collected`): then the client closes it, and a retry may use the slot.
    pub fn end(&mut self, id: &TicketId, attempt: &AttemptId, now: ClockReading) -> Vec<TicketChange> {
        if self.get(id).is_none_or(|ticket| ticket.attempt.as_ref() != Some(attempt)) {
            return Vec::new();
        }
        if self.get(id).is_some_and(|ticket| ticket.collected == Some(true)) {
            self.vacate_for_retry(id, attempt, now);
            return Vec::new();
        }
        let Some(ticket) = self.remove(id) else { return Vec::new() };
        let mut changes = vec![TicketChange::Ended(Box::new(ticket), TicketEnd::Closed)];
        changes.extend(self.grant(now));
        changes
    }

    /// Notes that the attempt ended and that a retry follows in the same slot: the ticket keeps the slot without an attempt. Returns true
    /// if the attempt ran in this ticket's slot.
    pub fn vacate_for_retry(&mut self, id: &TicketId, attempt: &AttemptId, now: ClockReading) -> bool {
        let Some(entry) = self.known.get_mut(id) else { return false };
        if entry.ticket.attempt.as_ref() != Some(attempt) {
            return false;
        }
        entry.ticket.attempt = None;
        self.counts.set_running(&entry.counts, false);
        self.start_timeout(id, now);
        true
    }

    /// Notes that an attempt without a ticket started in a pool. It is not held back, and the slot that it occupies is not granted.
    pub fn occupy(&mut self, pool: &str) {
        self.counts.set_unticketed(pool, |beside| beside.saturating_add(1));
    }

    /// Notes that an attempt without a ticket ended in a pool.
    pub fn vacate(&mut self, pool: &str, now: ClockReading) -> Vec<TicketChange> {
        self.counts.set_unticketed(pool, |beside| beside.saturating_sub(1));
        self.grant(now)
    }

    /// Starts the time for which a ticket stays open without a sign of life.
    pub(super) fn start_timeout(&mut self, id: &TicketId, now: ClockReading) {
        let Some(entry) = self.known.get(id) else { return };
        let TicketPresence { watchers, holders } = entry.presence;
        let TicketTimeouts { ask_within_ms, start_within_ms, .. } = self.terms.timeouts;
        let waits = !entry.ticket.is_ready();
        let collected = entry.ticket.collected;
        let is_held = holders > 0 || entry.ticket.attempt.is_some() || entry.is_kept_for_client();
        let is_there = is_held || (waits && watchers > 0);
        let after = if waits || collected == Some(false) { ask_within_ms } else { start_within_ms };
        let until = if is_there { NEVER } else { entry.ends_within(after, now) };
        self.set_deadline(id, until);
    }

    /// Sets the time at which the ticket expires; [`NEVER`]: it does not.
    fn set_deadline(&mut self, id: &TicketId, until_ms: u64) {
        let Some(entry) = self.known.get_mut(id) else { return };
        self.deadlines.remove(&(entry.until_ms, id.clone()));
        entry.until_ms = until_ms;
        if until_ms != NEVER {
            self.deadlines.insert((until_ms, id.clone()));
        }
    }
}
