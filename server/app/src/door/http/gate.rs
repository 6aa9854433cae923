//! Checks each request before it is routed. The checks are plain functions, because each layer of
//! axum would allocate a box for every request and copy all layers below it.
//!
//! | check | refuses |
//! |---|---|
//! | [`stray_grpc`] | gRPC calls |
//! | [`hosts`] | requests with another host name, if there is no access file |
//! | [`origin`] | changes requested by a page of another origin |
//! | [`guarded`] | callers without the role for the path |

use std::sync::Arc;

use axum::{Router, body::Body, extract::Request, http::Method, response::Response};
use tower::{ServiceExt as _, util::Oneshot};
use tracing::{Instrument as _, instrument::Instrumented};

use super::{
    guarded::{self, CallSlot},
    hosts, origin, shown_path, stray_grpc,
};
use crate::{access::guard::Guard, door::calls::Calls};

/// The routes of a listener, with the checks of its requests.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) router: Router,
    pub(super) calls: Calls,
    pub(super) checks: ListenerChecks,
}

#[derive(Debug)]
pub(super) enum ListenerChecks {
    /// The checks of the listener for people, tools and GitLab's hooks.
    Paths {
        /// Port of the gRPC listener, for the error text; `None` if unknown.
        grpc_port: Option<u16>,
        /// Host names that are accepted if there is no access file, in lower case.
        own_names: Arc<[String]>,
        guard: Guard,
        has_hook_secret: bool,
    },
    /// The checks of the listener for Kubernetes' webhook: its TLS settings decide who may call.
    Certificate,
}

/// The future of an answer: the router handles the request.
pub(super) type RouteAnswer = Instrumented<Oneshot<Router, Request>>;

impl Gate {
    /// Checks a request and passes it to its route. The slot must be held until the answer is sent.
    /// Errors: the request is refused; the error is the answer.
    pub(super) fn begin(&self, request: Request) -> Result<(RouteAnswer, Option<CallSlot>), Box<Response>> {
        // the router omits the body for HEAD, but these refusals bypass it; over HTTP/2 a body
        // would be a protocol error
        let is_head = *request.method() == Method::HEAD;
        let begun = self.check_and_route(request);
        begun.map_err(|refusal| if is_head { Box::new(refusal.map(|_body| Body::empty())) } else { refusal })
    }

    fn check_and_route(
        &self,
        mut request: Request,
    ) -> Result<(RouteAnswer, Option<CallSlot>), Box<Response>> {
        let span = tracing::debug_span!("request", otel.name = shown_path(request.uri()));
        let place = span.in_scope(|| match self.checks.refusal(&request) {
            Some(refusal) => Err(Box::new(refusal)),
            None => self.checks.admit(&mut request),
        })?;
        Ok((self.router.clone().oneshot(request).instrument(span), place))
    }
}

impl ListenerChecks {
    /// The refusal of a request that is not allowed for any caller.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if let Self::Paths { grpc_port, own_names, guard, .. } = self {
            let (headers, uri) = (request.headers(), request.uri());
            let stray = stray_grpc::refusal(headers, uri, *grpc_port);
            let foreign = || guard.is_open().then(|| hosts::refusal(headers, uri, own_names)).flatten();
            if let Some(refusal) = stray.or_else(foreign) {
                return Some(refusal);
            }
        }
        origin::refusal(request)
    }

    /// Adds the caller's identity to the request; returns the refusal for a caller without
    /// permission.
    fn admit(&self, request: &mut Request) -> Result<Option<CallSlot>, Box<Response>> {
        match self {
            Self::Paths { guard, has_hook_secret, .. } => guarded::admit(request, guard, *has_hook_secret),
            Self::Certificate => {
                guarded::make_certified_slot_permanent(request.extensions());
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;
    use crate::runtime::metrics::Metrics;

    #[tokio::test]
    async fn a_refused_head_has_no_body() {
        let guard = Guard::open(None, Arc::new(Metrics::new())).unwrap();
        let checks = ListenerChecks::Paths {
            grpc_port: None,
            own_names: Arc::default(),
            guard,
            has_hook_secret: false,
        };
        let router = Router::new().route("/livez", get(async || "ok\n"));
        let gate = Gate { router, calls: Calls::default(), checks };
        let answer = async |method: Method, host: &str| {
            let request = Request::builder().method(method).uri("/livez").header("host", host);
            let answer = match gate.begin(request.body(Body::empty()).unwrap()) {
                Ok((answering, _place)) => answering.await.unwrap(),
                Err(refused) => *refused,
            };
            let status = answer.status().as_u16();
            (status, axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap().len())
        };
        assert_eq!(answer(Method::GET, "localhost").await, (200, 3));
        assert_eq!(answer(Method::HEAD, "localhost").await, (200, 0));
        assert!(answer(Method::GET, "evil.example").await.1 > 0);
        assert_eq!(answer(Method::HEAD, "evil.example").await, (421, 0));
    }
}
