//! Predict, PredictBatch, ShouldRetry and Explain: convert, call, convert.

use std::{sync::Arc, time::Instant};

use plimsoll_proto::{
    limits,
    v1::{self as pb, predict_batch_response::Result as Answer, predictor_server::Predictor},
};
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{convert, guarded::caller, reply, status};
use crate::{
    answers::Answers,
    domain::{Evidence, History, Key, Prediction},
    identity::Identity,
    ingest::{Ingest, Refusal},
    learned::Learned,
    metrics::{Kind, Metrics},
    placing::Placing,
    predict, shadow,
};

/// The service `plimsoll.v1.Predictor`.
#[derive(Debug, Clone)]
pub(super) struct PredictorService {
    pub(super) learned: Learned,
    pub(super) answers: Arc<Answers>,
    pub(super) settings: Arc<predict::Settings>,
    pub(super) shadow: Arc<shadow::Settings>,
    pub(super) ingest: Ingest,
    pub(super) placing: Placing,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stopping: CancellationToken,
}

impl PredictorService {
    fn answer(&self, key: &Key) -> Prediction {
        let began = Instant::now();
        let prediction = self.answers.predict(&self.learned, key, &self.settings);
        self.metrics.predicted(prediction.memory_limit.basis.rung, began.elapsed());
        self.placing.put(key, prediction)
    }

    /// A prediction as it is sent: with a word where it is not to be put into force.
    fn shown(&self, key: &Key, prediction: Prediction) -> pb::Prediction {
        let shadow = self.shadow.withholds(key);
        if shadow {
            self.metrics.withheld.get_or_create(&Kind::of("prediction")).inc();
        }
        pb::Prediction { shadow, ..reply::prediction(prediction) }
    }

    fn answer_one(&self, request: pb::PredictRequest, caller: &Identity) -> pb::PredictBatchResponse {
        let asked = convert::ask(request).and_then(|(mut key, _limit)| {
            caller.asks("key.project", &mut key)?;
            Ok(key)
        });
        let result = match asked {
            Ok(key) => Answer::Prediction(self.shown(&key, self.answer(&key))),
            Err(fault) => Answer::Error(pb::AskError { field: fault.field, description: fault.description }),
        };
        pb::PredictBatchResponse { result: Some(result) }
    }
}

impl PredictorService {
    /// Whether `caller` may ask about this attempt: it belongs to the project that was measured, else to the one that is said.
    async fn may_judge(&self, caller: &Identity, question: &mut Evidence) -> Result<(), Status> {
        if caller.projects.is_all() {
            return Ok(());
        }
        let found = self.ingest.find(&question.attempt).await;
        let allowed = match found.map_err(|refusal| status::of_refusal(&refusal))? {
            Some((summary, _running)) => caller.may_see("attempt", &summary.key.project),
            None => caller.asks("key.project", &mut question.key),
        };
        allowed.map_err(|fault| status::forbidden(&fault))
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
        let caller = caller(&request);
        let (mut key, _limit) =
            convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        caller.asks("key.project", &mut key).map_err(|fault| status::forbidden(&fault))?;
        let prediction = Some(self.shown(&key, self.answer(&key)));
        Ok(Response::new(pb::PredictResponse { prediction }))
    }

    async fn predict_batch(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> Result<Response<Self::PredictBatchStream>, Status> {
        let (service, caller) = (self.clone(), caller(&request));
        // a client that never stops asking must not keep the server from stopping
        let answers = request.into_inner().map(move |asked| match asked {
            Ok(_) if service.stopping.is_cancelled() => Err(status::of_refusal(&Refusal::Stopping)),
            Ok(request) => Ok(service.answer_one(request, &caller)),
            Err(status) => Err(status),
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn should_retry(
        &self,
        request: Request<pb::ShouldRetryRequest>,
    ) -> Result<Response<pb::ShouldRetryResponse>, Status> {
        let caller = caller(&request);
        let mut question =
            convert::question(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        self.may_judge(&caller, &mut question).await?;
        let verdict = self.ingest.judge(question).await.map_err(|refusal| status::of_refusal(&refusal))?;
        Ok(Response::new(pb::ShouldRetryResponse { verdict: Some(reply::verdict(verdict)) }))
    }

    async fn explain(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let caller = caller(&request);
        let (mut key, limit) =
            convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        caller.asks("key.project", &mut key).map_err(|fault| status::forbidden(&fault))?;
        let (prediction, used) = self.learned.read(|history| predict::explain(history, &key, &self.settings));
        let limit = limit.or(self.settings.memory_cap);
        let curve = |history: &History| predict::jobs_curve(history, &key, &self.settings, limit);
        Ok(Response::new(pb::ExplainResponse {
            prediction: Some(self.shown(&key, self.placing.put(&key, prediction))),
            attempts: used.iter().take(limits::EXPLAIN_ATTEMPTS).map(reply::used_attempt).collect(),
            jobs: Some(reply::jobs_curve(self.learned.read(curve))),
        }))
    }
}
