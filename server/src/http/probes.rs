//! What orchestrators and Prometheus ask.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};

use super::Parts;
use crate::store::Mode;

pub(super) async fn readyz(State(parts): State<Parts>) -> impl IntoResponse {
    if parts.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    match parts.store.status().mode {
        Mode::Writable => (StatusCode::OK, "ok\n".to_owned()),
        Mode::ReadOnly { reason } => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the store cannot write: {reason}\n"))
        }
    }
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics, unless somebody takes plain text and does not speak of it.
pub(super) async fn metrics(State(parts): State<Parts>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let classic = accept.contains("text/plain") && !accept.contains("openmetrics");
    let metrics = Arc::clone(&parts.metrics);
    // a day of packages is summed: not on a thread that serves others
    let encoding = move || if classic { metrics.encode_classic() } else { metrics.encode() };
    let encoded = tokio::task::spawn_blocking(encoding).await;
    let content_type = [(header::CONTENT_TYPE, if classic { CLASSIC } else { OPENMETRICS })];
    match encoded {
        Ok(Ok(text)) => (StatusCode::OK, content_type, text),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, content_type, "# cannot be written\n# EOF\n".to_owned())
        }
    }
}
