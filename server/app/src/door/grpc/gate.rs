//! Checks each rpc before it is handled: a request that is not gRPC, or whose caller is not
//! admitted, is answered here, and so is one that takes too long. All calls are counted until their
//! answers are sent. The checks are plain functions, because each layer of tower would cost every
//! call an allocation and a virtual call.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use http_body::Body as HttpBody;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{either::Either, task::task_tracker::TaskTrackerToken};
use tonic::{
    Code, Status,
    body::Body,
    codegen::{Bytes, Service, http},
};
use tower::{ServiceExt as _, util::Oneshot};
use tracing::{Instrument as _, instrument::Instrumented};

use super::{
    call_answer, deadline,
    guarded::{CallSlots, admit},
    request_check, status,
};
use crate::{
    access::{Refusal, guard::Guard},
    door::{
        calls::Calls,
        net::BodyDeadline,
        permissions::{self, REFLECTION},
    },
    runtime::metrics::{KindLabel, Metrics},
};

/// Time limit until the answer begins. Answers from memory take far less; a verdict waits for the
/// disk, and a client may send its message slowly. The answers of streams begin at once and have
/// other limits.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// Most calls of reflection at once, of all callers.
pub(super) const MAX_REFLECTIONS: usize = 64;

/// The services, with what is needed for the checks.
#[derive(Debug, Clone)]
pub(super) struct Gate<S> {
    pub(super) services: S,
    pub(super) calls: Calls,
    pub(super) guard: Guard,
    pub(super) metrics: Arc<Metrics>,
    /// Time limit from the head of a call to the end of its message, for calls with a single
    /// message.
    pub(super) message_within: Duration,
    /// Slots of calls of reflection, which is open to every caller and has large answers.
    pub(super) reflections: Arc<Semaphore>,
}

/// The future of an answer: the service handles the call, or the caller is not admitted.
type CallAnswer<S> =
    Either<Instrumented<Oneshot<S, http::Request<Body>>>, Ready<Result<http::Response<Body>, Infallible>>>;

/// A call that was admitted and counted as running, and whose answer has not begun.
struct BegunCall<A> {
    /// Time limit until the answer begins.
    within: Duration,
    answering: A,
    call: TaskTrackerToken,
    places: CallSlots,
    /// Whether the client decides how long the call lasts.
    lasts: bool,
}

impl<S> Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible> + Clone,
{
    /// Answers a request. Nothing is done before the returned future is polled, so that all work runs
    /// on the threads of the call. It is one future that keeps the request only once, because hyper
    /// and tokio copy the future several times.
    ///
    /// # Errors
    /// None: a refusal is an answer.
    pub(super) async fn answer<B>(
        self: Arc<Self>,
        request: http::Request<B>,
    ) -> Result<http::Response<Body>, Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
        B: Unpin + Send + 'static,
    {
        let BegunCall { within, answering, call, places, lasts } = match self.begin(request) {
            Ok(begun) => begun,
            Err(refused) => return Ok(*refused),
        };
        let Ok(Ok(mut answer)) = timeout(within, answering).await else {
            let late = Status::deadline_exceeded("the answer did not begin in time");
            self.count_failure(late.code());
            return Ok(late.into_http());
        };
        status::blame_sender(answer.headers_mut());
        // an answer without messages has its status in the headers; otherwise it is in the trailers
        if let Some(code) = answer.headers().get(Status::GRPC_STATUS) {
            self.count_failure(Code::from_bytes(code.as_bytes()));
        }
        let CallSlots { request, call: own, reflection } = places;
        // a long call holds a slot among the streams instead
        let own = if lasts { None } else { Some(own) };
        Ok(answer.map(|body| call_answer::call_body(&self.calls, (call, request, (own, reflection)), body)))
    }

    /// Checks and counts a call, and passes it to its service.
    ///
    /// # Errors
    /// The request is not a gRPC call; the error is the answer.
    fn begin<B>(
        &self,
        request: http::Request<B>,
    ) -> Result<BegunCall<CallAnswer<S>>, Box<http::Response<Body>>>
    where
        B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
        B: Unpin + Send + 'static,
    {
        if let Some(refused) = request_check::refusal(&request) {
            return Err(Box::new(refused));
        }
        let within =
            deadline::call_timeout(request.headers()).map_or(ANSWER_WITHIN, |asked| asked.min(ANSWER_WITHIN));
        let path = request.uri().path();
        let reflection = self.reflection_slot(path)?;
        let Some(rpc) = permissions::of_rpc(path) else {
            self.count_failure(Code::Unimplemented);
            return Err(Box::new(Status::unimplemented("this server has no such rpc").into_http()));
        };
        let (call, span) = (self.calls.begin(), tracing::debug_span!("call", otel.name = path));
        let mut request = request.map(|body| {
            if rpc.sends {
                return Body::new(body);
            }
            Body::new(BodyDeadline::new(body, self.message_within, too_late))
        });
        let (mut places, answering) = match admit(&self.guard, rpc, &mut request) {
            Ok(places) => (places, Either::Left(self.services.clone().oneshot(request).instrument(span))),
            Err(status) => (CallSlots::default(), Either::Right(ready(Ok(status.into_http())))),
        };
        places.reflection = reflection;
        Ok(BegunCall { within, answering, call, places, lasts: rpc.lasts })
    }

    /// The slot of a call of reflection; `None` for other calls.
    /// Errors: all are taken.
    fn reflection_slot(&self, path: &str) -> Result<Option<OwnedSemaphorePermit>, Box<http::Response<Body>>> {
        if !path.starts_with(REFLECTION) {
            return Ok(None);
        }
        Arc::clone(&self.reflections).try_acquire_owned().map(Some).map_err(|_all_taken| {
            self.count_failure(Code::ResourceExhausted);
            let crowded = Refusal::Crowded { what: "calls of reflection", most: MAX_REFLECTIONS };
            Box::new(Status::from(crowded).into_http())
        })
    }

    fn count_failure(&self, code: Code) {
        self.metrics.calls_failed.get_or_create(&KindLabel::of(status::name(code))).inc();
    }
}

fn too_late(within: Duration) -> Box<dyn std::error::Error + Send + Sync> {
    let text = format!("the message did not come whole within {} s", within.as_secs());
    Status::deadline_exceeded(text).into()
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;
    use tower::service_fn;

    use super::*;
    use crate::{
        access::{
            guard::Caller,
            identity::{Identity, Role},
        },
        door::grpc::guarded::tests::OneStream,
    };

    fn gate<S>(services: S) -> Gate<S> {
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(None, Arc::clone(&metrics)).unwrap();
        Gate {
            services,
            calls: Calls::default(),
            guard,
            metrics,
            message_within: Duration::from_secs(10),
            reflections: Arc::new(Semaphore::new(MAX_REFLECTIONS)),
        }
    }

    fn request(rpc: &str) -> http::Request<Body> {
        let request = http::Request::post(format!("/plimsoll.v1.Predictor/{rpc}"));
        let request = request.version(http::Version::HTTP_2);
        let request = request.header("content-type", "application/grpc");
        request.header("authorization", "Bearer secret").body(Body::empty()).unwrap()
    }

    async fn call<S>(gate: &Arc<Gate<S>>, rpc: &str) -> http::Response<Body>
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible> + Clone,
    {
        let Ok(answer) = Arc::clone(gate).answer(request(rpc)).await;
        answer
    }

    #[test]
    fn a_call_is_small_while_it_is_answered() {
        let answering = Arc::new(gate(tonic::service::Routes::default())).answer(request("Predict"));
        let bytes = size_of_val(&answering);
        // with what hyper and tokio add, a block that malloc keeps at hand (1,032 bytes at most in glibc)
        assert!(bytes <= 864, "{bytes}");
    }

    #[tokio::test]
    async fn refused_calls_are_counted_by_code() {
        let crowd = async |_: http::Request<Body>| {
            Ok(Status::from(Refusal::Crowded { what: "watchers", most: 5 }).into_http())
        };
        let gate = Arc::new(gate(service_fn(crowd)));
        call(&gate, "Predict").await;
        let text = gate.metrics.encode().unwrap();
        assert!(text.contains("plimsoll_grpc_calls_failed_total{kind=\"resource_exhausted\"} 1"), "{text}");
    }

    /// Comes when the message has come to its end, which may never be.
    async fn answered(message: Arc<Notify>) -> Result<http::Response<Body>, Infallible> {
        message.notified().await;
        Ok(http::Response::new(Body::new("a word".to_owned())))
    }

    #[tokio::test]
    async fn calls_and_streams_per_caller_are_limited() {
        let one = OneStream::new(Role::Caller);
        let finish = Arc::new(Notify::new());
        let message = Arc::clone(&finish);
        let service = service_fn(move |_: http::Request<Body>| answered(Arc::clone(&message)));
        let gate = Arc::new(Gate { guard: one.guard(), ..gate(service) });
        let call = |rpc: &'static str| call(&gate, rpc);
        let code = |answer: &http::Response<Body>| {
            answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
        };
        let mut first = std::pin::pin!(call("Predict"));
        tokio::select! {
            biased;
            _early = first.as_mut() => panic!("its message has not come to its end"),
            second = call("Predict") => assert_eq!(code(&second), Some(Code::ResourceExhausted)),
        }
        finish.notify_one();
        let answer = first.await;
        assert_eq!(code(&call("Predict").await), Some(Code::ResourceExhausted), "the answer is not read");
        drop(answer);
        finish.notify_one();
        let lasting = call("PredictBatch").await;
        finish.notify_one();
        assert_eq!(code(&call("Predict").await), None);
        drop(lasting);
    }

    #[tokio::test]
    async fn calls_of_reflection_are_bounded_without_a_token() {
        let endless = async |_: http::Request<Body>| Ok(http::Response::new(Body::new("a word".to_owned())));
        let gate = Arc::new(Gate { reflections: Arc::new(Semaphore::new(1)), ..gate(service_fn(endless)) });
        let reflect = async || {
            let uri = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
            let (mut head, body) = request("").into_parts();
            head.uri = uri.parse().unwrap();
            let Ok(answer) = Arc::clone(&gate).answer(http::Request::from_parts(head, body)).await;
            answer
        };
        let unread = reflect().await;
        assert_eq!(reflect().await.headers()[Status::GRPC_STATUS], "8", "resource exhausted");
        assert!(!call(&gate, "Predict").await.headers().contains_key(Status::GRPC_STATUS));
        drop(unread);
        assert!(!reflect().await.headers().contains_key(Status::GRPC_STATUS));
    }

    #[tokio::test]
    async fn a_call_is_counted_and_carries_its_caller() {
        let gate = Arc::new(gate(service_fn(async |request: http::Request<Body>| {
            let caller = request.extensions().get::<Caller>();
            assert_eq!(caller.map(|caller| &**caller), Some(&Identity::anyone()));
            // an answer without a word would be gone at once
            Ok(http::Response::new(Body::new("a word".to_owned())))
        })));
        let answer = call(&gate, "Predict").await;
        assert_eq!(gate.calls.running(), 1);
        drop(answer);
        assert_eq!(gate.calls.running(), 0);
    }
}
