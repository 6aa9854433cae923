//! The HTTP listener of a server that waits for the store: probes and metrics; everything else is not available.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    port::{self, HttpPort, ServingParts},
    probes,
};
use crate::{
    access::guard::Guard,
    door::{
        calls::Calls,
        net::{Bounds, Listener},
    },
    runtime::metrics::Metrics,
};

/// Seconds after which a client may ask again.
const RETRY_AFTER: &str = "1";

/// State of the handlers of a standby.
#[derive(Debug, Clone)]
pub(crate) struct StandbyParts {
    /// Why the server does not serve.
    pub(crate) reason: watch::Receiver<String>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) guard: Guard,
    /// Host names that are accepted if there is no access file, in lower case.
    pub(crate) hosts: Arc<[String]>,
    pub(crate) calls: Calls,
    /// Port of the gRPC listener, for error texts; `None` if unknown.
    pub(crate) grpc_port: Option<u16>,
    pub(crate) stopping: CancellationToken,
}

/// Serves until `parts.stopping`.
pub(crate) async fn serve_standby(listener: Listener, parts: StandbyParts, bounds: Bounds) {
    let port = HttpPort::of(&parts.guard, parts.grpc_port, &parts.hosts, false);
    let serving = ServingParts {
        calls: parts.calls.clone(),
        guard: parts.guard.clone(),
        metrics: Arc::clone(&parts.metrics),
        stopping: parts.stopping.clone(),
    };
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/metrics", get(metrics_of_standby))
        .fallback(not_available)
        .with_state(parts);
    port::serve(listener, (port, routes), bounds, serving).await;
}

async fn metrics_of_standby(State(parts): State<StandbyParts>, headers: HeaderMap) -> Response {
    probes::encoded_metrics(parts.metrics, &headers).await.into_response()
}

/// The answer to `/readyz`, `/readyz/reads` and to all other requests.
async fn not_available(State(parts): State<StandbyParts>) -> Response {
    let text = format!("{}\n", *parts.reason.borrow());
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER)], text).into_response()
}
