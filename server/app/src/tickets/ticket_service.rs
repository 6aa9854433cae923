//! Tickets for callers. `claim` derives from a request what the ticket needs (access, sizes, pool);
//! [`TicketRegistry`] stores the ticket.

mod claim;

pub(crate) use claim::{TagQuestion, TicketQuestion};
use plimsoll_core::validated::Validated;

use crate::{
    access::{Refusal, Reply, identity::Identity},
    sizing::SizingService,
    tickets::{NumberedTicket, TicketRegistry, View},
};

/// Opens tickets for callers; the registry watches and closes them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TicketService {
    pub(crate) sizing: SizingService,
    pub(crate) registry: TicketRegistry,
}

/// A ticket's state for a client of Resalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CollectedTicket {
    /// The ticket exists, and the caller may see it.
    Known {
        /// What the client gets: the name of the host, the output of the upstream's machine, or the name of the pool if it has neither;
        /// `None` while the ticket waits, or if it ended without a slot.
        output: Option<String>,
        closed: bool,
        /// The upstream of its pool has declared the machine failed.
        failed: bool,
    },
    /// No such ticket exists, or the caller may not see it.
    Unknown,
}

impl TicketService {
    /// Opens a ticket for a client of Resalloc and returns its number. A request that can never be
    /// granted gets a number, too: its client sees a ticket that has ended.
    /// Errors: the request is refused for now; the client may send it again later.
    pub(crate) async fn take(&self, caller: &Identity, asked: Validated<TagQuestion>) -> Reply<u64> {
        let claim = asked.map_err(Refusal::from).and_then(|asked| self.claim_by_tags(caller, &asked));
        self.registry.open_numbered(claim).await
    }

    /// State of the ticket with this number, for a client that may not wait for it.
    /// Errors: the ticket still waits: `turned_away`; or the store cannot write.
    pub(crate) async fn collect_at_once(
        &self,
        caller: &Identity,
        number: u64,
        turned_away: Refusal,
    ) -> Reply<CollectedTicket> {
        if self.registry.still_waits(number, caller).await? {
            return Err(turned_away);
        }
        self.collect(caller, number, false).await
    }

    /// State of the ticket with this number. With `granted`, waits until the ticket has a slot or
    /// has ended.
    /// Errors: the store cannot write, or the server is stopping.
    pub(crate) async fn collect(
        &self,
        caller: &Identity,
        number: u64,
        granted: bool,
    ) -> Reply<CollectedTicket> {
        let found = if granted {
            self.registry.collect_granted(number, caller).await?
        } else {
            self.registry.collect(number, caller).await?
        };
        let known = match found {
            NumberedTicket::Unknown => return Ok(CollectedTicket::Unknown),
            NumberedTicket::Gone => {
                return Ok(CollectedTicket::Known { output: None, closed: true, failed: false });
            }
            NumberedTicket::Known(view) => view,
        };
        let ticket = known.ticket();
        let output = ticket.is_ready().then(|| ticket.host_output().unwrap_or(&ticket.claim.pool).to_owned());
        let failed = ticket.machine.as_ref().is_some_and(|machine| machine.failed);
        Ok(CollectedTicket::Known { output, closed: matches!(known, View::Ended(..)), failed })
    }
}
