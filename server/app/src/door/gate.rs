//! Where requests of all ports are admitted, bounded in time, counted and answered. What a port does in its own way is its [`Port`].
//!
//! One plain function, because each layer of tower would box every request, copy all layers below it, and need an order that three
//! listeners keep alike.

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{self, HeaderValue, Method, request::Parts as Head},
    response::Response,
};
use http_body::Body as HttpBody;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument as _;

use super::{
    calls::Calls,
    net::{BodyDeadline, BoxError, Peer, RunningRequest, SentBody},
    permissions::{Endpoint, Who},
};
use crate::access::{
    guard::{Caller, Guard},
    identity::{Denied, ExceededBound, Identity, Role, Roles, UsageSlot},
};

/// Path of Kubernetes' webhook; a secret may follow it.
pub(super) const ADMIT_PATH: &str = "/admit";

/// Marks an answer that may wait for hours, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongAnswer;

/// Why a caller is not admitted.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    Denied(Denied),
    /// The answer is over all projects, and the caller may see some: what it can use instead.
    OverAll(String),
    Exceeded(ExceededBound),
}

impl From<Denied> for NotAdmitted {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

/// What a port does in its own way.
pub(super) trait Port: Send + Sync + 'static {
    /// Who may send this request.
    /// Errors: no caller may; the error is the answer.
    fn endpoint(&self, head: &Head) -> Result<&'static Endpoint, Box<Response>>;

    /// Whether a request that is refused is a use of its connection.
    const REFUSED_USE: bool;

    /// The header with the caller's token.
    fn authorization(head: &Head, roles: Roles) -> Option<HeaderValue>;

    /// The answer to a caller that is not admitted.
    fn refusal(&self, path: &str, why: NotAdmitted) -> Response;

    /// The error of a request whose body did not come whole in time.
    fn too_late(within: Duration) -> BoxError;

    /// Answers an admitted request with the routes. A stopping server waits for `call`.
    fn respond(
        &self,
        routes: Router,
        request: Request,
        call: TaskTrackerToken,
    ) -> impl Future<Output = Response> + Send;
}

/// The routes of a listener, and what is needed to admit its requests.
#[derive(Debug)]
pub(super) struct Gate<P> {
    pub(super) routes: Router,
    pub(super) calls: Calls,
    pub(super) guard: Guard,
    /// Time from the head of a request to the end of its body.
    pub(super) body_within: Duration,
    pub(super) port: P,
}

/// A slot of the caller among its concurrent calls; `None` if it holds none.
type CallSlot = Option<UsageSlot>;

impl<P: Port> Gate<P> {
    /// Answers a request. Nothing is done before the returned future is polled, so that all work runs on the threads of the call.
    /// Errors: never; a refusal is an answer.
    pub(super) async fn answer<B>(
        self: Arc<Self>,
        request: http::Request<B>,
    ) -> Result<Response<SentBody<Body, CallSlot>>, Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let span = tracing::debug_span!("call", otel.name = shown_path(request.uri().path()));
        Ok(self.answer_in_span(request).instrument(span).await)
    }

    async fn answer_in_span<B>(&self, request: http::Request<B>) -> Response<SentBody<Body, CallSlot>>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let call = self.calls.begin();
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let endpoint = self.port.endpoint(&head);
        // a call that any client can keep open keeps no connection
        let is_open_ended = endpoint.as_ref().is_ok_and(|row| row.lasts && row.who == Who::Anyone);
        let peer = head.extensions.get::<Peer>().filter(|_| !is_open_ended);
        let begin = || peer.map(|peer| peer.requests.begin());
        let refused_too = if P::REFUSED_USE { begin() } else { None };
        let body = self.bounded(body, endpoint.as_ref().is_ok_and(|row| row.sends), &head);
        let admitted = endpoint.and_then(|endpoint| {
            let path = shown_path(head.uri.path());
            let admitted =
                self.admit(endpoint, &head).map_err(|why| Box::new(self.port.refusal(path, why)))?;
            Ok((endpoint, admitted))
        });
        let (endpoint, (caller, slot)) = match admitted {
            Ok(admitted) => admitted,
            // the routes omit the body for HEAD; over HTTP/2 it would be a protocol error
            Err(refusal) => {
                let sent =
                    |body| SentBody::new(if is_head { Body::empty() } else { body }, refused_too, None);
                return (*refusal).map(sent);
            }
        };
        let running = refused_too.or_else(begin);
        let mut request = Request::from_parts(head, body);
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let answer = self.port.respond(self.routes.clone(), request, call).await;
        let waits = answer.extensions().get::<LongAnswer>().is_some();
        running.iter().filter(|_| waits).for_each(RunningRequest::mark_waiting);
        // a long call holds a slot of another kind, so that its caller can still ask
        let slot = slot.filter(|_slot| !waits && !endpoint.lasts);
        answer.map(|body| SentBody::new(body, running, slot))
    }

    /// The caller of a request, with its slot among the concurrent calls; `None` if the endpoint is open to every caller, who
    /// then gets no lasting place for its connection.
    /// Errors: the caller is unknown, lacks the role, or exceeds a bound.
    fn admit(&self, endpoint: &Endpoint, head: &Head) -> Result<(Option<Caller>, CallSlot), NotAdmitted> {
        let Some(roles) = endpoint.who.roles() else { return Ok((None, None)) };
        let peer = head.extensions.get::<Peer>();
        let (caller, slot) = if self.guard.is_open() {
            (Identity::anyone().into(), None)
        } else {
            let names = peer.map(|peer| Arc::clone(&peer.names)).unwrap_or_default();
            let path = shown_path(head.uri.path());
            let authorization = P::authorization(head, roles);
            let caller = Caller::admit(&self.guard, authorization.as_ref(), names, roles, path)?;
            let slot = self.within_bounds(endpoint, (&caller, path), peer.map(|peer| peer.address.ip()))?;
            (caller, Some(slot))
        };
        if let Some(peer) = peer {
            peer.requests.mark_admitted(|| caller.connection_slot());
        }
        Ok((Some(caller), slot))
    }

    /// The slot of a known caller.
    fn within_bounds(
        &self,
        endpoint: &Endpoint,
        (caller, path): (&Caller, &str),
        from: Option<IpAddr>,
    ) -> Result<UsageSlot, NotAdmitted> {
        if endpoint.needs_name {
            self.guard.known(caller, path)?;
        }
        if let Some(instead) = endpoint.instead.filter(|_| !caller.projects.is_all()) {
            let text = format!("{} may see only some projects: {instead}", caller.name);
            return Err(NotAdmitted::OverAll(text));
        }
        // the messages of agents have rates of their own, which are counted as messages arrive
        if endpoint.who.roles().is_some_and(|roles| !roles.has(Role::Agent)) {
            self.guard.question(caller).map_err(NotAdmitted::Exceeded)?;
        }
        caller.within(|caller| caller.call_place(from)).map_err(NotAdmitted::Exceeded)
    }

    /// The body, which must come whole in time unless the client may send for as long as it likes. It is noted if no handler reads it.
    fn bounded<B>(&self, body: B, is_endless: bool, head: &Head) -> Body
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        if body.is_end_stream() {
            return Body::empty();
        }
        if is_endless {
            return Body::new(body);
        }
        let requests = head.extensions.get::<Peer>().map(|peer| peer.requests.clone());
        Body::new(BodyDeadline::new(body, self.body_within, P::too_late, requests))
    }
}

/// The path of a request, for logs, without the secret that may follow [`ADMIT_PATH`], also if it was sent to the wrong listener.
pub(super) fn shown_path(path: &str) -> &str {
    if path.starts_with(ADMIT_PATH) { ADMIT_PATH } else { path }
}
