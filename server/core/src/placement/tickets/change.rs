//! Changes of tickets, and the reasons for which requests are refused.

use crate::domain::{Ticket, TicketId};

/// A moment by two clocks: the wall clock, for times that are shown and stored, and the monotonic clock, for timeouts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds since 1970, by the wall clock.
    pub unix_ms: u64,
    /// Milliseconds since an arbitrary moment, by the monotonic clock.
    pub steady_ms: u64,
}

/// How a ticket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketEnd {
    /// The ticket was closed, or its attempt ended.
    Closed,
    /// The ticket's build and its clients were silent for too long.
    Expired,
}

/// A change of a ticket's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketChange {
    /// A ticket got its slot.
    Granted(TicketId),
    /// A ticket ended.
    Ended(Box<Ticket>, TicketEnd),
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// The limit of open tickets is reached.
    #[error("limit of {0} open tickets reached; retry later")]
    Full(usize),
    /// This owner's share of the limit of open tickets is reached; the rest is reserved for others.
    #[error(
        "this owner has {of_owner} open tickets, and the rest of the limit of {most} is for other owners; retry later"
    )]
    Crowded {
        /// Number of open tickets of the owner.
        of_owner: usize,
        /// The limit of open tickets, over all owners.
        most: usize,
    },
    /// The caller is a CI job or a pod, and has as many open tickets as one may have.
    #[error("this job has {0} open tickets, the most that a job's token may have; close one of them")]
    OfJob(usize),
    /// The limit of different combinations of pool, kind and tags is reached.
    #[error("limit of {0} waiting combinations of pool, kind and tags reached; retry later")]
    Mixed(usize),
    /// A different request already uses this id.
    #[error("ticket {0} is open for another key, kind, owner, pool or tags; give this one an id of its own")]
    Taken(TicketId),
    /// The ticket is not open.
    #[error(
        "ticket {0} is not open: it was never opened, or it has ended; how a ticket ended is known for a while, and not after a restart of \
         the server"
    )]
    Unknown(TicketId),
    /// The limits in force would never allow the ticket.
    #[error("the limit for {0} is 0: it would wait for ever")]
    Never(String),
}
