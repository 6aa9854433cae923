//! One who waits for a change of a ticket. As long as this lives, the ticket is heard of.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Ticket, TicketId},
    placement::tickets::TicketRefusal,
};
use tokio::sync::watch;

use super::{Refusal, Shared, View};

/// One who waits.
#[derive(Debug)]
pub(crate) struct Watching {
    shared: Arc<Shared>,
    id: TicketId,
    /// Tells the ticket from another one that has its id when it has ended.
    number: u64,
    holds: bool,
    /// Taken before the watcher is dropped.
    bell: Option<watch::Receiver<()>>,
}

impl Watching {
    pub(super) fn new(shared: Arc<Shared>, ticket: &Ticket, holds: bool, bell: watch::Receiver<()>) -> Self {
        Self { shared, id: ticket.id.clone(), number: ticket.number, holds, bell: Some(bell) }
    }

    /// Where the ticket stands; it is on the disk that it does.
    pub(crate) async fn view(&self) -> Result<View, Refusal> {
        let viewed = {
            let now = self.shared.now();
            let state = self.shared.state();
            (state.view(&self.id, now).and_then(|view| self.is_it(view)), state.changes())
        };
        self.shared.kept(viewed).await
    }

    /// The view, unless it is of another ticket that has the id by now.
    fn is_it(&self, view: View) -> Result<View, Refusal> {
        if view.ticket().number == self.number {
            return Ok(view);
        }
        Err(TicketRefusal::Unknown(self.id.clone()).into())
    }

    /// Waits until the ticket waits no longer.
    pub(crate) async fn until_granted(&mut self) -> Result<(), Refusal> {
        while let View::Open(status) = self.view().await?
            && status.ticket.granted_unix_ms.is_none()
        {
            self.changed().await;
        }
        Ok(())
    }

    /// Waits until it has its place, an attempt begins in it, or it ends.
    pub(crate) async fn changed(&mut self) {
        let rung = match &mut self.bell {
            Some(bell) => bell.changed().await,
            None => return,
        };
        // a bell that is gone rings no more, and hides nothing: the ticket has ended
        drop(rung);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.bell = None;
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.tickets.unwatch(&self.id, self.number, self.holds, now);
        state.drop_watcher(&self.id);
    }
}
