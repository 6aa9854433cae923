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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_proto::v1::placement_server::Placement as _;
    use plimsoll_store::Store;
    use tokio_stream::StreamExt as _;
    use tokio_util::{sync::CancellationToken, task::TaskTracker};
    use tonic::Code;

    use super::*;
    use crate::{
        access::identity::Role,
        door::{
            fixture,
            grpc::{guarded::tests::OneStream, placement::PlacementService, streams::Streams},
        },
        pools::PoolRegistry,
        runtime::{clock::Clock, metrics::Metrics},
        tickets::{Demands, TicketRegistry, TicketService, WaitSlots},
    };

    #[tokio::test]
    async fn ticket_watches_are_limited_and_end_on_change() {
        let metrics = Arc::new(Metrics::new());
        let pools = PoolRegistry::open(None, Arc::clone(&metrics)).unwrap();
        let (registry, keeper) = TicketRegistry::new(Store::memory(), pools.clone(), metrics, Clock);
        let demands = Demands::new(pools.clone());
        // who watches a ticket that is ready does not wait
        let waits = WaitSlots::new(0, 0, Arc::new(Metrics::new()));
        let tickets = TicketService { sizing: fixture::sizing_alone(pools.clone()), registry };
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(keeper.run(stopping.clone()));
        let watchers = Streams::new(WATCHERS, tasks, stopping);
        let service = PlacementService { pools, demands, tickets, watchers, waits };
        let one = OneStream::new(Role::Caller);
        let key = Some(pb::Key { package: "zlib".into(), ..pb::Key::default() });
        let question = pb::OpenTicketRequest { ticket: "t".into(), key, ..pb::OpenTicketRequest::default() };
        service.open_ticket(one.ask(question)).await.unwrap();
        let watch =
            || service.watch_ticket(one.ask(pb::WatchTicketRequest { ticket: "t".into(), hold: false }));
        let mut answers = watch().await.unwrap().into_inner();
        assert_eq!(answers.next().await.unwrap().unwrap().ticket.unwrap().ticket, "t");
        assert_eq!(watch().await.map(drop).unwrap_err().code(), Code::ResourceExhausted);
        one.change();
        assert_eq!(answers.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
}
