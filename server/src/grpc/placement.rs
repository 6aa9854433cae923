//! `GetPools`, `GetDemand`, and the calls about tickets: convert, call, convert.

use plimsoll_proto::v1::{self as pb, placement_server::Placement};
use tonic::{Request, Response, Status};

use super::{guarded::caller, outbound::Answers, status, tickets::TicketCalls};
use crate::{
    demand::{Demands, PoolDemand, cores},
    placement::{Kind, Largest, Place, Policy, Pool, tickets::Amount},
    placing::Placing,
};

/// The service `plimsoll.v1.Placement`.
#[derive(Debug)]
pub(super) struct PlacementService {
    pub(super) placing: Placing,
    pub(super) demands: Demands,
    pub(super) tickets: TicketCalls,
}

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn get_pools(
        &self,
        _request: Request<pb::GetPoolsRequest>,
    ) -> Result<Response<pb::GetPoolsResponse>, Status> {
        let now = self.placing.now();
        let kinds = Kind::ALL.into_iter().filter_map(|known| Some(kind(known, now.kind(known)?)));
        Ok(Response::new(pb::GetPoolsResponse {
            pools: now
                .pools()
                .iter()
                .map(|known| pool(known, self.placing.places().count(&known.name)))
                .collect(),
            currency: now.currency().to_owned(),
            kinds: kinds.collect(),
        }))
    }

    async fn get_demand(
        &self,
        request: Request<pb::GetDemandRequest>,
    ) -> Result<Response<pb::GetDemandResponse>, Status> {
        let demands = match request.get_ref().pool.as_str() {
            "" => self.demands.all(),
            name => vec![self.demands.of("pool", name).map_err(|fault| status::of_fault(&fault))?],
        };
        Ok(Response::new(pb::GetDemandResponse { pools: demands.into_iter().map(demand).collect() }))
    }

    async fn open_ticket(
        &self,
        request: Request<pb::OpenTicketRequest>,
    ) -> Result<Response<pb::OpenTicketResponse>, Status> {
        let caller = caller(&request);
        let ticket = Some(self.tickets.open(&caller, request.into_inner()).await?);
        Ok(Response::new(pb::OpenTicketResponse { ticket }))
    }

    type WatchTicketStream = Answers<pb::WatchTicketResponse>;

    async fn watch_ticket(
        &self,
        request: Request<pb::WatchTicketRequest>,
    ) -> Result<Response<Self::WatchTicketStream>, Status> {
        self.tickets.watch(&request).map(Response::new)
    }

    async fn close_ticket(
        &self,
        request: Request<pb::CloseTicketRequest>,
    ) -> Result<Response<pb::CloseTicketResponse>, Status> {
        let ticket = Some(self.tickets.close(&caller(&request), request.get_ref()).await?);
        Ok(Response::new(pb::CloseTicketResponse { ticket }))
    }
}

fn pool(pool: &Pool, open_attempts: u32) -> pb::Pool {
    let Largest { memory_request, memory_limit, cpu_request, cpu_limit } = pool.largest;
    pb::Pool {
        name: pool.name.clone(),
        os: pool.os.as_str().to_owned(),
        arch: pool.arch.clone(),
        max_memory_request_bytes: memory_request.map(|bytes| bytes.0),
        max_memory_limit_bytes: memory_limit.map(|bytes| bytes.0),
        max_cpu_request_cores: cpu_request.map(|cores| cores.0),
        max_cpu_limit_cores: cpu_limit.map(|cores| cores.0),
        max_disk_bytes: pool.disk.map(|bytes| bytes.0),
        price_gib_hour: pool.price.gib_hour,
        price_core_hour: pool.price.core_hour,
        at_once: pool.at_once,
        on_demand: pool.on_demand,
        by_rule: pool.by_rule,
        tags: pool.tags.clone(),
        place: Some(place(&pool.place)),
        open_attempts,
    }
}

fn demand(demand: PoolDemand) -> pb::PoolDemand {
    let (wanted, held) = (Some(amount(demand.taken.wanted)), Some(amount(demand.taken.held)));
    pb::PoolDemand { pool: demand.pool, on_demand: demand.on_demand, wanted, held }
}

fn amount(amount: Amount) -> pb::Amount {
    pb::Amount { places: amount.places, cores: cores(amount), memory_bytes: amount.memory_bytes }
}

fn place(place: &Place) -> pb::Place {
    let toleration = |toleration: &crate::placement::Toleration| pb::Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.clone(),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
    };
    pb::Place {
        node_selector: place.node_selector.clone().into_iter().collect(),
        tolerations: place.tolerations.iter().map(toleration).collect(),
        priority_class: place.priority_class.clone(),
    }
}

fn kind(kind: Kind, policy: &Policy) -> pb::KindPolicy {
    pb::KindPolicy {
        kind: kind.as_str().to_owned(),
        place: Some(place(&policy.place)),
        raised_priority_class: policy.raised_priority_class.clone(),
        at_once: policy.at_once,
    }
}
