//! A server that takes every attempt and gives the verdicts that a test sets.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use plimsoll_proto::v1::{self as pb, predictor_server};
use plimsoll_support::collector::{CollectorFaults, FakeCollector};
use tokio_stream::Empty;
use tonic::{Request, Response, Status, Streaming, transport::Server};

type RpcResult<T> = Result<Response<T>, Status>;

/// A running server. Ends when it is dropped.
pub(super) struct Judge {
    collector: FakeCollector,
    asked: Arc<Mutex<Vec<pb::ShouldRetryRequest>>>,
}

impl Judge {
    /// Gives these verdicts, one after another; then it is silent, and every question waits for ever.
    pub(super) async fn with(verdicts: &[pb::Verdict]) -> Self {
        let asked = Arc::default();
        let service = Service {
            verdicts: Arc::new(Mutex::new(verdicts.iter().cloned().collect())),
            asked: Arc::clone(&asked),
        };
        let predictor = predictor_server::PredictorServer::new(service);
        let serve = |collector| Server::builder().add_service(collector).add_service(predictor);
        let faults = CollectorFaults { forgets: true, ..CollectorFaults::default() };
        Self { collector: FakeCollector::serve(faults, serve).await, asked }
    }

    pub(super) fn url(&self) -> &str {
        &self.collector.url
    }

    /// The questions so far.
    pub(super) fn asked(&self) -> Vec<pb::ShouldRetryRequest> {
        self.asked.lock().unwrap().clone()
    }
}

/// A verdict without a size.
pub(super) fn verdict(action: pb::Action) -> pb::Verdict {
    pb::Verdict { action: action.into(), reason: "the test says so".to_owned(), ..pb::Verdict::default() }
}

struct Service {
    verdicts: Arc<Mutex<VecDeque<pb::Verdict>>>,
    asked: Arc<Mutex<Vec<pb::ShouldRetryRequest>>>,
}

#[tonic::async_trait]
impl predictor_server::Predictor for Service {
    type PredictBatchStream = Empty<Result<pb::PredictBatchResponse, Status>>;

    async fn should_retry(
        &self,
        request: Request<pb::ShouldRetryRequest>,
    ) -> RpcResult<pb::ShouldRetryResponse> {
        self.asked.lock().unwrap().push(request.into_inner());
        let next = self.verdicts.lock().unwrap().pop_front();
        match next {
            Some(verdict) => Ok(Response::new(pb::ShouldRetryResponse { verdict: Some(verdict) })),
            None => std::future::pending().await,
        }
    }

    async fn predict(&self, _request: Request<pb::PredictRequest>) -> RpcResult<pb::PredictResponse> {
        std::future::pending().await
    }

    async fn predict_batch(
        &self,
        _request: Request<Streaming<pb::PredictRequest>>,
    ) -> RpcResult<Self::PredictBatchStream> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn correct_verdict(
        &self,
        _request: Request<pb::CorrectVerdictRequest>,
    ) -> RpcResult<pb::CorrectVerdictResponse> {
        Err(Status::unimplemented("not asked"))
    }

    async fn explain(&self, _request: Request<pb::PredictRequest>) -> RpcResult<pb::ExplainResponse> {
        Err(Status::unimplemented("not in this test"))
    }
}
