//! The way in of every rpc: who may not call is answered here, and all calls are counted until their answer has gone out.
//!
//! One layer for both, because each layer costs every call two allocations and a virtual call.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use tonic::{
    body::Body,
    codegen::{BoxFuture, Service, http},
};
use tracing::Instrument as _;

use super::{calls::Calls, connected, guarded::admit};
use crate::guard::Guard;

/// What stands before every service.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) calls: Calls,
    pub(super) guard: Guard,
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
        let Entry { calls, guard } = self.entry.clone();
        let call = calls.begin();
        let span = tracing::debug_span!("call", otel.name = request.uri().path());
        let admitted = admit(&guard, &mut request);
        // one that was refused, and one that everybody may make, keeps no connection
        let held = (call, connected::begin(&request));
        let answering = admitted.map(|()| self.inner.call(request).instrument(span));
        Box::pin(async move {
            let answer = match answering {
                Ok(answering) => answering.await?,
                Err(status) => status.into_http(),
            };
            Ok(answer.map(|body| calls.answer(held, body)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;
    use crate::{identity::Identity, metrics::Metrics};

    #[tokio::test]
    async fn a_call_is_counted_until_its_answer_is_gone_and_carries_who_calls() {
        let guard = Guard::open(None, Arc::new(Metrics::new())).unwrap();
        let entry = Entry { calls: Calls::default(), guard };
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
