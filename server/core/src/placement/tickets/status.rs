//! The status of a ticket, and of all tickets in a pool.

use super::{ClockReading, LimitKey, TicketAmount, Tickets, count::LimitCount};
use crate::domain::{Millis, Ticket, TicketId};

/// The status of a ticket.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketStatus {
    /// The ticket itself.
    pub ticket: Ticket,
    /// The ticket's position among those that wait for the same pool, from 1; 0 if it holds a slot.
    pub position: usize,
    /// Estimated wait, computed from the predicted ends of tickets that hold slots; 0 if the ticket holds a slot.
    pub wait: Millis,
    /// The limits that block the ticket, in words: which limit, how many slots are held, how many are allowed.
    pub waits_for: Vec<String>,
}

/// Waiting and held tickets of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTickets {
    /// Name of the pool; empty if the operator defined no pools.
    pub pool: String,
    /// Number and resources of the tickets that wait.
    pub queued: TicketAmount,
    /// Number and resources of the tickets that hold slots.
    pub held: TicketAmount,
    /// Number of held tickets that an attempt names: these are counted as open attempts too.
    pub attended: u32,
}

impl Tickets {
    /// The status of a ticket; `None` if it is not open.
    pub fn status(&self, id: &TicketId, now: ClockReading) -> Option<TicketStatus> {
        let entry = self.known.get(id)?;
        let ticket = entry.ticket.clone();
        if ticket.granted_unix_ms.is_some() {
            let host =
                (!ticket.is_ready()).then(|| format!("pool {}: a host that answers", ticket.claim.pool));
            let waits_for = Vec::from_iter(host);
            return Some(TicketStatus { ticket, position: 0, wait: Millis(0), waits_for });
        }
        let order = (ticket.round, ticket.number);
        let pool = LimitKey::Pool(ticket.claim.pool.clone());
        let position = self.counts.of(&pool).map_or(0, |count| count.waiting.count_before(order)) + 1;
        let counts = || entry.counts.iter().filter_map(|at| self.counts.get(*at));
        // if no limit blocks the ticket, slots are reserved for tickets that have waited longer
        let wait = counts().map(|count| until_turn(count, order, now)).max().unwrap_or_default();
        let full = counts().filter(|count| count.free_slots() == 0);
        Some(TicketStatus {
            position,
            wait: Millis(wait),
            waits_for: full.map(limit_words).collect(),
            ticket,
        })
    }

    /// Waiting and held tickets of one pool; `None` if there are none.
    pub fn demand_in(&self, pool: &str) -> Option<PoolTickets> {
        let count = self.counts.of(&LimitKey::Pool(pool.to_owned()))?;
        let (queued, held, attended) = (count.queued, count.held, count.with_attempt);
        Some(PoolTickets { pool: pool.to_owned(), queued, held, attended })
    }

    /// Waiting and held tickets by pool, in the order of names. Pools without tickets are left out; tickets without a pool are counted
    /// under the empty name.
    pub fn demand(&self) -> Vec<PoolTickets> {
        // the loop is over pools only, not over all counts, because there is also a count for each owner
        let pools = self.terms.limits.pools.iter().map(String::as_str).chain([""]);
        let mut demand: Vec<PoolTickets> = pools.filter_map(|pool| self.demand_in(pool)).collect();
        demand.sort_unstable_by(|one, other| one.pool.cmp(&other.pool));
        demand
    }
}

/// Describes a limit that blocks a ticket.
fn limit_words(count: &LimitCount) -> String {
    let text = format!("{}: {} of {}", count.scope, count.taken_slots(), count.limit.unwrap_or_default());
    if count.unticketed == 0 { text } else { format!("{text}, {} without a ticket", count.unticketed) }
}

/// Estimated time until the limit of `count` has a slot for the ticket with this order, milliseconds: it is assumed that holders end as
/// predicted, and that freed slots are then held for the usual time. The ends of attempts without a ticket are unknown here, so their slots
/// are assumed to become free at the same rate.
fn until_turn(count: &LimitCount, order: (u64, u64), now: ClockReading) -> u64 {
    let ahead = count.waiting.count_before(order) as u64;
    let free = u64::from(count.free_slots());
    let Some(behind) = ahead.checked_sub(free) else { return 0 };
    let taken = u64::from(count.taken_slots());
    let (turns, at) = (behind.checked_div(taken).unwrap_or(behind), behind.checked_rem(taken).unwrap_or(0));
    let end = usize::try_from(at).ok().and_then(|at| count.predicted_ends.nth(at));
    // holders that are past their predicted end are expected to end at any moment
    let unknown = if count.unticketed > 0 { count.mean_hold_ms() } else { 0 };
    let first = end.map_or(unknown, |(end, _)| end.saturating_sub(now.unix_ms));
    first.saturating_add(turns.saturating_mul(count.mean_hold_ms()))
}
