//! Predict, PredictBatch, ShouldRetry and Explain: convert, call, convert.

use std::{sync::Arc, time::Instant};

use plimsoll_proto::{
    limits,
    v1::{self as pb, predict_batch_response::Result as Answer, predictor_server::Predictor},
};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{convert, reply, status};
use crate::{
    answers::Answers,
    domain::{History, Key, Prediction},
    ingest::{Ingest, Refusal},
    learned::Learned,
    metrics::{Kind, Metrics},
    predict,
};

/// The service `plimsoll.v1.Predictor`.
#[derive(Debug, Clone)]
pub(super) struct PredictorService {
    pub(super) learned: Learned,
    pub(super) answers: Arc<Answers>,
    pub(super) settings: Arc<predict::Settings>,
    pub(super) ingest: Ingest,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stopping: CancellationToken,
}

impl PredictorService {
    fn answer(&self, key: &Key) -> Prediction {
        let began = Instant::now();
        let prediction = self.answers.predict(&self.learned, key, &self.settings);
        self.metrics.predict_seconds.observe(began.elapsed().as_secs_f64());
        let rung = prediction.memory_limit.basis.rung;
        self.metrics.predictions.get_or_create(&Kind::of(rung.as_str())).inc();
        prediction
    }

    fn answer_one(&self, request: pb::PredictRequest) -> pb::PredictBatchResponse {
        let result = match convert::ask(request) {
            Ok((key, _limit)) => Answer::Prediction(reply::prediction(self.answer(&key))),
            Err(fault) => Answer::Error(pb::AskError { field: fault.field, description: fault.description }),
        };
        pb::PredictBatchResponse { result: Some(result) }
    }
}

#[tonic::async_trait]
impl Predictor for PredictorService {
    type PredictBatchStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<pb::PredictBatchResponse, Status>> + Send>>;

    async fn predict(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::PredictResponse>, Status> {
        let (key, _limit) = convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        let prediction = Some(reply::prediction(self.answer(&key)));
        Ok(Response::new(pb::PredictResponse { prediction }))
    }

    async fn predict_batch(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> Result<Response<Self::PredictBatchStream>, Status> {
        let service = self.clone();
        // a client that never stops asking must not keep the server from stopping
        let answers = request.into_inner().map(move |asked| match asked {
            Ok(_) if service.stopping.is_cancelled() => Err(status::of_refusal(&Refusal::Stopping)),
            Ok(request) => Ok(service.answer_one(request)),
            Err(status) => Err(status),
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn should_retry(
        &self,
        request: Request<pb::ShouldRetryRequest>,
    ) -> Result<Response<pb::ShouldRetryResponse>, Status> {
        let question = convert::question(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        let verdict = self.ingest.judge(question).await.map_err(|refusal| status::of_refusal(&refusal))?;
        Ok(Response::new(pb::ShouldRetryResponse { verdict: Some(reply::verdict(verdict)) }))
    }

    async fn explain(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let (key, limit) = convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        let (prediction, used) = self.learned.read(|history| predict::explain(history, &key, &self.settings));
        let limit = limit.or(self.settings.memory_cap);
        let curve = |history: &History| predict::jobs_curve(history, &key, &self.settings, limit);
        Ok(Response::new(pb::ExplainResponse {
            prediction: Some(reply::prediction(prediction)),
            attempts: used.iter().take(limits::EXPLAIN_ATTEMPTS).map(reply::used_attempt).collect(),
            jobs: Some(reply::jobs_curve(self.learned.read(curve))),
        }))
    }
}
