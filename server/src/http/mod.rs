//! The HTTP listener.
//!
//! | endpoint | answer |
//! |---|---|
//! | `GET /` | the web page ([`web`]) for a browser; this table, as text, for everybody else |
//! | `GET /packages`, `/attempts`, `/running`, `/settings`, `/api/...` | more of the web page, and its JSON |
//! | `GET /v1/allocation?spec=` | what a job of stock Spack shall ask for, as variables of that job |
//! | `POST /v1/collect` | takes GitLab's job hook |
//! | `GET /livez` | 200 while the process runs |
//! | `GET /readyz` | 200 while it serves and its store takes writes, else 503 with the reason |
//! | `GET /metrics` | all metrics: Prometheus' text format, or OpenMetrics for clients that prefer it |
//! | `GET /admin/backup` | an archive of the whole store at this moment; to callers on this machine only |
//!
//! The webhook has a listener of its own, with TLS: `POST /admit` takes an `AdmissionReview` of `admission.k8s.io/v1`.
//!
//! Below `/v1`, whatever is not an answer is an object with one text, `{"error": "field: what is wrong"}`, and one line in the log.

mod admit;
mod allocation;
mod backup;
mod collect;
mod event;
mod guarded;
mod leftover;
mod predicting;
mod probes;
mod refusal;
mod serving;
mod stray_grpc;
mod token;
mod web;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    admin::backup::ENDPOINT,
    admission,
    answers::Answers,
    config::InForce,
    domain::Fault,
    gantry,
    gitlab::Hooks,
    grpc::{Calls, Inside},
    guard::Guard,
    incoming::Listener,
    ingest::Ingest,
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    predict, shadow,
    store::Store,
};
use refusal::refuse;
pub(crate) use serving::Bounds;
pub(crate) use token::{Signing, Token};

const INDEX: &str = "plimsoll-server\n\
    /v1/allocation  what a Spack job shall ask for (?spec=)\n\
    /v1/collect     takes GitLab's job hook\n\
    /livez          200 while the process runs\n\
    /readyz         200 while it serves and its store takes writes\n\
    /metrics        metrics for Prometheus\n\
    /               the web page, for a browser: /packages, /attempts, /running, /settings\n\
    /api/           the same as JSON: stats, packages/NAME, attempts, attempts/ID, running, settings\n";

/// What the handlers look at.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    pub(crate) ingest: Ingest,
    pub(crate) learned: Learned,
    /// Shared with gRPC.
    pub(crate) answers: Arc<Answers>,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) shadow: Arc<shadow::Settings>,
    pub(crate) gantry: Arc<gantry::Settings>,
    pub(crate) admission: Arc<admission::Settings>,
    pub(crate) placing: Placing,
    /// Of the job hook; `None` takes every hook.
    pub(crate) token: Option<Token>,
    /// What the web page asks.
    pub(crate) inside: Inside,
    /// All settings, for people.
    pub(crate) shown: Arc<Vec<InForce>>,
    /// With it, every hook must be signed.
    pub(crate) signing: Option<Signing>,
    pub(crate) hooks: Hooks,
    pub(crate) calls: Calls,
    pub(crate) guard: Guard,
    /// Port of the listener for gRPC.
    pub(crate) grpc_port: Option<u16>,
    pub(crate) stopping: CancellationToken,
}

/// Serves until `parts.stopping`.
pub(crate) async fn serve(listener: Listener, parts: Parts, bounds: Bounds) {
    let (metrics, stopping) = (Arc::clone(&parts.metrics), parts.stopping.clone());
    let guard = (parts.guard.clone(), parts.token.is_some() || parts.signing.is_some());
    let router = Router::new()
        .route("/v1/allocation", get(allocation::allocation))
        .route("/v1/collect", post(collect::collect))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .route(ENDPOINT, get(backup::backup))
        .merge(web::routes())
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(guard, guarded::guarded))
        .layer(middleware::from_fn_with_state(parts.grpc_port, stray_grpc::told_port))
        .layer(middleware::from_fn_with_state(parts.calls.clone(), counted))
        .with_state(parts);
    serving::serve(listener, router, bounds, metrics, stopping).await;
}

/// Serves the webhook until `parts.stopping`: nothing but `POST /admit`.
pub(crate) async fn serve_admission(listener: Listener, parts: Parts, bounds: Bounds) {
    let (metrics, stopping) = (Arc::clone(&parts.metrics), parts.stopping.clone());
    let router = Router::new()
        .route("/admit", post(admit::admit))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(guarded::certified))
        .layer(middleware::from_fn_with_state(parts.calls.clone(), counted))
        .with_state(parts);
    serving::serve(listener, router, bounds, metrics, stopping).await;
}

/// Counts a request until its answer is ready, so that a server that stops waits for it.
async fn counted(State(calls): State<Calls>, request: Request, next: Next) -> Response {
    let _call = calls.begin();
    let span = tracing::debug_span!("request", otel.name = request.uri().path());
    next.run(request).instrument(span).await
}

async fn no_such_path(headers: HeaderMap, uri: Uri) -> Response {
    if web::is_browser(&headers) {
        return web::no_such_page();
    }
    refuse(uri.path(), StatusCode::NOT_FOUND, &Fault::new("path", "is not served; GET / lists what is"))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let fault = Fault::new("method", format!("{method} is not served here; GET / lists what is"));
    refuse(uri.path(), StatusCode::METHOD_NOT_ALLOWED, &fault)
}
