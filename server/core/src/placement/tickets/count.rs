//! Counts for each limit: held slots, waiting tickets, and predicted ends of holders.

use std::collections::HashMap;

use slab::Slab;

use super::{
    claim::{LimitKey, TicketLimits},
    ranks::Ranks,
};
use crate::domain::{Ticket, TicketClaim};

/// A number of tickets, with the resources that they request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TicketAmount {
    /// Number of tickets.
    pub slots: u32,
    /// Sum of their memory requests, bytes.
    pub memory_bytes: u64,
    /// Sum of their CPU requests, thousandths of a core.
    pub milli_cores: u64,
}

impl TicketAmount {
    fn add_claim(&mut self, claim: &TicketClaim) {
        self.slots += 1;
        self.memory_bytes = self.memory_bytes.saturating_add(claim.memory.0);
        self.milli_cores = self.milli_cores.saturating_add(claim.milli_cores);
    }

    fn remove_claim(&mut self, claim: &TicketClaim) {
        self.slots = self.slots.saturating_sub(1);
        self.memory_bytes = self.memory_bytes.saturating_sub(claim.memory.0);
        self.milli_cores = self.milli_cores.saturating_sub(claim.milli_cores);
    }
}

/// The tickets that one limit counts.
#[derive(Debug)]
pub(super) struct LimitCount {
    pub(super) scope: LimitKey,
    pub(super) limit: Option<u32>,
    pub(super) held: TicketAmount,
    pub(super) queued: TicketAmount,
    /// Number of attempts in a pool without a ticket: they occupy slots but are not granted any. Only for pools.
    pub(super) unticketed: u32,
    /// Number of held slots in which an attempt runs.
    pub(super) with_attempt: u32,
    /// Order of each waiting ticket.
    pub(super) waiting: Ranks,
    /// Predicted end of each held slot, milliseconds since 1970.
    pub(super) predicted_ends: Ranks,
    /// The highest round granted under this limit; at least the round before that of the first waiting ticket.
    pub(super) round: u64,
    /// Sum of the predicted durations of all tickets counted here, milliseconds.
    wall_sum_ms: u64,
}

impl LimitCount {
    /// Number of occupied slots, with or without a ticket.
    pub(super) fn taken_slots(&self) -> u32 {
        self.held.slots.saturating_add(self.unticketed)
    }

    pub(super) fn free_slots(&self) -> u32 {
        self.limit.map_or(u32::MAX, |most| most.saturating_sub(self.taken_slots()))
    }

    /// Whether no slot becomes free under this limit when a ticket ends.
    pub(super) fn is_closed(&self) -> bool {
        self.limit.is_some_and(|most| most <= self.unticketed)
    }

    /// Mean time for which a ticket under this limit holds its slot, milliseconds.
    pub(super) fn mean_hold_ms(&self) -> u64 {
        let all = u64::from(self.held.slots) + u64::from(self.queued.slots);
        self.wall_sum_ms.checked_div(all).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.held.slots == 0 && self.queued.slots == 0
    }
}

/// Predicted end of a ticket that holds a slot, and the ticket's number.
fn predicted_end(ticket: &Ticket) -> (u64, u64) {
    let granted = ticket.granted_unix_ms.unwrap_or_default();
    (granted.saturating_add(ticket.claim.wall.0), ticket.number)
}

#[derive(Debug, Default)]
pub(super) struct LimitCounts {
    counts: Slab<LimitCount>,
    index_of: HashMap<LimitKey, usize>,
    /// Number of attempts without a ticket, by pool; also for pools that no ticket names.
    unticketed: HashMap<String, u32>,
    /// Limits of pools that differ from the operator's file, because tickets hold hosts that were taken off the pool's list.
    changed_limits: HashMap<String, u32>,
}

impl LimitCounts {
    pub(super) fn get(&self, at: usize) -> Option<&LimitCount> {
        self.counts.get(at)
    }

    pub(super) fn free_slots_of(&self, at: usize) -> u32 {
        self.get(at).map_or(u32::MAX, LimitCount::free_slots)
    }

    /// Index of the count of a scope, if it has one.
    pub(super) fn at(&self, counter: &LimitKey) -> Option<usize> {
        self.index_of.get(counter).copied()
    }

    pub(super) fn of(&self, counter: &LimitKey) -> Option<&LimitCount> {
        self.at(counter).and_then(|at| self.get(at))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LimitCount> {
        self.counts.iter().map(|(_, count)| count)
    }

    /// Number of attempts without a ticket in a pool.
    pub(super) fn unticketed(&self, what: &LimitKey) -> u32 {
        let LimitKey::Pool(name) = what else { return 0 };
        self.unticketed.get(name).copied().unwrap_or(0)
    }

    /// Changes the number of attempts without a ticket in a pool by the function `change`.
    pub(super) fn set_unticketed(&mut self, pool: &str, change: impl FnOnce(u32) -> u32) {
        let now = change(self.unticketed.remove(pool).unwrap_or(0));
        if now > 0 {
            self.unticketed.insert(pool.to_owned(), now);
        }
        let count = self.at(&LimitKey::Pool(pool.to_owned())).and_then(|at| self.counts.get_mut(at));
        if let Some(count) = count {
            count.unticketed = now;
        }
    }

    /// Index of the count of a scope; creates the count if there is none.
    pub(super) fn index_for(&mut self, what: LimitKey, limits: &TicketLimits) -> usize {
        if let Some(at) = self.index_of.get(&what) {
            return *at;
        }
        let at = self.counts.insert(LimitCount {
            limit: self.limit_of(&what, limits),
            scope: what.clone(),
            held: TicketAmount::default(),
            queued: TicketAmount::default(),
            unticketed: self.unticketed(&what),
            with_attempt: 0,
            waiting: Ranks::default(),
            predicted_ends: Ranks::default(),
            round: 0,
            wall_sum_ms: 0,
        });
        self.index_of.insert(what, at);
        at
    }

    /// Adds a ticket to these counts, as waiting or as holding a slot.
    pub(super) fn add(&mut self, places: &[usize], ticket: &Ticket) {
        for at in places {
            let Some(count) = self.counts.get_mut(*at) else { continue };
            count.wall_sum_ms = count.wall_sum_ms.saturating_add(ticket.claim.wall.0);
            if ticket.granted_unix_ms.is_some() {
                count.held.add_claim(&ticket.claim);
                count.predicted_ends.insert(predicted_end(ticket));
                count.with_attempt += u32::from(ticket.attempt.is_some());
                count.round = count.round.max(ticket.round);
            } else {
                // if no ticket waits here, the round may be out of date: it becomes the one before the new ticket's
                let before = Some(ticket.round.saturating_sub(1)).filter(|_| count.waiting.len() == 0);
                count.round = count.round.max(before.unwrap_or_default());
                count.queued.add_claim(&ticket.claim);
                count.waiting.insert((ticket.round, ticket.number));
            }
        }
    }

    /// Removes a ticket from these counts. If `forget` is set, a count without tickets is removed too.
    pub(super) fn subtract(&mut self, places: &[usize], ticket: &Ticket, forget: bool) {
        for at in places {
            let Some(count) = self.counts.get_mut(*at) else { continue };
            count.wall_sum_ms = count.wall_sum_ms.saturating_sub(ticket.claim.wall.0);
            if ticket.granted_unix_ms.is_some() {
                count.held.remove_claim(&ticket.claim);
                count.predicted_ends.remove(predicted_end(ticket));
                count.with_attempt -= u32::from(ticket.attempt.is_some());
            } else {
                count.queued.remove_claim(&ticket.claim);
                count.waiting.remove((ticket.round, ticket.number));
            }
            if forget && count.is_empty() {
                self.index_of.remove(&count.scope);
                self.counts.remove(*at);
            }
        }
    }

    /// Records that an attempt started or ended in a held slot.
    pub(super) fn set_running(&mut self, places: &[usize], runs: bool) {
        for at in places {
            if let Some(count) = self.counts.get_mut(*at) {
                count.with_attempt =
                    count.with_attempt.saturating_add(u32::from(runs)).saturating_sub(u32::from(!runs));
            }
        }
    }

    /// Applies new limits to all counts.
    pub(super) fn apply_limits(&mut self, limits: &TicketLimits) {
        let new: Vec<(usize, Option<u32>)> =
            self.counts.iter().map(|(at, count)| (at, self.limit_of(&count.scope, limits))).collect();
        for (at, limit) in new {
            if let Some(count) = self.counts.get_mut(at) {
                count.limit = limit;
            }
        }
    }

    /// Sets the pools with a limit that differs from the operator's. For existing counts it applies from the next call of [`Self::apply_limits`].
    pub(super) fn set_slots(&mut self, slots: HashMap<String, u32>) {
        self.changed_limits = slots;
    }

    fn limit_of(&self, what: &LimitKey, limits: &TicketLimits) -> Option<u32> {
        let LimitKey::Pool(name) = what else { return limits.limit_of(what) };
        self.changed_limits.get(name).copied().or_else(|| limits.limit_of(what))
    }
}
