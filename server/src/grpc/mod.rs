//! The gRPC listener: the services of `plimsoll.v1`, `grpc.health.v1` and reflection. Handlers convert, call, convert.

mod calls;
mod collector;
mod connected;
mod convert;
mod deadline;
mod entry;
pub(crate) mod foreign;
mod grouping;
mod guarded;
mod inside;
mod next_size;
mod outbound;
mod placement;
mod predictor;
mod reflection;
mod reply;
mod scaler;
mod serving;
mod stats;
mod status;
mod streams;
mod tickets;
mod underway;
mod view;

use std::sync::Arc;

pub(crate) use calls::Calls;
use collector::CollectorService;
use entry::Entry;
pub(crate) use inside::{Inside, Refused};
use placement::PlacementService;
use plimsoll_proto::{
    externalscaler::external_scaler_server::ExternalScalerServer,
    limits,
    v1::{
        collector_server::CollectorServer, placement_server::PlacementServer,
        predictor_server::PredictorServer, stats_server::StatsServer,
    },
};
use predictor::PredictorService;
use reflection::ReflectionService;
use scaler::ScalerService;
use serving::Runs;
pub(crate) use stats::Counting;
use stats::StatsService;
use streams::{AtOnce, Streams};
use tickets::TicketCalls;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Code, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tonic_reflection::{
    pb::v1::server_reflection_server::ServerReflectionServer as ReflectionV1,
    pb::v1alpha::server_reflection_server::ServerReflectionServer as ReflectionV1Alpha,
};
use tower::Layer as _;

use crate::{
    answers::Answers,
    demand::Demands,
    frames::CONTROL_FRAMES,
    guard::Guard,
    incoming::{self, Counts, Listener},
    ingest::Ingest,
    learned::Learned,
    metrics::{Kind, Metrics},
    placing::Placing,
    predict,
    privacy::Private,
    shadow,
    ticketing::{Claims, Ticketing},
};

/// Bytes of a message to what everybody may call: the name of a service.
const OPEN_MESSAGE_BYTES: usize = 4 * 1024;

/// What the handlers call.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) ingest: Ingest,
    pub(crate) placing: Placing,
    pub(crate) demands: Demands,
    pub(crate) ticketing: Ticketing,
    pub(crate) learned: Learned,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) shadow: Arc<shadow::Settings>,
    /// What is not shown to all.
    pub(crate) private: Arc<Private>,
    pub(crate) metrics: Arc<Metrics>,
    /// Shared by all that predict.
    pub(crate) answers: Arc<Answers>,
    /// Shared by gRPC and the web page.
    pub(crate) counting: Counting,
    pub(crate) calls: Calls,
    pub(crate) guard: Guard,
    /// Connections that may be there at once.
    pub(crate) connections: usize,
    /// The threads that serve the streams of agents.
    pub(crate) agents: Handle,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl Parts {
    fn stats(&self) -> StatsService {
        StatsService::new(
            self.learned.clone(),
            self.ingest.clone(),
            self.placing.clone(),
            self.counting.clone(),
            self.streams(stats::WATCHERS),
        )
        .hiding(Arc::clone(&self.private))
    }

    fn tickets(&self) -> TicketCalls {
        let claims = Claims {
            learned: self.learned.clone(),
            answers: Arc::clone(&self.answers),
            predict: Arc::clone(&self.predict),
            placing: self.placing.clone(),
            ticketing: self.ticketing.clone(),
        };
        TicketCalls::new(claims, self.streams(tickets::WATCHERS))
    }

    fn predictor(&self) -> PredictorService {
        PredictorService {
            learned: self.learned.clone(),
            private: Arc::clone(&self.private),
            answers: Arc::clone(&self.answers),
            settings: Arc::clone(&self.predict),
            shadow: Arc::clone(&self.shadow),
            ingest: self.ingest.clone(),
            placing: self.placing.clone(),
            metrics: Arc::clone(&self.metrics),
            batches: self.streams(predictor::BATCHES),
        }
    }

    fn streams(&self, at_once: AtOnce) -> Streams {
        Streams::new(at_once, self.tasks.clone(), self.stopping.clone())
    }
}

/// Says that the services answer, or that they are about to stop. The collector has a state of its own: it serves only
/// while the store takes writes.
pub(crate) async fn set_health(health: &HealthReporter, serving: bool, writable: bool) {
    let status = |yes| if yes { ServingStatus::Serving } else { ServingStatus::NotServing };
    health.set_service_status("", status(serving)).await;
    health.set_service_status("plimsoll.v1.Predictor", status(serving)).await;
    health.set_service_status("plimsoll.v1.Stats", status(serving)).await;
    health.set_service_status("plimsoll.v1.Placement", status(serving)).await;
    health.set_service_status("externalscaler.ExternalScaler", status(serving)).await;
    health.set_service_status("plimsoll.v1.Collector", status(serving && writable)).await;
}

/// Serves until `parts.stopping`, then lets running calls end.
///
/// # Errors
/// A descriptor is broken.
pub(crate) async fn serve(listener: Listener, parts: Parts, health: HealthReporter) -> anyhow::Result<()> {
    let health = HealthService::from_health_reporter(health);
    let reflection = ReflectionService::new()?;
    let (stats, predictor) = (parts.stats(), parts.predictor());
    let placement = PlacementService {
        placing: parts.placing.clone(),
        demands: parts.demands.clone(),
        tickets: parts.tickets(),
    };
    let scaler = ScalerService::new(parts.demands.clone(), parts.streams(scaler::STREAMS));
    let streams = parts.streams(collector::STREAMS);
    let Parts { ingest, placing, metrics, calls, guard, connections, agents, stopping, .. } = parts;
    let counts = Counts { open: metrics.connections.clone(), refused: metrics.connections_refused.clone() };
    let (connections, taking) = incoming::incoming(listener.tcp, connections, counts);
    let cut = metrics.connections_cut.get_or_create(&Kind::of(CONTROL_FRAMES)).clone();
    let (links, shaking) = connected::links(connections, listener.tls, cut);
    let entry = Entry { calls, guard, metrics: Arc::clone(&metrics) };
    let late = metrics.calls_failed.get_or_create(&Kind::of(status::name(Code::DeadlineExceeded))).clone();
    let runs = Runs { agents, late, stopping };
    let collector = CollectorService::new(ingest, placing, metrics, streams);
    let routes = Routes::default()
        .add_service(HealthServer::new(health).max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(ReflectionV1::new(reflection.clone()).max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(ReflectionV1Alpha::new(reflection).max_decoding_message_size(OPEN_MESSAGE_BYTES))
        .add_service(CollectorServer::new(collector).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(PredictorServer::new(predictor).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(PlacementServer::new(placement).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(ExternalScalerServer::new(scaler).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(StatsServer::new(stats).max_decoding_message_size(limits::MESSAGE_BYTES));
    let serving = serving::serve(links, entry.layer(routes.prepare()), runs);
    // the first drops what the last hands over, and so ends it, and that the one between
    let ((), (), ()) = tokio::join!(serving, taking, shaking);
    Ok(())
}
