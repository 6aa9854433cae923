//! Demand of each pool: tickets, and open attempts without one.
//!
//! An attempt in the slot of a ticket is counted once, by its ticket. An attempt without a ticket counts if it is trusted, otherwise once
//! for its proven job: opening attempts alone cannot make a pool busy.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use plimsoll_core::placement::tickets::{Amount, PoolDemand};

use super::open::{Open, sum};

/// Demand of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Tickets that wait.
    pub(crate) wanted: Amount,
    /// Tickets that hold a slot, and open attempts without one.
    pub(crate) held: Amount,
}

impl Taken {
    /// The demand in total.
    pub(crate) fn all(self) -> Amount {
        sum(self.wanted, self.held)
    }

    /// Combines tickets, if there are any, and open attempts.
    pub(super) fn of(tickets: Option<PoolDemand>, open: Open) -> Self {
        let (wanted, held, attended) =
            tickets.map_or_else(Default::default, |demand| (demand.queued, demand.held, demand.attended));
        // an attempt with a ticket need not name its pool: then it is attended, and not counted as open here
        let beside = open.without_ticket.places.saturating_add(open.with_ticket.saturating_sub(attended));
        Self { wanted, held: sum(held, Amount { places: beside, ..open.without_ticket }) }
    }
}

/// Returns the tickets of one pool; `None` if there are none.
type Asked = Arc<dyn Fn(&str) -> Option<PoolDemand> + Send + Sync>;

/// The source for tickets: none at first.
#[derive(Default)]
pub(super) struct OfTickets(RwLock<Option<Asked>>);

impl OfTickets {
    pub(super) fn set(&self, tickets: Asked) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(tickets);
    }

    pub(super) fn of(&self, pool: &str) -> Option<PoolDemand> {
        // not under the lock: the tickets have one of their own
        let asked = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        asked.and_then(|asked| asked(pool))
    }
}

impl fmt::Debug for OfTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfTickets").finish_non_exhaustive()
    }
}
