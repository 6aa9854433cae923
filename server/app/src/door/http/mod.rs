//! The HTTP listener.
//!
//! | endpoint | answer |
//! |---|---|
//! | `GET /` | the web page ([`web`]) for browsers; this table, as text, for other clients |
//! | `GET /packages`, `/attempts`, `/running`, `/settings`, `/api/...` | more of the web page, and its JSON |
//! | `POST /attempts/ID` | corrects the cause of a failed attempt, for the form on its page |
//! | `GET /v1/allocation?spec=` | sizes for a job of stock Spack, as variables of the job |
//! | `GET /agent/linux-amd64` | the agent's binary, if `agent_dir` is set; checksums at `/agent/sha256sums` |
//! | `POST /v1/collect` | accepts GitLab's job hook |
//! | `POST /RPC2`, `POST /` | tickets for clients of Resalloc, over XML-RPC ([`xml_rpc`]) |
//! | `GET /livez` | 200 while the process runs |
//! | `GET /readyz` | 200 while it serves and the store accepts writes, with a line for damage, a wrong clock and each certificate that ends soon; else 503 with the reason |
//! | `GET /readyz/reads` | 200 while it serves, also while the store accepts no writes |
//! | `GET /metrics` | all metrics: Prometheus' text format, or OpenMetrics for clients that prefer it |
//! | `GET /admin/backup` | an archive of the store; for callers on this machine, and with `backup_remote` for operators |
//!
//! The webhook has a listener of its own, with TLS: `POST /admit` takes an `AdmissionReview` of `admission.k8s.io/v1`; with an
//! `admit_secret_file`, only `POST /admit/SECRET` does.
//!
//! Below `/v1`, an error is an object with one text, `{"error": "field: what is wrong"}`, and one line in the log.

mod admit;
mod agent;
mod allocation;
mod backup;
mod collect;
mod hosts;
mod port;
mod probes;
mod refusal;
mod standby;
mod xml_rpc;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
    routing::{get, post},
};
use plimsoll_core::domain::FieldViolation;
pub(crate) use port::bounds;
use port::{HttpPort, ServingParts};
use refusal::refuse;
pub(crate) use standby::{StandbyParts, serve_standby};

use crate::door::{
    gate::{ADMIT_PATH, shown_path},
    http_state::HttpState,
    net::{Bounds, Listener},
    permissions::{BACKUP_PATH, COLLECT_PATH, XML_RPC_PATH},
    web,
};

/// Serves the HTTP listener until `parts.stopping`.
pub(crate) async fn serve(listener: Listener, parts: HttpState, bounds: Bounds) {
    let has_hook_secret = parts.token.is_some() || parts.signing.is_some();
    let port = HttpPort::of(&parts.guard, parts.grpc_port, &parts.hosts, has_hook_secret);
    let serving = serving_parts(&parts);
    let routes = Router::new()
        .route("/v1/allocation", get(allocation::allocation))
        .route(COLLECT_PATH, post(collect::collect))
        .route("/agent/{platform}", get(agent::agent))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(probes::readyz))
        .route("/readyz/reads", get(probes::readyz_reads))
        .route("/metrics", get(probes::metrics))
        .route(BACKUP_PATH, get(backup::backup))
        .route(XML_RPC_PATH, post(xml_rpc::call))
        .route("/", post(xml_rpc::call))
        .merge(web::routes())
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(parts);
    port::serve(listener, (port, routes), bounds, serving).await;
}

/// Serves the listener for Kubernetes' webhook until `parts.stopping`: only `POST /admit`.
pub(crate) async fn serve_admission(listener: Listener, parts: HttpState, bounds: Bounds) {
    let serving = serving_parts(&parts);
    let routes = Router::new()
        .route(ADMIT_PATH, post(admit::admit))
        .route("/admit/{secret}", post(admit::admit))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(parts);
    port::serve(listener, (HttpPort::Webhook, routes), bounds, serving).await;
}

fn serving_parts(parts: &HttpState) -> ServingParts {
    ServingParts {
        calls: parts.calls.clone(),
        guard: parts.guard.clone(),
        metrics: Arc::clone(&parts.metrics),
        stopping: parts.stopping.clone(),
    }
}

async fn no_such_path(headers: HeaderMap, uri: Uri) -> Response {
    if web::is_browser(&headers) {
        return web::no_such_page();
    }
    refuse(
        shown_path(uri.path()),
        StatusCode::NOT_FOUND,
        &FieldViolation::new("path", "is not served; GET / lists what is"),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let fault = FieldViolation::new("method", format!("{method} is not served here; GET / lists what is"));
    refuse(shown_path(uri.path()), StatusCode::METHOD_NOT_ALLOWED, &fault)
}
