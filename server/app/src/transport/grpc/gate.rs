//! The way in of every rpc: who may not call is answered here, and all calls are counted until their answer has gone out.
//!
//! One layer for both, because each layer costs every call two allocations and a virtual call.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    Code, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
};
use tracing::Instrument as _;

use super::{
    call_answer,
    guarded::{Places, admit, lasts},
    status,
};
use crate::{
    access::guard::Guard,
    runtime::metrics::{Kind, Metrics},
    transport::calls::Calls,
};

/// What stands before every service.
#[derive(Debug, Clone)]
pub(super) struct CallLayer {
    pub(super) calls: Calls,
    pub(super) guard: Guard,
    pub(super) metrics: Arc<Metrics>,
}

impl<S> tower::Layer<S> for CallLayer {
    type Service = Entered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Entered { inner, entry: self.clone() }
    }
}

/// A service behind it.
#[derive(Debug, Clone)]
pub(super) struct Entered<S> {
    inner: S,
    entry: CallLayer,
}

impl<S, R> Service<http::Request<R>> for Entered<S>
where
    S: Service<http::Request<R>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<R>) -> Self::Future {
        let CallLayer { calls, guard, metrics } = self.entry.clone();
        let (call, lasts) = (calls.begin(), lasts(request.uri().path()));
        let span = tracing::debug_span!("call", otel.name = request.uri().path());
        let admitted = admit(&guard, &mut request);
        let answering = admitted.map(|places| (places, self.inner.call(request).instrument(span)));
        Box::pin(async move {
            let (places, answer) = match answering {
                Ok((places, answering)) => {
                    let mut answer = answering.await?;
                    status::blame_sender(answer.headers_mut());
                    (places, answer)
                }
                Err(status) => (Places::default(), status.into_http()),
            };
            let Places { request, call: own } = places;
            // one that lasts has a place as a stream by now
            let own = if lasts { None } else { Some(own) };
            // an error alone stands in the header; one that ends a stream comes behind it
            if let Some(code) =
                answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
            {
                let code = status::name(code);
                metrics.calls_failed.get_or_create(&Kind::of(code)).inc();
            }
            Ok(answer.map(|body| call_answer::answer(&calls, (call, request, own), body)))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;
    use crate::{
        access::identity::{Identity, Role},
        transport::grpc::guarded::tests::OneStream,
    };

    fn entry() -> CallLayer {
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(None, Arc::clone(&metrics)).unwrap();
        CallLayer { calls: Calls::default(), guard, metrics }
    }

    #[tokio::test]
    async fn a_call_that_is_refused_is_counted_by_its_code() {
        let entry = entry();
        let service =
            service_fn(async |_request: http::Request<()>| Ok(status::of_crowd("watchers", 5).into_http()));
        entry.layer(service).oneshot(http::Request::new(())).await.unwrap();
        let text = entry.metrics.encode().unwrap();
        assert!(text.contains("plimsoll_grpc_calls_failed_total{kind=\"resource_exhausted\"} 1"), "{text}");
    }

    /// Comes when the message has come to its end, which may never be.
    async fn answered(message: Arc<Notify>) -> Result<http::Response<Body>, Infallible> {
        message.notified().await;
        Ok(http::Response::new(Body::new("a word".to_owned())))
    }

    #[tokio::test]
    async fn a_caller_has_so_many_calls_at_once_until_their_answers_are_gone_and_those_that_last_are_streams()
    {
        let one = OneStream::new(Role::Caller);
        let entry = CallLayer { guard: one.guard(), ..entry() };
        let finish = Arc::new(Notify::new());
        let message = Arc::clone(&finish);
        let service = service_fn(move |_request: http::Request<()>| answered(Arc::clone(&message)));
        let call = |rpc: &str| {
            let request = http::Request::builder().uri(format!("/plimsoll.v1.Predictor/{rpc}"));
            let request = request.header("authorization", "Bearer secret").body(()).unwrap();
            entry.layer(service.clone()).oneshot(request)
        };
        let code = |answer: &http::Response<Body>| {
            answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
        };
        let mut first = std::pin::pin!(call("Predict"));
        tokio::select! {
            biased;
            _early = first.as_mut() => panic!("its message has not come to its end"),
            second = call("Predict") => assert_eq!(code(&second.unwrap()), Some(Code::ResourceExhausted)),
        }
        finish.notify_one();
        let answer = first.await.unwrap();
        assert_eq!(
            code(&call("Predict").await.unwrap()),
            Some(Code::ResourceExhausted),
            "the answer is not read"
        );
        drop(answer);
        finish.notify_one();
        let lasting = call("PredictBatch").await.unwrap();
        finish.notify_one();
        assert_eq!(code(&call("Predict").await.unwrap()), None);
        drop(lasting);
    }

    #[tokio::test]
    async fn a_call_is_counted_until_its_answer_is_gone_and_carries_who_calls() {
        let entry = entry();
        let service = service_fn(async |request: http::Request<()>| {
            let caller = request.extensions().get::<Arc<Identity>>().cloned();
            assert_eq!(caller, Some(Identity::anyone()));
            // an answer without a word would be gone at once
            Ok(http::Response::new(Body::new("a word".to_owned())))
        });
        let answer = entry.layer(service).oneshot(http::Request::new(())).await.unwrap();
        assert_eq!(entry.calls.running(), 1);
        drop(answer);
        assert_eq!(entry.calls.running(), 0);
    }
}
