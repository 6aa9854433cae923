//! Which attempts use slots: with the slot of a ticket, or without a ticket.

use plimsoll_core::{
    domain::{Attempt, AttemptId, PoolSlot, Ticket, TicketId},
    placement::tickets::{ClockReading, TicketChange, TicketEnd},
};

use super::TicketState;
use crate::runtime::metrics::KindLabel;

/// An open attempt that uses no ticket's slot.
#[derive(Debug)]
pub(super) struct UnticketedAttempt {
    pool: String,
    /// Whether the attempt occupies a slot: its agent is not silent, and it may have a slot.
    counts: bool,
}

impl TicketState {
    /// Records an open attempt: in the slot of its ticket, if that is of its project and holds one; else without a ticket in its pool.
    /// Returns whether a ticket has changed.
    pub(in crate::tickets) fn begin(&mut self, attempt: &Attempt) -> bool {
        let Some(id) = &attempt.opening.ticket else {
            self.occupy(attempt);
            return false;
        };
        let is_of_it = self.tickets.get(id).is_some_and(|ticket| ticket.claim.project == attempt.key.project);
        let begun = is_of_it && self.tickets.begin(id, &attempt.id);
        if begun {
            self.kept_for_retry.remove(id);
            self.changed(id, "attended");
        } else if self.tickets.get(id).is_none_or(|ticket| ticket.attempt.as_ref() != Some(&attempt.id)) {
            self.metrics.ticket_changes.get_or_create(&KindLabel::of("missed")).inc();
            tracing::debug!(attempt = %attempt.id, ticket = %id, "the attempt's ticket holds no place for it");
            self.occupy(attempt);
        }
        begun
    }

    /// Why a ticket holds no slot for an attempt of a project, as text; `None` if it does. Reveals nothing about other projects' tickets.
    pub(in crate::tickets) fn no_place(
        &self,
        id: &TicketId,
        attempt: &AttemptId,
        project: &str,
    ) -> Option<String> {
        let is_of_it = |ticket: &&Ticket| ticket.claim.project == project;
        let Some(ticket) = self.tickets.get(id).filter(is_of_it) else {
            let ended = self.ended.get(id).filter(|(_, ticket)| is_of_it(&ticket));
            return Some(match ended {
                Some((TicketEnd::Closed, _)) => "it has been closed".to_owned(),
                Some((TicketEnd::Expired, _)) => {
                    "it has expired: neither its build nor a client was heard from in time".to_owned()
                }
                None => format!("project {project:?} has no open ticket with this id"),
            });
        };
        match &ticket.attempt {
            Some(there) if there == attempt => None,
            Some(there) => Some(format!("attempt {there} runs in its place")),
            None if ticket.granted_unix_ms.is_none() => {
                Some("it waits in line and has no place yet".to_owned())
            }
            None => Some("the attempt began before the ticket had a place".to_owned()),
        }
    }

    /// Ends the ticket of an attempt that has ended, or frees the slot that the attempt had without one. Records which tickets get slots
    /// then.
    pub(in crate::tickets) fn end(&mut self, attempt: &Attempt, now: ClockReading) {
        let mut changes = Vec::new();
        if let Some(UnticketedAttempt { pool, counts: true }) = self.unticketed.remove(&attempt.id) {
            changes.extend(self.free_slot(attempt, &pool, now));
        }
        if let Some(id) = &attempt.opening.ticket {
            changes.extend(self.tickets.end(id, &attempt.id, now));
        }
        self.note(changes, now);
    }

    /// Records the end of an attempt whose retry follows in the same slot.
    pub(in crate::tickets) fn vacate_for_retry(&mut self, attempt: &Attempt, now: ClockReading) {
        let id =
            attempt.opening.ticket.as_ref().filter(|id| self.tickets.vacate_for_retry(id, &attempt.id, now));
        match id.cloned() {
            Some(id) => {
                self.changed(&id, "kept");
                self.kept_for_retry.insert(id, attempt.session.clone());
            }
            None => self.end(attempt, now),
        }
    }

    /// Whether the last attempt in a ticket's slot was of this session, and no other attempt has followed it.
    pub(in crate::tickets) fn was_left_by(&self, id: &TicketId, session: &str) -> bool {
        self.kept_for_retry.get(id).is_some_and(|left| left.as_str() == session)
    }

    /// Records that an agent is silent, so that its attempt's slot goes to others, or that it sends again.
    pub(in crate::tickets) fn set_silent(&mut self, attempt: &Attempt, is_silent: bool, now: ClockReading) {
        let Some(unticketed) = self.unticketed.get_mut(&attempt.id) else {
            if is_silent {
                self.end(attempt, now);
                // if it sends again, its ticket has ended
                let unticketed = UnticketedAttempt { pool: attempt.opening.pool.clone(), counts: false };
                self.unticketed.insert(attempt.id.clone(), unticketed);
            }
            return;
        };
        if unticketed.counts != is_silent {
            return;
        }
        let pool = unticketed.pool.clone();
        let counts = if is_silent {
            let changes = self.free_slot(attempt, &pool, now);
            self.note(changes, now);
            false
        } else {
            self.take_slot(attempt)
        };
        if let Some(unticketed) = self.unticketed.get_mut(&attempt.id) {
            unticketed.counts = counts;
        }
    }

    fn occupy(&mut self, attempt: &Attempt) {
        let pool = &attempt.opening.pool;
        if !pool.is_empty() && !self.unticketed.contains_key(&attempt.id) {
            let counts = self.take_slot(attempt);
            self.unticketed.insert(attempt.id.clone(), UnticketedAttempt { pool: pool.clone(), counts });
        }
    }

    /// Takes a slot in the attempt's pool, if the attempt may have one; returns whether it does.
    fn take_slot(&mut self, attempt: &Attempt) -> bool {
        let is_free = match attempt.slot_without_ticket() {
            None => false,
            Some(PoolSlot::Own) => true,
            Some(PoolSlot::OfJob(job)) => self.jobs_with_shared_slot.insert(job),
        };
        if is_free {
            self.tickets.occupy(&attempt.opening.pool);
        }
        is_free
    }

    /// Frees the slot that an attempt without a ticket had; returns which tickets get slots then.
    fn free_slot(&mut self, attempt: &Attempt, pool: &str, now: ClockReading) -> Vec<TicketChange> {
        if let Some(PoolSlot::OfJob(job)) = attempt.slot_without_ticket() {
            self.jobs_with_shared_slot.remove(&job);
        }
        self.tickets.vacate(pool, now)
    }
}
