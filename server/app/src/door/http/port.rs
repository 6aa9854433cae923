//! What the ports for HTTP do in their own way: which requests no caller may send, and how a caller that is not admitted is answered.
//!
//! A connection gets a permanent slot once one of its requests was admitted, or was proved to be a hook of GitLab. Probes and refused
//! requests do not count for that, because any client can send them.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts as Head},
    response::{IntoResponse as _, Response},
};
use plimsoll_core::domain::FieldViolation;
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};
use tower::ServiceExt as _;

use super::{hosts, refusal::refuse};
use crate::{
    access::{
        guard::Guard,
        identity::{Denied, Role, Roles, UsageSlot},
    },
    ci::gitlab::SECRET_HEADER,
    door::{
        calls::Calls,
        gate::{Gate, NotAdmitted, Port, shown_path},
        net::{self, Bounds, BoxError, Listener, Peer, Policy},
        permissions::{self, COLLECT_PATH, Endpoint, HOOK_WITH_SECRET, WEBHOOK},
    },
    runtime::metrics::Metrics,
};

/// Concurrent requests on one HTTP/2 connection. Browsers and API servers use fewer, or open
/// another connection. Each may hold a piece of its answer that the client does not read.
const MAX_CONCURRENT_STREAMS: u32 = 32;
const GRPC: &str = "application/grpc";
/// gRPC status `UNIMPLEMENTED` (grpc/doc/statuscodes.md): the client need not repeat the call.
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

/// A port for HTTP.
#[derive(Debug)]
pub(super) enum HttpPort {
    /// For people, tools and GitLab's hooks.
    Paths {
        /// Port of the gRPC listener, for the error text; `None` if unknown.
        grpc_port: Option<u16>,
        /// Host names that are accepted, in lower case; `None` if there is an access file.
        own_names: Option<Arc<[String]>>,
        has_hook_secret: bool,
    },
    /// For Kubernetes' webhook: its TLS settings decide who may call.
    Webhook,
}

impl HttpPort {
    /// The port for people and tools of a server with these names.
    pub(super) fn of(
        guard: &Guard,
        grpc_port: Option<u16>,
        names: &Arc<[String]>,
        has_hook_secret: bool,
    ) -> Self {
        let own_names = guard.is_open().then(|| Arc::clone(names));
        Self::Paths { grpc_port, own_names, has_hook_secret }
    }
}

/// The limits for this number of connections, and the time limits of each.
pub(crate) fn bounds(connections: usize) -> Bounds {
    let first = Duration::from_secs(30);
    Bounds { connections, first, admitted: first, body: first, idle: Duration::from_mins(2) }
}

/// What serving takes beside the routes.
pub(super) struct ServingParts {
    pub(super) calls: Calls,
    pub(super) guard: Guard,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stopping: CancellationToken,
}

/// Serves until `parts.stopping`, then lets running requests finish. [`net`] describes what happens to a client that exceeds a bound.
pub(super) async fn serve(
    listener: Listener,
    (port, routes): (HttpPort, Router),
    bounds: Bounds,
    ServingParts { calls, guard, metrics, stopping }: ServingParts,
) {
    let policy = Policy {
        bounds,
        streams: MAX_CONCURRENT_STREAMS,
        grpc: None,
        open: metrics.http_connections.clone(),
        replaced: metrics.http_connections_replaced.clone(),
        cut: metrics.http_connections_cut.clone(),
    };
    let gate = Arc::new(Gate { routes, calls, guard, body_within: bounds.body, port });
    // boxed, because HTTP/1 keeps room for the future of a request until its connection ends
    let answer = move |request| Box::pin(Arc::clone(&gate).answer(request));
    net::serve(listener, policy, answer, stopping).await;
}

impl Port for HttpPort {
    const REFUSED_USE: bool = true;

    fn endpoint(&self, head: &Head) -> Result<&'static Endpoint, Box<Response>> {
        let path = shown_path(head.uri.path());
        let refused = |(status, fault): (StatusCode, _)| Err(Box::new(refuse(path, status, &fault)));
        if let Self::Paths { grpc_port, own_names, .. } = self {
            if is_grpc(&head.headers) {
                return Err(Box::new(stray_call(path, *grpc_port)));
            }
            let foreign =
                own_names.as_ref().and_then(|own| hosts::foreign_host(&head.headers, &head.uri, own));
            if let Some(foreign) = foreign {
                return refused(foreign);
            }
        }
        if let Some(foreign) = hosts::foreign_page(&head.method, &head.headers, &head.uri) {
            return refused(foreign);
        }
        match self {
            Self::Paths { has_hook_secret: true, .. } if path == COLLECT_PATH => Ok(&HOOK_WITH_SECRET),
            Self::Paths { .. } => Ok(permissions::of_path(path, head.method == Method::POST)),
            Self::Webhook => {
                // the TLS settings accept only valid certificates
                if let Some(peer) = head.extensions.get::<Peer>().filter(|peer| !peer.names.is_empty()) {
                    peer.requests.mark_admitted(|| Some(UsageSlot::default()));
                }
                Ok(&WEBHOOK)
            }
        }
    }

    /// GitLab sends the secret of a hook in a header of its own. That secret may be a token of the access file, so that each project's hook
    /// can have its own. The header is copied: it shares the buffer that the request was read into, and calls may wait for hours.
    fn authorization(Head { headers, .. }: &Head, roles: Roles) -> Option<HeaderValue> {
        let bearer = || {
            let secret = headers.get(SECRET_HEADER).filter(|_secret| roles.has(Role::Hook))?;
            HeaderValue::from_bytes(&[b"Bearer ", secret.as_bytes()].concat()).ok()
        };
        let sent = headers.get(header::AUTHORIZATION);
        sent.map_or_else(bearer, |sent| HeaderValue::from_bytes(sent.as_bytes()).ok())
    }

    fn refusal(&self, path: &str, why: NotAdmitted) -> Response {
        let mut retry_after = None;
        let (status, text) = match why {
            NotAdmitted::Exceeded(exceeded) => {
                retry_after = Some(exceeded.retry_after.as_secs().max(1));
                (StatusCode::TOO_MANY_REQUESTS, exceeded.to_string())
            }
            NotAdmitted::OverAll(text) => (StatusCode::FORBIDDEN, text),
            NotAdmitted::Denied(denied) => match denied {
                Denied::Unidentified | Denied::NotAccepted(_) => {
                    (StatusCode::UNAUTHORIZED, denied.to_string())
                }
                Denied::NotNow | Denied::Changed => (StatusCode::SERVICE_UNAVAILABLE, denied.to_string()),
                Denied::NoGrant | Denied::NotAllowed { .. } => (StatusCode::FORBIDDEN, denied.to_string()),
            },
        };
        let mut answer = refuse(path, status, &FieldViolation::new("authorization", text));
        if status == StatusCode::UNAUTHORIZED {
            // asks a browser for name and password: any name, and the token as password
            let schemes = HeaderValue::from_static("Basic realm=\"plimsoll\", Bearer realm=\"plimsoll\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, schemes);
        }
        answer.headers_mut().extend(retry_after.map(|after| (header::RETRY_AFTER, HeaderValue::from(after))));
        answer
    }

    fn too_late(within: Duration) -> BoxError {
        format!("the request did not come whole within {} s", within.as_secs()).into()
    }

    /// A stopping server waits until the answer has begun; its connection sends the rest.
    async fn respond(&self, routes: Router, request: Request, _call: TaskTrackerToken) -> Response {
        let Ok(answer) = routes.oneshot(request).await;
        answer
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // `application/grpc+proto` and the like are gRPC; `application/grpc-web` is not
    kind.and_then(|kind| kind.strip_prefix(GRPC)).is_some_and(|rest| !rest.starts_with("-web"))
}

/// The answer to a gRPC call to any path: the port of the gRPC listener, instead of "not found".
fn stray_call(path: &str, port: Option<u16>) -> Response {
    let path: String = path.chars().take(100).collect();
    tracing::info!(path, "a call of gRPC came to the port for HTTP");
    let port = port.map_or_else(String::new, |port| format!(" {port}"));
    let text = format!(
        "this port serves HTTP; plimsoll-server serves gRPC at port{port} (grpc_listen): use that one, or have the proxy use it"
    );
    let message = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("this port serves no gRPC"));
    let headers = [("grpc-status", UNIMPLEMENTED), ("grpc-message", message)];
    ([(header::CONTENT_TYPE, HeaderValue::from_static(GRPC))], headers).into_response()
}

#[cfg(test)]
mod tests;
