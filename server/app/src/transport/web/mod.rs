//! The web page: what builds asked for, what they needed, why they failed, and what that cost.
//!
//! | page | what it shows | JSON beside it |
//! |---|---|---|
//! | `/` | waste and failures over time, what was saved, what is worst, what runs now | `/api/stats` |
//! | `/packages` | all packages, to sort and search | `/api/packages` |
//! | `/packages/NAME` | need against ask over time, `-j`, versions, why the next size is what it is | `/api/packages/NAME` |
//! | `/failures` | failures by cause and by the line that they are known by, and what their retries cost | `/api/stats` |
//! | `/savings` | what packages should request, and what that saves | `/api/recommendations` |
//! | `/attempts` | finished attempts, to filter | `/api/attempts` |
//! | `/attempts/ID` | one attempt: memory, CPU, phases, evidence, verdict | `/api/attempts/ID` |
//! | `/running` | what runs now | `/api/running` |
//! | `/settings` | the settings in force | `/api/settings` |
//!
//! Pages are written on the server, work without scripts and load nothing from elsewhere; a small script only makes them
//! quicker. What they show comes from the services of `plimsoll.v1` ([`crate::transport::web::asking::Reader`]): nothing is counted here, and what
//! it looks like is drawn by `plimsoll-pages`. One form changes something: `POST /attempts/ID` corrects the cause of a failure.
//! Every page is bounded work: at most four answers of statistics, one
//! page of attempts, and two hundred of the attempts that run.

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

use crate::transport::state::HttpState;
use asking::Asking;
use trouble::Trouble;

/// What a page may load and do: its own style, script and data, nothing else; and no other page may put it into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What a program that asks for `/` is sent.
const INDEX: &str = "plimsoll-server\n\
    /v1/allocation  what a Spack job shall ask for (?spec=)\n\
    /v1/collect     takes GitLab's job hook\n\
    /RPC2           tickets for clients of Resalloc (XML-RPC)\n\
    /agent/         the agent for jobs that fetch it: linux-amd64, linux-arm64, sha256sums\n\
    /livez          200 while the process runs\n\
    /readyz         200 while it serves, and store and hooks take writes\n\
    /metrics        metrics for Prometheus\n\
    /               the web page, for a browser: /packages, /failures, /savings, /attempts, /running, /settings\n\
    /api/           the same as JSON: stats, packages/NAME, recommendations, attempts, attempts/ID, running, settings\n";

/// All pages and their JSON.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/", get(front))
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
        .layer(middleware::from_fn(guarded))
}

/// The first page for a browser, the list of endpoints for other clients.
async fn front(Asking(parts): Asking, headers: HeaderMap, uri: Uri) -> Response {
    if is_browser(&headers) {
        overview::show(&parts, &uri).await.into_response()
    } else {
        INDEX.into_response()
    }
}

/// The answer to a browser that asks for what is not here.
pub(crate) fn no_such_page() -> Response {
    let text = "There is no page at this address.";
    protected(Trouble::new(StatusCode::NOT_FOUND, text).into_response())
}

/// Whether a person wants to read a page.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Around every page and its JSON. Who may see them is decided before, for the whole listener; what of them, by [`Asking`].
async fn guarded(request: Request, next: Next) -> Response {
    protected(next.run(request).await)
}

/// Tells the browser what a page of ours may do.
fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
