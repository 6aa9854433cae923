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

use super::{calls::Calls, guarded::admit, status};
use crate::{
    guard::Guard,
    metrics::{Kind, Metrics},
};

/// What stands before every service.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) calls: Calls,
    pub(super) guard: Guard,
    pub(super) metrics: Arc<Metrics>,
}

impl<S> tower::Layer<S> for Entry {
    type Service = Entered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Entered { inner, entry: self.clone() }
    }
}

/// A service behind it.
#[derive(Debug, Clone)]
pub(super) struct Entered<S> {
    inner: S,
    entry: Entry,
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
        let Entry { calls, guard, metrics } = self.entry.clone();
        let call = calls.begin();
        let span = tracing::debug_span!("call", otel.name = request.uri().path());
        let admitted = admit(&guard, &mut request);
        let answering = admitted.map(|running| (running, self.inner.call(request).instrument(span)));
        Box::pin(async move {
            let (running, answer) = match answering {
                Ok((running, answering)) => (running, answering.await?),
                Err(status) => (None, status.into_http()),
            };
            // an error alone stands in the header; one that ends a stream comes behind it
            if let Some(code) =
                answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
            {
                let code = status::name(code);
                metrics.calls_failed.get_or_create(&Kind::of(code)).inc();
            }
            Ok(answer.map(|body| calls.answer((call, running), body)))
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;
    use crate::identity::Identity;

    fn entry() -> Entry {
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(None, Arc::clone(&metrics)).unwrap();
        Entry { calls: Calls::default(), guard, metrics }
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
