//! The stream to a watcher of a ticket.

use std::time::Duration;

use plimsoll_proto::v1 as pb;
use tonic::Status;

use super::{outbound::Outbound, streams::StreamLimit};
use crate::{
    access::Refusal,
    door::wire,
    tickets::{View, WaitSlot, Watching},
};

/// Most watchers. Each uses a stream of its connection and some KiB. A client that gets no slot can
/// poll with `OpenTicket` instead.
pub(super) const WATCHERS: StreamLimit = StreamLimit { what: "watchers of tickets", most: 16_384 };

/// How often a watcher is sent its ticket's position in the queue.
const POSITION_INTERVAL: Duration = Duration::from_secs(5);

/// Sends changes of a ticket to a watcher until the ticket has ended. The watcher keeps its slot among those that wait until the ticket is
/// ready.
pub(super) async fn follow(
    mut watching: Watching,
    mut slot: Option<WaitSlot>,
    outbound: &Outbound<pb::WatchTicketResponse>,
) -> Result<(), Status> {
    let mut last = None;
    loop {
        let view = watching.view().await;
        match view {
            Ok(view) => {
                slot = slot.filter(|_slot| view.waits());
                let now = wire::tickets::ticket(&view);
                if last.as_ref() != Some(&now) {
                    outbound.send(pb::WatchTicketResponse { ticket: Some(now.clone()) }).await?;
                    last = Some(now);
                }
                if matches!(view, View::Ended(..)) {
                    return Ok(());
                }
            }
            // a change that is not on disk is not sent: it may be on disk when the next one is sent
            Err(Refusal::TicketUnwritable(_)) => {}
            Err(refusal) => return Err(refusal.into()),
        }
        let _elapsed = tokio::time::timeout(POSITION_INTERVAL, watching.changed()).await;
    }
}
