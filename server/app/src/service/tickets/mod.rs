//! Tickets for callers: `claim` derives the claim of a request (access, sizes, pool), [`TicketRegistry`] keeps the ticket.

mod claim;

pub(crate) use claim::{TagQuestion, TicketQuestion};
use plimsoll_core::{domain::TicketId, validated::Validated};

use super::SizingService;
use crate::{
    access::identity::Identity,
    state::tickets::{NumberedTicket, Refusal, TicketRegistry, View, Watching},
};

/// Opens, watches and closes tickets for callers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TicketService {
    pub(crate) sizing: SizingService,
    pub(crate) registry: TicketRegistry,
}

/// Proof that the caller may close a ticket, in addition to its identity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CloseBy<'a> {
    /// The owner that the answer to the opening named.
    Owner(&'a str),
    /// The session of the last attempt in the ticket's slot.
    Session(&'a str),
}

/// A ticket's state for a client of Resalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CollectedTicket {
    /// There is one.
    Known {
        /// What the client got with its place: the host, or the name of a pool without hosts; `None` while it waits, or if it ended before.
        output: Option<String>,
        closed: bool,
    },
    /// There is none that the caller may see.
    Unknown,
}

impl TicketService {
    /// Opens a ticket for a client of Resalloc; gives its number. A question that can never be answered with a place has a number, too: to
    /// its client it is a ticket that has ended.
    ///
    /// # Errors
    /// The same question may be answered later.
    pub(crate) async fn take(
        &self,
        caller: &Identity,
        asked: Validated<TagQuestion>,
    ) -> Result<u64, Refusal> {
        let claim = asked.map_err(Refusal::from).and_then(|asked| self.claim_by_tags(caller, &asked));
        self.registry.open_numbered(claim).await
    }

    /// What became of the ticket with this number; with `granted`, once it has its place or has ended.
    ///
    /// # Errors
    /// The store cannot write, or the server is stopping.
    pub(crate) async fn collect(
        &self,
        caller: &Identity,
        number: u64,
        granted: bool,
    ) -> Result<CollectedTicket, Refusal> {
        let found = if granted {
            self.registry.collect_granted(number, caller).await?
        } else {
            self.registry.collect(number, caller).await?
        };
        let known = match found {
            NumberedTicket::Unknown => return Ok(CollectedTicket::Unknown),
            NumberedTicket::Gone => return Ok(CollectedTicket::Known { output: None, closed: true }),
            NumberedTicket::Known(view) => view,
        };
        let ticket = known.ticket();
        let output =
            ticket.is_ready().then(|| ticket.host.clone().unwrap_or_else(|| ticket.claim.pool.clone()));
        Ok(CollectedTicket::Known { output, closed: matches!(known, View::Ended(..)) })
    }

    /// Ends the ticket with this number, if there is one that the caller may touch.
    ///
    /// # Errors
    /// The store cannot write.
    pub(crate) async fn close_numbered(&self, caller: &Identity, number: u64) -> Result<(), Refusal> {
        self.registry.close_numbered(number, caller).await
    }

    /// Ends a ticket. An ended one keeps its result.
    ///
    /// # Errors
    /// It does not exist, or is not visible to this caller.
    pub(crate) async fn close(
        &self,
        caller: &Identity,
        id: &TicketId,
        by: CloseBy<'_>,
    ) -> Result<View, Refusal> {
        match by {
            CloseBy::Owner(owner) => self.registry.close(id, owner, caller).await,
            CloseBy::Session(session) => self.registry.give_back(id, session, caller).await,
        }
    }

    /// Watches a ticket; with `holds`, its slot is held while the result lives.
    ///
    /// # Errors
    /// It does not exist, or is not visible to this caller.
    pub(crate) fn watch(&self, caller: &Identity, id: &TicketId, holds: bool) -> Result<Watching, Refusal> {
        self.registry.watch(id, holds, caller)
    }
}
