//! Sends spans over OTLP (gRPC) to a collector. Compiled only with the feature `otlp`.
//!
//! The queue of spans is bounded (2,048, the SDK's default). Further spans are dropped, so the
//! server never waits for the collector.

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use crate::runtime::settings::{CRATES, SERVER};

/// Name of the service in the traces.
const SERVICE_NAME: &str = "plimsoll-server";
/// Time limit for an answer of the collector.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for sending the remaining spans when the server stops.
const FINAL_SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends spans to a collector.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts sending spans to this address. Call it within a runtime. The collector need not be
    /// reachable yet.
    /// Errors: `endpoint` is not an address.
    pub(crate) fn start(endpoint: &str) -> anyhow::Result<Self> {
        let exporter =
            SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(ANSWER_TIMEOUT);
        let exporter =
            exporter.build().with_context(|| format!("{endpoint} is not an address of a collector"))?;
        let about = Resource::builder().with_service_name(SERVICE_NAME).build();
        Ok(Self(SdkTracerProvider::builder().with_resource(about).with_batch_exporter(exporter).build()))
    }

    /// The layer that passes spans to the sender.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let crates = CRATES.into_iter().chain([SERVER]);
        let own = Targets::new().with_targets(crates.map(|name| (name, Level::DEBUG)));
        tracing_opentelemetry::layer().with_tracer(self.0.tracer(SERVICE_NAME)).with_filter(own)
    }

    /// Sends the remaining spans.
    pub(crate) async fn end(self) {
        // the shutdown blocks until the runtime has sent the spans, so it must not run on a thread
        // of the runtime
        let ending = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FINAL_SEND_TIMEOUT));
        if let Ok(Err(error)) = ending.await {
            tracing::warn!(%error, "the last spans did not reach the collector");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::mpsc};

    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{
        body::Body,
        codegen::{Service, http},
        server::NamedService,
    };
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// A collector that keeps what it gets.
    #[derive(Clone)]
    struct Collector(mpsc::Sender<Vec<u8>>);

    impl NamedService for Collector {
        const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
    }

    impl Service<http::Request<Body>> for Collector {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

        fn poll_ready(
            &mut self,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Infallible>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let got = self.0.clone();
            Box::pin(async move {
                let body = http_body_util::BodyExt::collect(request.into_body()).await.unwrap();
                got.send(body.to_bytes().to_vec()).unwrap();
                // an empty message after the header of its frame
                let answer = http::Response::new(Body::new(Answer(Some(vec![0; 5]))));
                let (mut head, body) = answer.into_parts();
                head.headers.insert("content-type", http::HeaderValue::from_static("application/grpc"));
                Ok(http::Response::from_parts(head, body))
            })
        }
    }

    /// One message, then the status.
    struct Answer(Option<Vec<u8>>);

    impl http_body::Body for Answer {
        type Data = tonic::codegen::Bytes;
        type Error = tonic::Status;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, tonic::Status>>> {
            let frame = match self.0.take() {
                Some(message) if !message.is_empty() => {
                    self.0 = Some(Vec::new());
                    http_body::Frame::data(message.into())
                }
                Some(_sent) => {
                    let status = ("grpc-status", "0");
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert(status.0, http::HeaderValue::from_static(status.1));
                    http_body::Frame::trailers(trailers)
                }
                None => return std::task::Poll::Ready(None),
            };
            std::task::Poll::Ready(Some(Ok(frame)))
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_own_spans_are_exported_before_shutdown() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = mpsc::channel();
        let serving = tonic::transport::Server::builder()
            .add_service(Collector(sender))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let traces = Traces::start(&format!("http://{address}")).unwrap();
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            let call = tracing::debug_span!(target: "plimsoll_server::grpc", "call", otel.name = "the-call-of-a-test");
            let _in_call = call.enter();
            drop(tracing::debug_span!(target: "h2", "of-another-library").entered());
        });
        tokio::select! {
            served = serving => served.unwrap(),
            () = traces.end() => {}
        }
        let bytes: Vec<u8> = got.try_iter().flatten().collect();
        let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(holds("the-call-of-a-test") && holds(SERVICE_NAME), "{} bytes", bytes.len());
        assert!(!holds("of-another-library"));
    }

    #[tokio::test]
    async fn what_is_no_address_is_named() {
        let error = Traces::start("nowhere at all").unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("nowhere at all is not an address of a collector"), "{error}");
    }
}
