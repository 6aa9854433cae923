//! A watcher that waits for changes of a ticket. While it exists, the ticket counts as in use.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Ticket, TicketId},
    placement::tickets::TicketRefusal,
};
use tokio::sync::watch;

use super::{TicketRegistryState, View};
use crate::access::Reply;

/// A client that watches a ticket.
#[derive(Debug)]
pub(crate) struct Watching {
    shared: Arc<TicketRegistryState>,
    id: TicketId,
    /// Distinguishes the ticket from a later one with the same id.
    number: u64,
    holds: bool,
    /// Receives the changes of the ticket; dropped before the watcher is removed.
    change_receiver: Option<watch::Receiver<()>>,
}

impl Watching {
    pub(super) fn new(
        shared: Arc<TicketRegistryState>,
        ticket: &Ticket,
        holds: bool,
        change_receiver: watch::Receiver<()>,
    ) -> Self {
        Self {
            shared,
            id: ticket.id.clone(),
            number: ticket.number,
            holds,
            change_receiver: Some(change_receiver),
        }
    }

    /// The status of the ticket, once it is on disk.
    pub(crate) async fn view(&self) -> Reply<View> {
        let viewed = {
            let now = self.shared.now();
            let state = self.shared.state();
            (state.view(&self.id, now).and_then(|view| self.is_it(view)), state.changes())
        };
        self.shared.kept(viewed).await
    }

    /// Whether the ticket waits until it can be used, also if that is not yet on disk.
    pub(crate) fn waits(&self) -> bool {
        let now = self.shared.now();
        let viewed = self.shared.state().view(&self.id, now).and_then(|view| self.is_it(view));
        viewed.is_ok_and(|view| view.waits())
    }

    /// Returns `view`, unless it is of a later ticket with the same id.
    fn is_it(&self, view: View) -> Reply<View> {
        if view.ticket().number == self.number {
            return Ok(view);
        }
        Err(TicketRefusal::Unknown(self.id.clone()).into())
    }

    /// Waits until the ticket has its slot or has ended.
    pub(crate) async fn until_granted(&mut self) -> Reply<()> {
        while self.view().await?.waits() {
            self.changed().await;
        }
        Ok(())
    }

    /// Waits until the ticket gets its slot, an attempt starts in it, or it ends.
    pub(crate) async fn changed(&mut self) {
        let rung = match &mut self.change_receiver {
            Some(change_receiver) => change_receiver.changed().await,
            None => return,
        };
        // the notifier is gone because the ticket has ended: return at once
        drop(rung);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.change_receiver = None;
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.tickets.unwatch(&self.id, self.number, self.holds, now);
        state.drop_watcher(&self.id);
    }
}
