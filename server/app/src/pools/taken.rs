//! Occupancy of each pool: tickets, and open attempts without one.
//!
//! An attempt with a ticket is counted once, through its ticket. A trusted attempt without a ticket
//! is counted itself. Untrusted attempts without a ticket are counted once for each proven job, so
//! that an untrusted caller cannot make a pool look busy by opening attempts.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use plimsoll_core::placement::tickets::{PoolTickets, TicketAmount};

use super::open::{OpenInPool, sum};

/// Demand of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PoolOccupancy {
    /// Slots and sizes of tickets that wait.
    pub(crate) wanted: TicketAmount,
    /// Slots and sizes of tickets that hold a slot, and of open attempts without a ticket.
    pub(crate) held: TicketAmount,
}

impl PoolOccupancy {
    /// The demand in total.
    pub(crate) fn total(self) -> TicketAmount {
        sum(self.wanted, self.held)
    }

    /// Adds up tickets, if the pool has any, and open attempts.
    pub(super) fn of(tickets: Option<PoolTickets>, open: OpenInPool) -> Self {
        let (wanted, held, attended) =
            tickets.map_or_else(Default::default, |demand| (demand.queued, demand.held, demand.attended));
        // An attempt with a ticket need not name its pool: then the ticket is attended, and the
        // attempt is not counted in `open`.
        let beside = open.without_ticket.slots.saturating_add(open.with_ticket.saturating_sub(attended));
        Self { wanted, held: sum(held, TicketAmount { slots: beside, ..open.without_ticket }) }
    }
}

/// Returns the demand of a pool's tickets; `None` if the pool has none.
type TicketSource = Arc<dyn Fn(&str) -> Option<PoolTickets> + Send + Sync>;

/// The function that returns the demand of tickets. Empty until the ticket registry has started.
#[derive(Default)]
pub(super) struct TicketDemand(RwLock<Option<TicketSource>>);

impl TicketDemand {
    pub(super) fn set(&self, tickets: TicketSource) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(tickets);
    }

    pub(super) fn of(&self, pool: &str) -> Option<PoolTickets> {
        // called after this lock is released, because the tickets have a lock of their own
        let asked = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        asked.and_then(|asked| asked(pool))
    }
}

impl fmt::Debug for TicketDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketDemand").finish_non_exhaustive()
    }
}
