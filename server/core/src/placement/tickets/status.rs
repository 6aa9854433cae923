//! The status of a ticket, and of all tickets in a pool.

use super::{Amount, ClockReading, LimitKey, Tickets, count::LimitCount};
use crate::domain::{Millis, Ticket, TicketId};

/// Where a ticket stands.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketStatus {
    /// The ticket.
    pub ticket: Ticket,
    /// Its place among those that wait for the same pool, from 1; 0 if it holds a place.
    pub position: usize,
    /// When it will have its place, from now: a guess from the predicted ends of those who hold. 0 if it has it.
    pub wait: Millis,
    /// The limits that hold it up, in words: which, how many hold, how many may.
    pub waits_for: Vec<String>,
}

/// What is wanted and held in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDemand {
    /// Its name; empty where the operator names none.
    pub pool: String,
    /// What waits.
    pub queued: Amount,
    /// What holds.
    pub held: Amount,
    /// Held places in which an attempt runs that said so: they are counted as open attempts, too.
    pub attended: u32,
}

impl Tickets {
    /// Where a ticket stands; `None` if it is not open.
    pub fn status(&self, id: &TicketId, now: ClockReading) -> Option<TicketStatus> {
        let entry = self.known.get(id)?;
        let ticket = entry.ticket.clone();
        if ticket.granted_unix_ms.is_some() {
            return Some(TicketStatus { ticket, position: 0, wait: Millis(0), waits_for: Vec::new() });
        }
        let order = (ticket.round, ticket.number);
        let pool = LimitKey::Pool(ticket.claim.pool.clone());
        let position = self.counts.of(&pool).map_or(0, |count| count.waiting.before(order)) + 1;
        let counts = || entry.counts.iter().filter_map(|at| self.counts.get(*at));
        // nothing of its own holds it up: what it needs is kept for those who wait for longer
        let wait = counts().map(|count| until_turn(count, order, now)).max().unwrap_or_default();
        let full = counts().filter(|count| count.free() == 0);
        Some(TicketStatus { position, wait: Millis(wait), waits_for: full.map(words).collect(), ticket })
    }

    /// What is wanted and held in one pool; `None` if nothing is.
    pub fn demand_in(&self, pool: &str) -> Option<PoolDemand> {
        let count = self.counts.of(&LimitKey::Pool(pool.to_owned()))?;
        let (queued, held, attended) = (count.queued, count.held, count.attended);
        Some(PoolDemand { pool: pool.to_owned(), queued, held, attended })
    }

    /// What is wanted and held, by pool of the operator's file, in the order of their names. Pools without demand are not named;
    /// tickets without a pool stand under the empty name.
    pub fn demand(&self) -> Vec<PoolDemand> {
        // not by all that is counted: that is one for each owner, too
        let pools = self.terms.limits.pools.iter().map(String::as_str).chain([""]);
        let mut demand: Vec<PoolDemand> = pools.filter_map(|pool| self.demand_in(pool)).collect();
        demand.sort_unstable_by(|one, other| one.pool.cmp(&other.pool));
        demand
    }
}

/// A limit that holds a ticket up, for people.
fn words(count: &LimitCount) -> String {
    let text = format!("{}: {} of {}", count.what, count.taken(), count.limit.unwrap_or_default());
    if count.beside == 0 { text } else { format!("{text}, {} without a ticket", count.beside) }
}

/// Milliseconds until the limit of `count` has a place for the ticket with this turn, if those who hold end as predicted and their
/// places go round in the time that is usual. So do the places of attempts without a ticket: of their ends nothing is known here.
fn until_turn(count: &LimitCount, order: (u64, u64), now: ClockReading) -> u64 {
    let ahead = count.waiting.before(order) as u64;
    let free = u64::from(count.free());
    let Some(behind) = ahead.checked_sub(free) else { return 0 };
    let taken = u64::from(count.taken());
    let (turns, at) = (behind.checked_div(taken).unwrap_or(behind), behind.checked_rem(taken).unwrap_or(0));
    let end = usize::try_from(at).ok().and_then(|at| count.ends.nth(at));
    // who should have ended before now will at any moment
    let unknown = if count.beside > 0 { count.usual_ms() } else { 0 };
    let first = end.map_or(unknown, |(end, _)| end.saturating_sub(now.unix_ms));
    first.saturating_add(turns.saturating_mul(count.usual_ms()))
}
