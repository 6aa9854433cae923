//! Machines of a server upstream: a pool passes its tickets on to a server that speaks Resalloc's protocol.
//!
//! | module | |
//! |---|---|
//! | `address` | where the server is |
//! | `ledger` | the tickets that were taken there: which call comes next, and what its answer changes |
//! | `steps` | those calls, answers and changes |

mod address;
mod ledger;
mod steps;
#[cfg(test)]
mod tests;

pub use address::{ADDRESS_BYTES, UpstreamAddress};
pub use ledger::UpstreamLedger;
pub use steps::{
    CollectAnswer, LedgerCounts, LedgerEffects, LedgerEvent, LedgerStep, LedgerWrite, TicketHolder,
};

/// The upstream of a pool, with the pool's settings for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUpstream {
    /// Address of the upstream server.
    pub address: UpstreamAddress,
    /// Certificates of CAs that sign the server's certificate, as PEM; `None` if only those count that the system trusts.
    pub ca_certificates: Option<String>,
    /// Others use the server too: what may be theirs is never closed.
    pub shared: bool,
    /// Tags for each ticket there, in place of the ticket's own.
    pub tags: Vec<String>,
}
