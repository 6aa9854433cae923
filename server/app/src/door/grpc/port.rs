//! What the port for gRPC does in its own way: it refuses what is no call, with the statuses of the gRPC specification
//! (PROTOCOL-HTTP2.md, "Requests"), keeps the time limits of callers, counts failures, and ends streams when the server stops.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header, request::Parts as Head},
    response::Response,
};
use http_body::{Frame, SizeHint};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{sync::WaitForCancellationFutureOwned, task::task_tracker::TaskTrackerToken};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use super::status;
use crate::{
    access::{Refusal, identity::Roles},
    door::{
        calls::Calls,
        gate::{NotAdmitted, Port},
        net::BoxError,
        permissions::{self, Endpoint, REFLECTION},
    },
    runtime::metrics::{KindLabel, Metrics},
};

/// Time limit until the answer begins. Answers from memory take far less; a verdict waits for the
/// disk, and a client may send its message slowly. The answers of streams begin at once and have
/// other limits.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// Most calls of reflection at once, of all callers: it is open to every caller and has large answers.
const MAX_REFLECTIONS: usize = 64;
/// Most digits of `grpc-timeout`, as gRPC defines them. A number with so many does not overflow in any unit.
const TIMEOUT_DIGITS: usize = 8;
/// Content types of gRPC. A suffix names the format of messages; only protobuf is accepted. A page in a browser cannot send them to another
/// origin without a preflight request.
const CALLS: [&str; 2] = ["application/grpc", "application/grpc+proto"];
/// Answer to a gRPC call that a proxy has passed on as HTTP/1: the proxy passes the status to its caller.
const PROXIED: &str = "gRPC needs HTTP/2 on all of its way, and a proxy passed this call on as HTTP/1: make it speak HTTP/2 to \
    plimsoll-server (nginx: grpc_pass)";
/// Answer to all other requests of HTTP/1.
const UPGRADE_REQUIRED: &str = "This port serves gRPC, over HTTP/2 alone. HTTP is served at http_listen: port 7411 where it was not set.\n";

#[derive(Debug)]
pub(super) struct GrpcPort {
    calls: Calls,
    metrics: Arc<Metrics>,
    reflections: Arc<Semaphore>,
}

impl GrpcPort {
    pub(super) fn new(calls: Calls, metrics: Arc<Metrics>) -> Self {
        Self { calls, metrics, reflections: Arc::new(Semaphore::new(MAX_REFLECTIONS)) }
    }

    /// The response of a call that ends here. Failures are counted by their code.
    fn failed(&self, status: Status) -> Response {
        self.count_failure(status.code());
        status.into_http()
    }

    fn count_failure(&self, code: Code) {
        self.metrics.calls_failed.get_or_create(&KindLabel::of(status::name(code))).inc();
    }
}

impl Port for GrpcPort {
    const REFUSED_USE: bool = false;

    fn endpoint(&self, head: &Head) -> Result<&'static Endpoint, Box<Response>> {
        let refusal = |status, header: Option<(header::HeaderName, &'static str)>| {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = status;
            answer.headers_mut().extend(header.map(|(name, value)| (name, HeaderValue::from_static(value))));
            Err(Box::new(answer))
        };
        if let Some(of_http1) = http1_refusal(head.version, &head.headers) {
            return Err(Box::new(of_http1));
        }
        if head.method != Method::POST {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, Some((header::ALLOW, "POST")));
        }
        if !is_of_calls(&head.headers) {
            return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, None);
        }
        let unknown = || Box::new(self.failed(Status::unimplemented("this server has no such rpc")));
        permissions::of_rpc(head.uri.path()).ok_or_else(unknown)
    }

    fn authorization(head: &Head, _roles: Roles) -> Option<HeaderValue> {
        head.headers.get(header::AUTHORIZATION).cloned()
    }

    fn refusal(&self, _path: &str, why: NotAdmitted) -> Response {
        self.failed(why.into())
    }

    fn too_late(within: Duration) -> BoxError {
        let text = format!("the message did not come whole within {} s", within.as_secs());
        Status::deadline_exceeded(text).into()
    }

    async fn respond(&self, routes: Router, request: Request, call: TaskTrackerToken) -> Response {
        let within = call_timeout(request.headers()).map_or(ANSWER_WITHIN, |asked| asked.min(ANSWER_WITHIN));
        let reflection = if request.uri().path().starts_with(REFLECTION) {
            Arc::clone(&self.reflections).try_acquire_owned().map(Some)
        } else {
            Ok(None)
        };
        let Ok(reflection) = reflection else {
            let crowded = Refusal::Crowded { what: "calls of reflection", most: MAX_REFLECTIONS };
            return self.failed(crowded.into());
        };
        let Ok(Ok(mut answer)) = timeout(within, routes.oneshot(request)).await else {
            return self.failed(Status::deadline_exceeded("the answer did not begin in time"));
        };
        status::blame_sender(answer.headers_mut());
        // an answer without messages has its status in the headers; otherwise it is in the trailers
        if let Some(code) = answer.headers().get(Status::GRPC_STATUS) {
            self.count_failure(Code::from_bytes(code.as_bytes()));
        }
        answer.map(|body| Body::new(CallBody::new(body, &self.calls, (call, reflection))))
    }
}

/// The response to a request of HTTP/1; `None` if it is one of HTTP/2.
pub(super) fn http1_refusal(version: Version, headers: &HeaderMap) -> Option<Response> {
    if version == Version::HTTP_2 {
        return None;
    }
    let mut answer = Response::new(Body::empty());
    let mut set = |name, value| drop(answer.headers_mut().insert(name, HeaderValue::from_static(value)));
    set(header::CONNECTION, "close");
    if is_of_calls(headers) {
        set(header::CONTENT_TYPE, "application/grpc");
        set(Status::GRPC_STATUS, "12");
        set(Status::GRPC_MESSAGE, PROXIED);
        return Some(answer);
    }
    set(header::CONTENT_TYPE, "text/plain");
    set(header::UPGRADE, "h2c");
    *answer.status_mut() = StatusCode::UPGRADE_REQUIRED;
    Some(answer.map(|_empty| Body::from(UPGRADE_REQUIRED)))
}

fn is_of_calls(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    CALLS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// How long the caller waits: the header `grpc-timeout`, digits and a unit. `None` if it is missing or invalid, so that the server's own
/// limit applies.
fn call_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > TIMEOUT_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_hours(number),
        "M" => Duration::from_mins(number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The answer to a call while it is sent. A stream that does not end by itself (health, reflection, a batch whose client sends nothing) would
/// keep a server from stopping. So after [`Calls::end_idle`] an answer that has nothing to send ends with `UNAVAILABLE`; what is ready is
/// still sent.
struct CallBody {
    inner: Body,
    calls: Calls,
    /// Completes at [`Calls::end_idle`]. Created when the answer first has nothing to send: most answers
    /// never wait, and all calls share the lock that creating it takes.
    idle_ended: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    has_ended: bool,
    /// The count among the server's calls, and the slot of a call of reflection.
    _held: (TaskTrackerToken, Option<OwnedSemaphorePermit>),
}

impl CallBody {
    fn new(inner: Body, calls: &Calls, held: (TaskTrackerToken, Option<OwnedSemaphorePermit>)) -> Self {
        Self { inner, calls: calls.clone(), idle_ended: None, has_ended: false, _held: held }
    }
}

impl http_body::Body for CallBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(mut frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            if let Some(Ok(last)) = &mut frame
                && let Some(trailers) = last.trailers_mut()
            {
                status::blame_sender(trailers);
            }
            return Poll::Ready(frame);
        }
        let Self { calls, idle_ended, .. } = &mut *self;
        let idle_ended = idle_ended.get_or_insert_with(|| Box::pin(calls.idle_ended()));
        if idle_ended.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.has_ended = true;
        let mut trailers = HeaderMap::new();
        Status::from(Refusal::Stopping).add_header(&mut trailers).map_err(axum::Error::new)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
