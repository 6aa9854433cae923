//! `GetPools`, `GetDemand`, and the calls about tickets. Each handler converts the request, calls a
//! room, and converts the result.

use plimsoll_core::placement::{BuildKind, Pool};
use plimsoll_proto::v1::{self as pb, placement_server::Placement};
use tonic::{Request, Response};

use super::{caller::caller, outbound::Answers, status::RpcResult, streams::Streams, tickets::follow};
use crate::{
    access::Refusal,
    door::wire::{
        self,
        pools::{demand, kind, pool},
    },
    pools::PoolRegistry,
    tickets::{Demands, TicketService, WaitSlots},
};

/// The service `plimsoll.v1.Placement`.
#[derive(Debug)]
pub(super) struct PlacementService {
    pub(super) pools: PoolRegistry,
    pub(super) demands: Demands,
    pub(super) tickets: TicketService,
    pub(super) watchers: Streams,
    pub(super) waits: WaitSlots,
}

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn get_pools(&self, _request: Request<pb::GetPoolsRequest>) -> RpcResult<pb::GetPoolsResponse> {
        let now = self.pools.now();
        let kinds = BuildKind::ALL.into_iter().filter_map(|known| Some(kind(known, now.kind(known)?)));
        let answered = |known: &Pool| {
            let open_attempts = self.pools.places().count(&known.name);
            let tickets = &self.tickets.registry;
            pool(known, open_attempts, tickets.hosts(known), tickets.upstream(known))
        };
        Ok(Response::new(pb::GetPoolsResponse {
            pools: now.pools().iter().map(answered).collect(),
            currency: now.currency().to_owned(),
            kinds: kinds.collect(),
        }))
    }

    async fn get_demand(&self, request: Request<pb::GetDemandRequest>) -> RpcResult<pb::GetDemandResponse> {
        let demands = match request.get_ref().pool.as_str() {
            "" => self.demands.all(),
            name => vec![self.demands.of("pool", name).map_err(Refusal::Fault)?],
        };
        Ok(Response::new(pb::GetDemandResponse { pools: demands.into_iter().map(demand).collect() }))
    }

    async fn open_ticket(
        &self,
        request: Request<pb::OpenTicketRequest>,
    ) -> RpcResult<pb::OpenTicketResponse> {
        let caller = caller(&request);
        let (id, asked) = wire::tickets::opening(request.into_inner()).map_err(Refusal::Fault)?;
        let view = self.tickets.open(&caller, &id, asked).await?;
        let ticket = Some(wire::tickets::ticket(&view));
        Ok(Response::new(pb::OpenTicketResponse { ticket }))
    }

    type WatchTicketStream = Answers<pb::WatchTicketResponse>;

    async fn watch_ticket(
        &self,
        request: Request<pb::WatchTicketRequest>,
    ) -> RpcResult<Self::WatchTicketStream> {
        let (asked, caller) = (request.get_ref(), caller(&request));
        let id = wire::ticket_id("ticket", &asked.ticket).map_err(Refusal::Fault)?;
        // first: dropping it prolongs the ticket of a client that has to come back
        let watching = self.tickets.registry.watch(&id, asked.hold, &caller)?;
        let stream = self.watchers.reserve(caller.clone())?;
        let slot = watching.waits().then(|| self.waits.take(&caller)).transpose()?;
        Ok(Response::new(stream.answer(|outbound| Box::pin(follow(watching, slot, outbound)))))
    }

    async fn close_ticket(
        &self,
        request: Request<pb::CloseTicketRequest>,
    ) -> RpcResult<pb::CloseTicketResponse> {
        let (asked, caller) = (request.get_ref(), caller(&request));
        let id = wire::ticket_id("ticket", &asked.ticket).map_err(Refusal::Fault)?;
        let registry = &self.tickets.registry;
        let view = match asked.session.as_str() {
            "" => registry.close(&id, &asked.owner, &caller).await?,
            session => registry.give_back(&id, session, &caller).await?,
        };
        let ticket = Some(wire::tickets::ticket(&view));
        Ok(Response::new(pb::CloseTicketResponse { ticket }))
    }
}
