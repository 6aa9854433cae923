//! What happens to tickets, and why something does not.

use crate::domain::{Ticket, TicketId};

/// A moment by two clocks: the wall clock, for what is shown and stored; and the monotonic clock, for what expires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// Milliseconds since some moment.
    pub steady_ms: u64,
}

/// How a ticket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketEnd {
    /// It was closed, or its attempt ended.
    Closed,
    /// Its build and its clients were silent for too long.
    Expired,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketChange {
    /// A ticket has its place.
    Granted(TicketId),
    /// A ticket is there no longer.
    Ended(Box<Ticket>, TicketEnd),
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// As many are open as may be.
    #[error("limit of {0} open tickets reached; retry later")]
    Full(usize),
    /// So many of the owner are open that the rest of the bound is left to others.
    #[error(
        "this owner has {of_owner} open tickets, and the rest of the limit of {most} is for other owners; retry later"
    )]
    Crowded {
        /// Open tickets of the owner.
        of_owner: usize,
        /// As many may be open, of all owners.
        most: usize,
    },
    /// Tickets of so many sorts wait that no other sort is taken.
    #[error("limit of {0} waiting combinations of pool, kind and tags reached; retry later")]
    Mixed(usize),
    /// Another question has this id.
    #[error("ticket {0} is open for another key, kind, owner, pool or tags; give this one an id of its own")]
    Taken(TicketId),
    /// It is not open.
    #[error(
        "ticket {0} is not open: it was never opened, or it has ended; how a ticket ended is known for a while, and not after a restart of \
         the server"
    )]
    Unknown(TicketId),
    /// With these limits it could never be granted.
    #[error("the limit for {0} is 0: it would wait for ever")]
    Never(String),
}
