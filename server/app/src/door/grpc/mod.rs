//! The gRPC listener: the services of `plimsoll.v1`, KEDA's external scaler, health and reflection.
//! Handlers convert the request, call a room, and convert the result.

mod call_answer;
mod collector;
mod deadline;
pub(crate) mod foreign;
mod gate;
mod guarded;
mod introspection;
mod outbound;
mod pending_acks;
mod placement;
mod predictor;
mod request_check;
mod scaler;
mod serving;
mod stats;
mod status;
mod streams;
mod tickets;

use std::{future::ready, sync::Arc};

use collector::CollectorService;
use gate::{Gate, MAX_REFLECTIONS};
use hyper::{Request, body::Incoming};
use introspection::IntrospectionService;
use placement::PlacementService;
use plimsoll_proto::{
    DESCRIPTORS,
    externalscaler::external_scaler_server::ExternalScalerServer,
    limits,
    v1::{
        collector_server::CollectorServer, introspection_server::IntrospectionServer,
        placement_server::PlacementServer, predictor_server::PredictorServer, stats_server::StatsServer,
    },
};
use predictor::PredictorService;
use scaler::ScalerService;
pub(crate) use serving::policy;
use stats::StatsService;
use streams::{StreamLimit, Streams};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};
use tonic::{codegen::Service as _, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use crate::{
    access::guard::Guard,
    door::{
        Services,
        calls::Calls,
        net::{self, Listener, Policy},
        read_api::ReadApi,
    },
    ingest::Ingest,
    pools::PoolRegistry,
    runtime::metrics::Metrics,
    tickets::WaitSlots,
};

/// Most bytes of a message to a service that is open to every caller: such a message has little
/// more than a name.
const OPEN_MESSAGE_BYTES: usize = 4 * 1024;

/// Jobs and pods together may wait for as many tickets as a part of the connections, with this divisor, and use at most half of the streams.
const JOB_WAITS_SHARE: usize = 4;

/// The services and state that all gRPC handlers share.
#[derive(Debug, Clone)]
pub(crate) struct GrpcParts {
    pub(crate) services: Services,
    pub(crate) ingest: Ingest,
    pub(crate) pools: PoolRegistry,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) calls: Calls,
    pub(crate) guard: Guard,
    /// Most connections at once.
    pub(crate) connections: usize,
    /// The threads that serve the streams of agents.
    pub(crate) agents: Handle,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl GrpcParts {
    fn stats(&self) -> StatsService {
        StatsService { api: ReadApi::over(&self.services), watchers: self.streams(stats::WATCHERS) }
    }

    fn placement(&self) -> PlacementService {
        PlacementService {
            pools: self.pools.clone(),
            demands: self.services.demands.clone(),
            tickets: self.services.tickets.clone(),
            watchers: self.streams(tickets::WATCHERS),
            waits: WaitSlots::new(
                (self.connections / JOB_WAITS_SHARE).min(tickets::WATCHERS.most / 2),
                tickets::WATCHERS.most,
                Arc::clone(&self.metrics),
            ),
        }
    }

    fn predictor(&self) -> PredictorService {
        PredictorService {
            sizing: self.services.sizing.clone(),
            verdicts: self.services.verdicts.clone(),
            batches: self.streams(predictor::BATCHES),
        }
    }

    fn streams(&self, at_once: StreamLimit) -> Streams {
        Streams::new(at_once, self.tasks.clone(), self.stopping.clone())
    }
}

/// Sets the health of the services: whether they answer or the server is about to stop. The
/// collector is healthy only while the store accepts writes, too.
pub(crate) async fn set_health(health: &HealthReporter, serving: bool, writable: bool) {
    let status = |yes| if yes { ServingStatus::Serving } else { ServingStatus::NotServing };
    health.set_service_status("", status(serving)).await;
    health.set_service_status("plimsoll.v1.Predictor", status(serving)).await;
    health.set_service_status("plimsoll.v1.Stats", status(serving)).await;
    health.set_service_status("plimsoll.v1.Placement", status(serving)).await;
    health.set_service_status("plimsoll.v1.Introspection", status(serving)).await;
    health.set_service_status("externalscaler.ExternalScaler", status(serving)).await;
    health.set_service_status("plimsoll.v1.Collector", status(serving && writable)).await;
}

/// What reflection describes to clients without `.proto` files (grpcurl, Postman): the services of `plimsoll.v1`, KEDA's, health,
/// and reflection itself.
fn reflected() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Path of the health service's methods.
const HEALTH_PATH: &str = "/grpc.health.v1.Health/";

/// Serves a server that waits for the store until `stopping`: health is `NOT_SERVING`, and each other call gets the reason why.
pub(crate) async fn serve_standby(
    listener: Listener,
    policy: Policy,
    reason: watch::Receiver<String>,
    stopping: CancellationToken,
) {
    let (reporter, health) = tonic_health::server::health_reporter();
    set_health(&reporter, false, false).await;
    let health = health.max_decoding_message_size(OPEN_MESSAGE_BYTES);
    let answer = move |request: Request<Incoming>| {
        let refusal = request_check::http1_refusal(&request);
        if refusal.is_none() && request.uri().path().starts_with(HEALTH_PATH) {
            return Either::Left(health.clone().call(request));
        }
        let unavailable = || tonic::Status::unavailable(reason.borrow().clone()).into_http();
        Either::Right(ready(Ok(refusal.unwrap_or_else(unavailable))))
    };
    net::serve(listener, policy, answer, stopping).await;
}

/// Serves until `parts.stopping`, then lets running calls end.
///
/// # Errors
/// A protobuf descriptor is invalid.
pub(crate) async fn serve(
    listener: Listener,
    parts: GrpcParts,
    health: HealthReporter,
) -> anyhow::Result<()> {
    let health = HealthService::from_health_reporter(health);
    let (stats, predictor) = (parts.stats(), parts.predictor());
    let placement = parts.placement();
    let introspection = IntrospectionService { is_open: parts.guard.is_open() };
    let scaler = ScalerService::new(parts.services.demands.clone(), parts.streams(scaler::STREAMS));
    let streams = parts.streams(collector::STREAMS);
    let GrpcParts { ingest, pools, metrics, calls, guard, connections, agents, stopping, .. } = parts;
    let policy = policy(connections, agents, &metrics);
    let collector = CollectorService::new(ingest, pools, Arc::clone(&metrics), streams);
    let routes = Routes::default()
        .add_service(HealthServer::new(health).max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(reflected().build_v1()?.max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(reflected().build_v1alpha()?.max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(CollectorServer::new(collector).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(PredictorServer::new(predictor).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(PlacementServer::new(placement).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(ExternalScalerServer::new(scaler).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(IntrospectionServer::new(introspection).max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(StatsServer::new(stats).max_decoding_message_size(limits::MESSAGE_BYTES));
    let message_within = policy.bounds.body;
    let reflections = Arc::new(Semaphore::new(MAX_REFLECTIONS));
    let gate = Gate { services: routes.prepare(), calls, guard, metrics, message_within, reflections };
    serving::serve(listener, policy, gate, stopping).await;
    Ok(())
}
