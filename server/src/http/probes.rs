//! What orchestrators and Prometheus ask.

use axum::{
    extract::State,
    http::{StatusCode, header},
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

pub(super) async fn metrics(State(parts): State<Parts>) -> impl IntoResponse {
    let content_type = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match parts.metrics.encode() {
        Ok(text) => (StatusCode::OK, content_type, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, content_type, format!("# {error}\n# EOF\n")),
    }
}
