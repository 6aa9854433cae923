//! Tickets, for callers: what a question claims (access, sizes, pool) in `claim`, then the ticket itself, which [`TicketRegistry`] keeps.

mod claim;

pub(crate) use claim::TicketQuestion;
use plimsoll_core::domain::TicketId;

use super::SizingService;
use crate::{
    access::identity::Identity,
    state::tickets::{Refusal, TicketRegistry, View, Watching},
};

/// Opens, watches and closes tickets for callers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TicketService {
    pub(crate) sizing: SizingService,
    pub(crate) registry: TicketRegistry,
}

/// By what a caller proves that it may close a ticket, beside its identity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CloseBy<'a> {
    /// The owner that the answer to the opening named.
    Owner(&'a str),
    /// The session of the last attempt in the ticket's place.
    Session(&'a str),
}

impl TicketService {
    /// Ends a ticket. One that has ended stays as it ended.
    ///
    /// # Errors
    /// It is not there, or not for this caller.
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

    /// Watches a ticket; with `holds`, its place is held as long as the result lives.
    ///
    /// # Errors
    /// It is not there, or not for this caller.
    pub(crate) fn watch(&self, caller: &Identity, id: &TicketId, holds: bool) -> Result<Watching, Refusal> {
        self.registry.watch(id, holds, caller)
    }
}
