//! What the operator says of tickets.

use super::{TicketLimits, TicketTimeouts};

/// Tickets that may be open where the operator names no bound. Each takes about a KiB of memory and as much of the disk.
const MOST_OPEN: usize = 100_000;
/// A client that asks again every minute, or whose connection was lost, is back by then.
const ASK_WITHIN_MS: u64 = 2 * 60_000;
/// A builder that is made on demand, its image pulled and its agent started, takes some minutes.
const START_WITHIN_MS: u64 = 15 * 60_000;

/// A network that was away, or a server that was restarted, is back by then; a node that is gone is not.
const SILENT_WITHIN_MS: u64 = 10 * 60_000;

/// Limits and times, in force until the file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketTerms {
    /// How many may hold places.
    pub limits: TicketLimits,
    /// How long tickets stay open without a sign of life.
    pub patience: TicketTimeouts,
    /// How many may be open.
    pub most_open: usize,
}

impl Default for TicketTimeouts {
    fn default() -> Self {
        Self {
            ask_within_ms: ASK_WITHIN_MS,
            start_within_ms: START_WITHIN_MS,
            silent_within_ms: SILENT_WITHIN_MS,
        }
    }
}

impl Default for TicketTerms {
    fn default() -> Self {
        Self { limits: TicketLimits::default(), patience: TicketTimeouts::default(), most_open: MOST_OPEN }
    }
}
