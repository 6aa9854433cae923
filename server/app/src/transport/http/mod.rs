//! The HTTP listener.
//!
//! | endpoint | answer |
//! |---|---|
//! | `GET /` | the web page ([`web`]) for a browser; this table, as text, for other clients |
//! | `GET /packages`, `/attempts`, `/running`, `/settings`, `/api/...` | more of the web page, and its JSON |
//! | `POST /attempts/ID` | corrects the cause of a failed attempt, for the form on its page |
//! | `GET /v1/allocation?spec=` | what a job of stock Spack shall ask for, as variables of that job |
//! | `GET /agent/linux-amd64` | the agent's binary, where there is an `agent_dir`; `/agent/sha256sums` says what to pin |
//! | `POST /v1/collect` | takes GitLab's job hook |
//! | `GET /livez` | 200 while the process runs |
//! | `GET /readyz` | 200 while it serves, and its store and its directory of hooks take writes, else 503 with the reason |
//! | `GET /metrics` | all metrics: Prometheus' text format, or OpenMetrics for clients that prefer it |
//! | `GET /admin/backup` | an archive of the whole store at this moment; to callers on this machine, and with `backup_remote` to operators |
//!
//! The webhook has a listener of its own, with TLS: `POST /admit` takes an `AdmissionReview` of `admission.k8s.io/v1`; with an
//! `admit_secret_file`, `POST /admit/SECRET` alone.
//!
//! Below `/v1`, whatever is not an answer is an object with one text, `{"error": "field: what is wrong"}`, and one line in the log.

mod admit;
mod agent;
mod allocation;
mod backup;
mod collect;
mod guarded;
mod hosts;
mod origin;
mod probes;
mod refusal;
mod serving;
mod stray_grpc;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use plimsoll_core::domain::FieldViolation;
use tower::util::option_layer;
use tracing::Instrument as _;

use crate::{
    commands::admin::backup::ENDPOINT,
    runtime::net::{accept::Listener, serve::Bounds},
    transport::{calls::Calls, state::HttpState, web},
};
use refusal::refuse;
pub(crate) use serving::bounds;

/// Serves until `parts.stopping`.
pub(crate) async fn serve(listener: Listener, parts: HttpState, bounds: Bounds) {
    let (metrics, stopping, unsent) =
        (Arc::clone(&parts.metrics), parts.stopping.clone(), parts.calls.unsent());
    let guard = (parts.guard.clone(), parts.token.is_some() || parts.signing.is_some());
    let hosts = parts
        .guard
        .is_open()
        .then(|| middleware::from_fn_with_state(Arc::clone(&parts.hosts), hosts::only_own));
    let router = Router::new()
        .route("/v1/allocation", get(allocation::allocation))
        .route("/v1/collect", post(collect::collect))
        .route("/agent/{platform}", get(agent::agent))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .route(ENDPOINT, get(backup::backup))
        .merge(web::routes())
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(guard, guarded::guarded))
        .layer(middleware::from_fn(origin::of_ours))
        .layer(option_layer(hosts))
        .layer(middleware::from_fn_with_state(parts.grpc_port, stray_grpc::told_port))
        .layer(middleware::from_fn_with_state(parts.calls.clone(), counted))
        .with_state(parts);
    serving::serve(listener, (router, unsent), bounds, metrics, stopping).await;
}

/// Serves the webhook until `parts.stopping`: nothing but `POST /admit`.
pub(crate) async fn serve_admission(listener: Listener, parts: HttpState, bounds: Bounds) {
    let (metrics, stopping, unsent) =
        (Arc::clone(&parts.metrics), parts.stopping.clone(), parts.calls.unsent());
    let router = Router::new()
        .route(admit::PATH, post(admit::admit))
        .route("/admit/{secret}", post(admit::admit))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(origin::of_ours))
        .layer(middleware::from_fn(guarded::certified))
        .layer(middleware::from_fn_with_state(parts.calls.clone(), counted))
        .with_state(parts);
    serving::serve(listener, (router, unsent), bounds, metrics, stopping).await;
}

/// Counts a request until its answer is ready, so that a server that stops waits for it.
async fn counted(State(calls): State<Calls>, request: Request, next: Next) -> Response {
    let _call = calls.begin();
    let span = tracing::debug_span!("request", otel.name = shown_path(request.uri()));
    next.run(request).instrument(span).await
}

/// The path of a request, for the log. What stands below `/admit` is a secret.
fn shown_path(uri: &Uri) -> &str {
    if uri.path().starts_with(admit::PATH) { admit::PATH } else { uri.path() }
}

async fn no_such_path(headers: HeaderMap, uri: Uri) -> Response {
    if web::is_browser(&headers) {
        return web::no_such_page();
    }
    refuse(
        shown_path(&uri),
        StatusCode::NOT_FOUND,
        &FieldViolation::new("path", "is not served; GET / lists what is"),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let fault = FieldViolation::new("method", format!("{method} is not served here; GET / lists what is"));
    refuse(shown_path(&uri), StatusCode::METHOD_NOT_ALLOWED, &fault)
}
