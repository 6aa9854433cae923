//! The gRPC listener: the services of `plimsoll.v1`, `grpc.health.v1` and reflection. Handlers convert, call, convert.

mod collector;
mod convert;
mod predictor;
mod reply;
mod stats;
mod status;

use std::{sync::Arc, time::Duration};

use collector::CollectorService;
use plimsoll_proto::{
    DESCRIPTORS, limits,
    v1::{collector_server::CollectorServer, predictor_server::PredictorServer, stats_server::StatsServer},
};
use predictor::PredictorService;
use stats::StatsService;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Server, server::TcpIncoming};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{ingest::Ingest, learned::Learned, metrics::Metrics, predict};

/// A connection that does not answer a ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Streams of one connection: a proxy may put many agents on one.
const STREAMS_PER_CONNECTION: u32 = 1024;

/// What the handlers call.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) ingest: Ingest,
    pub(crate) learned: Learned,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

/// Says that the services answer, or that they are about to stop. The collector has a state of its own: it serves only
/// while the store takes writes.
pub(crate) async fn set_health(health: &HealthReporter, serving: bool, writable: bool) {
    let status = |yes| if yes { ServingStatus::Serving } else { ServingStatus::NotServing };
    health.set_service_status("", status(serving)).await;
    health.set_service_status("plimsoll.v1.Predictor", status(serving)).await;
    health.set_service_status("plimsoll.v1.Stats", status(serving)).await;
    health.set_service_status("plimsoll.v1.Collector", status(serving && writable)).await;
}

/// Serves until `parts.stopping`, then lets running calls end.
///
/// # Errors
/// The listener fails, or a descriptor is broken.
pub(crate) async fn serve(
    listener: TcpListener,
    parts: Parts,
    health: tonic_health::pb::health_server::HealthServer<impl tonic_health::pb::health_server::Health>,
) -> anyhow::Result<()> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let Parts { ingest, learned, predict, metrics, tasks, stopping } = parts;
    let predictor = PredictorService {
        learned: learned.clone(),
        settings: predict,
        ingest: ingest.clone(),
        metrics: Arc::clone(&metrics),
    };
    let stats =
        StatsService { learned, ingest: ingest.clone(), tasks: tasks.clone(), stopping: stopping.clone() };
    let collector = CollectorService { ingest, metrics, tasks, stopping: stopping.clone() };
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(Some(STREAMS_PER_CONNECTION))
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(CollectorServer::new(collector).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(PredictorServer::new(predictor).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(StatsServer::new(stats).max_decoding_message_size(limits::MESSAGE_BYTES))
        // without it every small answer waits for the delayed acknowledgement of the last one, 40 ms
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            stopping.cancelled_owned(),
        )
        .await?;
    Ok(())
}
