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
    runtime::{clock::Clock, clock_check, metrics::Metrics},
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
    let now = Clock.now_unix_ms();
    let certificates = parts.certificates.iter().filter_map(|certificate| certificate.note(now));
    let mut notes: Vec<String> =
        parts.store.found_damage().notice().into_iter().chain(certificates).collect();
    notes.dedup();
    notes.extend(clock_check::notes(&parts.metrics));
    readiness(parts.store.status().mode, notes)
}

/// Whether a server with such a store is ready, and in further lines what operators must know. Damage costs what is there, and a restart
/// helps nothing: the server stays ready for all else.
fn readiness(mode: StoreMode, notes: Vec<String>) -> (StatusCode, String) {
    match mode {
        StoreMode::Writable => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_damage_is_ready_with_notes() {
        let full = StoreMode::ReadOnly { reason: "full".to_owned() };
        let damage = vec!["2 damaged places found".to_owned()];
        let table = [
            (StoreMode::Writable, vec![], 200, "ok\n"),
            (StoreMode::Writable, damage.clone(), 200, "ok\n2 damaged places found\n"),
            (full, damage, 503, "the store cannot write: full\n"),
        ];
        for (mode, notes, status, text) in table {
            let (found, said) = readiness(mode, notes);
            assert_eq!((found.as_u16(), said.as_str()), (status, text));
        }
    }
}
