//! The HTTP listener.
//!
//! | endpoint | answer |
//! |---|---|
//! | `GET /` | this table, as text |
//! | `GET /livez` | 200 while the process runs |
//! | `GET /readyz` | 200 while it serves and its store takes writes, else 503 with the reason |
//! | `GET /metrics` | all metrics, OpenMetrics text |
//! | `GET /admin/backup` | an archive of the whole store at this moment; to callers on this machine only |

mod backup;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    admin::backup::ENDPOINT,
    grpc::Calls,
    metrics::Metrics,
    store::{Mode, Store},
};

const INDEX: &str = "plimsoll-server\n\
    /livez    200 while the process runs\n\
    /readyz   200 while it serves and its store takes writes\n\
    /metrics  OpenMetrics\n";

/// What the handlers look at.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    pub(crate) calls: Calls,
    pub(crate) stopping: CancellationToken,
}

/// Serves until `parts.stopping`.
///
/// # Errors
/// The listener fails.
pub(crate) async fn serve(listener: TcpListener, parts: Parts) -> anyhow::Result<()> {
    let stopping = parts.stopping.clone();
    let router = Router::new()
        .route("/", get(async || INDEX))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route(ENDPOINT, get(backup::backup))
        .layer(middleware::from_fn_with_state(parts.calls.clone(), counted))
        .with_state(parts);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(stopping.cancelled_owned()).await?;
    Ok(())
}

/// Counts a request until its answer is ready, so that a server that stops waits for it.
async fn counted(State(calls): State<Calls>, request: Request, next: Next) -> Response {
    let _call = calls.begin();
    next.run(request).await
}

async fn readyz(State(parts): State<Parts>) -> impl IntoResponse {
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

async fn metrics(State(parts): State<Parts>) -> impl IntoResponse {
    let content_type = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match parts.metrics.encode() {
        Ok(text) => (StatusCode::OK, content_type, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, content_type, format!("# {error}\n# EOF\n")),
    }
}
