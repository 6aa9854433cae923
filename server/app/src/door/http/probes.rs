//! Endpoints for orchestrators and Prometheus: `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};
use plimsoll_store::StoreMode;

use crate::{
    ci::prometheus,
    door::http_state::HttpState,
    runtime::{clock::Clock, metrics::Metrics},
};

const STOPPING: &str = "stopping\n";

/// Whether the server answers questions. A standby does not, and has no such path.
pub(super) async fn readyz_reads(State(parts): State<HttpState>) -> impl IntoResponse {
    if parts.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, STOPPING);
    }
    (StatusCode::OK, "ok\n")
}

pub(super) async fn readyz(State(parts): State<HttpState>) -> impl IntoResponse {
    if parts.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, STOPPING.to_owned());
    }
    match parts.store.status().mode {
        StoreMode::Writable => {
            let now = Clock.now_unix_ms();
            let mut notes: Vec<String> =
                parts.certificates.iter().filter_map(|certificate| certificate.note(now)).collect();
            notes.dedup();
            let lines = std::iter::once("ok".to_owned()).chain(notes);
            (StatusCode::OK, lines.map(|line| line + "\n").collect())
        }
        StoreMode::ReadOnly { reason } | StoreMode::Taken { reason } => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the store cannot write: {reason}\n"))
        }
    }
}

/// `GET /metrics`: in Prometheus' text format, which every tool reads, or in OpenMetrics if the
/// client prefers it.
pub(super) async fn metrics(State(parts): State<HttpState>, headers: HeaderMap) -> impl IntoResponse {
    encoded_metrics(Arc::clone(&parts.metrics), &headers).await
}

/// The metrics, in the format that these headers of a request prefer.
pub(super) async fn encoded_metrics(metrics: Arc<Metrics>, headers: &HeaderMap) -> impl IntoResponse + use<> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let classic = !prometheus::prefers_openmetrics(accept);
    // encoding sums up a day of packages, so it does not run on a thread that serves requests
    let encoding = move || if classic { metrics.encode_classic() } else { metrics.encode() };
    let encoded = tokio::task::spawn_blocking(encoding).await;
    let content_type = [
        (header::CONTENT_TYPE, if classic { prometheus::CLASSIC } else { prometheus::OPENMETRICS }),
        (header::VARY, "Accept"),
    ];
    match encoded {
        Ok(Ok(text)) => (StatusCode::OK, content_type, text),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, content_type, "# cannot be written\n# EOF\n".to_owned())
        }
    }
}
