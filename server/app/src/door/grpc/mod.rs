//! The gRPC listener: the services of `plimsoll.v1`, KEDA's external scaler, health and reflection.
//! Handlers convert the request, call a room, and convert the result.

mod caller;
mod collector;
pub(crate) mod foreign;
mod introspection;
mod outbound;
mod pending_acks;
mod placement;
mod port;
mod predictor;
mod scaler;
mod stats;
mod status;
mod streams;
mod tickets;

#[cfg(test)]
pub(super) use caller::tests::OneStream;
use std::{future::ready, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use collector::CollectorService;
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
use port::{GrpcPort, http1_refusal};
use predictor::PredictorService;
use prometheus_client::metrics::family::Family;
use scaler::ScalerService;
use stats::StatsService;
use streams::{StreamLimit, Streams};
use tokio::{runtime::Handle, sync::watch};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};
use tonic::{Status, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tower::ServiceExt as _;

use crate::{
    access::guard::Guard,
    door::{
        Services,
        calls::Calls,
        gate::Gate,
        net::{self, Bounds, Listener, OwnThreads, Policy},
        read_api::ReadApi,
    },
    ingest::Ingest,
    pools::PoolRegistry,
    runtime::metrics::Metrics,
    tickets::WaitSlots,
};

/// Time limit for the first call of a connection: every gRPC client sends it at once.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the first admitted call of a connection: an agent sends it at once.
const ADMITTED_WITHIN: Duration = Duration::from_mins(1);
/// Time limit from the head of a call to the end of its message. The largest messages have 4 MiB; most arrive with the head.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);
/// A connection without a call for this long is closed; the client connects again for its next
/// call. A running agent always has a call.
const UNUSED_AFTER: Duration = Duration::from_mins(5);
/// Most streams of one connection. A proxy may put the streams of many agents on one connection.
const STREAMS_PER_CONNECTION: u32 = 1024;
/// The rpc of the agents' streams.
const AGENTS_STREAM: &str = "/plimsoll.v1.Collector/Stream";

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

/// The limits for this number of connections. The streams of agents, and the connections with such streams, run on the threads `agents`.
pub(crate) fn policy(connections: usize, agents: Handle, metrics: &Metrics) -> Policy {
    Policy {
        bounds: Bounds {
            connections,
            first: FIRST_WITHIN,
            admitted: ADMITTED_WITHIN,
            body: MESSAGE_WITHIN,
            idle: UNUSED_AFTER,
        },
        streams: STREAMS_PER_CONNECTION,
        grpc: Some(OwnThreads { path: AGENTS_STREAM, threads: agents }),
        open: metrics.connections.clone(),
        replaced: metrics.connections_replaced.clone(),
        cut: Family::default(),
    }
}

/// Serves a server that waits for the store until `stopping`: health is `NOT_SERVING`, and each other call gets the reason why.
pub(crate) async fn serve_standby(
    listener: Listener,
    policy: Policy,
    reason: watch::Receiver<String>,
    stopping: CancellationToken,
) {
    let (reporter, health) = tonic_health::server::health_reporter();
    set_health(&reporter, false, false).await;
    let unavailable = move || ready(Status::unavailable(reason.borrow().clone()).into_http::<Body>());
    let routes = Routes::new(health.max_decoding_message_size(OPEN_MESSAGE_BYTES)).into_axum_router();
    let routes = routes.fallback(unavailable).with_state(());
    let answer = move |request: Request<Incoming>| match http1_refusal(request.version(), request.headers()) {
        Some(refusal) => Either::Left(ready(Ok(refusal))),
        None => Either::Right(routes.clone().oneshot(request)),
    };
    net::serve(listener, policy, answer, stopping).await;
}

/// Serves until `parts.stopping`, then lets running calls end.
/// Errors: a protobuf descriptor is invalid.
pub(crate) async fn serve(
    listener: Listener,
    parts: GrpcParts,
    health: HealthReporter,
) -> anyhow::Result<()> {
    let policy = policy(parts.connections, parts.agents.clone(), &parts.metrics);
    let stopping = parts.stopping.clone();
    let gate = Arc::new(Gate {
        port: GrpcPort::new(parts.calls.clone(), Arc::clone(&parts.metrics)),
        calls: parts.calls.clone(),
        guard: parts.guard.clone(),
        body_within: policy.bounds.body,
        routes: routes(parts, health)?,
    });
    // boxed, because HTTP/2 keeps room for the future of a call until it ends, and streams last as long as builds
    let answer = move |request| Box::pin(Arc::clone(&gate).answer(request));
    net::serve(listener, policy, answer, stopping).await;
    Ok(())
}

/// All services.
fn routes(parts: GrpcParts, health: HealthReporter) -> anyhow::Result<Router> {
    let health = HealthService::from_health_reporter(health);
    let (stats, predictor) = (parts.stats(), parts.predictor());
    let placement = parts.placement();
    let introspection = IntrospectionService { is_open: parts.guard.is_open() };
    let scaler = ScalerService::new(parts.services.demands.clone(), parts.streams(scaler::STREAMS));
    let streams = parts.streams(collector::STREAMS);
    let collector = CollectorService::new(parts.ingest, parts.pools, parts.metrics, streams);
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
    Ok(routes.prepare().into_axum_router())
}
