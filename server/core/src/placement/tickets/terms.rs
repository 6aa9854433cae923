//! The operator's settings for tickets.

use plimsoll_base::with_defaults;

use super::{TicketLimits, TicketTimeouts};

/// Default limit of open tickets. Each ticket takes about a KiB of memory and as much disk.
const MAX_OPEN: usize = 100_000;
/// Default of `ask_within_ms`: a client that polls every minute, or that lost its connection, asks again within this time.
const ASK_WITHIN_MS: u64 = 2 * 60_000;
/// Default of `start_within_ms`: creating a builder on demand, pulling its image and starting its agent takes some minutes.
const START_WITHIN_MS: u64 = 15 * 60_000;

/// Default of `silent_within_ms`: a network or server that was down is back by then, and a lost node is not.
const SILENT_WITHIN_MS: u64 = 10 * 60_000;

with_defaults! {
    /// Limits and times of tickets, in force until the operator's file changes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TicketTerms {
        /// How many tickets may hold slots at once.
        pub limits: TicketLimits,
        /// How long tickets stay open without a sign of life.
        pub timeouts: TicketTimeouts,
        /// How many tickets may be open.
        pub most_open: usize = MAX_OPEN,
    }
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
