//! The web page: what builds requested and needed, why they failed, and what that cost.
//!
//! | page | content | JSON |
//! |---|---|---|
//! | `/` | waste and failures over time, savings, the worst packages, running attempts | `/api/stats` |
//! | `/packages` | all packages, sortable and searchable | `/api/packages` |
//! | `/packages/NAME` | need against request over time, `-j`, versions, reasons of the next size | `/api/packages/NAME` |
//! | `/failures` | failures by cause and by signature, and the cost of their retries | `/api/stats` |
//! | `/savings` | what packages should request, and what that saves | `/api/recommendations` |
//! | `/attempts` | finished attempts, filterable | `/api/attempts` |
//! | `/attempts/ID` | one attempt: memory, CPU, phases, evidence, verdict | `/api/attempts/ID` |
//! | `/running` | running attempts | `/api/running` |
//! | `/settings` | the settings in force | `/api/settings` |
//!
//! Pages are rendered on the server, work without scripts and load nothing from other sites; a small script only makes them faster. Their
//! data comes from the services of `plimsoll.v1` ([`crate::door::web::asking::Reader`]) without further computation, and
//! `plimsoll-pages` renders it. One form changes something: `POST /attempts/ID` corrects the cause of a failure. The work for a page is
//! bounded: at most four answers of statistics, one page of attempts, and two hundred running attempts.

mod api;
mod asking;
mod assets;
mod attempt;
mod attempts;
mod correcting;
mod failures;
mod overview;
mod package;
mod packages;
mod query;
mod running;
mod savings;
mod settings;
mod trouble;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::door::http_state::HttpState;
use asking::RequestReader;
use trouble::PageError;

/// Policy of the pages: they load only their own style, script and data, and no other page may
/// embed them in a frame.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Answer to `GET /` for clients that are not browsers.
const INDEX_TEXT: &str = "plimsoll-server\n\
    /v1/allocation  what a Spack job shall ask for (?spec=)\n\
    /v1/collect     takes GitLab's job hook\n\
    /RPC2           tickets for clients of Resalloc (XML-RPC)\n\
    /agent/         the agent for jobs that fetch it: linux-amd64, linux-arm64, sha256sums\n\
    /livez          200 while the process runs\n\
    /readyz         200 while it serves, and store and hooks take writes\n\
    /readyz/reads   200 while it serves, also while the store takes no writes\n\
    /metrics        metrics for Prometheus\n\
    /               the web page, for a browser: /packages, /failures, /savings, /attempts, /running, /settings\n\
    /api/           the same as JSON: stats, packages/NAME, recommendations, attempts, attempts/ID, running, settings\n";

/// The routes of all pages and their JSON.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/", get(front_page))
        .route("/packages", get(packages::show))
        .route("/packages/{*name}", get(package::show))
        .route("/failures", get(failures::show))
        .route("/savings", get(savings::show))
        .route("/attempts", get(attempts::show))
        .route("/attempts/{*id}", get(attempt::show).post(correcting::correct))
        .route("/running", get(running::show))
        .route("/settings", get(settings::show))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/stats", get(api::stats))
        .route("/api/packages", get(api::packages))
        .route("/api/packages/{*name}", get(api::package))
        .route("/api/recommendations", get(api::recommendations))
        .route("/api/attempts", get(api::attempts))
        .route("/api/attempts/{*id}", get(api::attempt))
        .route("/api/running", get(api::running))
        .route("/api/settings", get(api::settings))
        .layer(middleware::from_fn(guard_page))
}

/// Answers `GET /`: the overview page for a browser, the list of endpoints for other clients.
async fn front_page(RequestReader(parts): RequestReader, headers: HeaderMap, uri: Uri) -> Response {
    if is_browser(&headers) {
        overview::show(&parts, &uri).await.into_response()
    } else {
        INDEX_TEXT.into_response()
    }
}

/// The page for an unknown address.
pub(crate) fn no_such_page() -> Response {
    let text = "There is no page at this address.";
    with_page_headers(PageError::new(StatusCode::NOT_FOUND, text).into_response())
}

/// Whether the client is a browser that accepts a page.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Wraps every page and its JSON. The listener has checked access before, and [`asking::RequestReader`] limits the
/// data to what the caller may see.
async fn guard_page(request: Request, next: Next) -> Response {
    with_page_headers(next.run(request).await)
}

/// Adds the headers that restrict what a page may do.
fn with_page_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
