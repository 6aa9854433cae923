//! `Predict`, `PredictBatch`, `ShouldRetry`, `CorrectVerdict` and `Explain`. Each handler converts
//! the request, calls a room, and converts the result.

use std::time::Instant;

use plimsoll_proto::v1::{self as pb, predict_batch_response::Result as Answer, predictor_server::Predictor};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{
    caller::{caller, ended},
    outbound::{self, Outbound},
    status::RpcResult,
    streams::{StreamLimit, Streams},
};
use crate::{
    access::{
        Refusal,
        guard::Caller,
        identity::{Bound, Identity},
    },
    door::wire,
    sizing::SizingService,
    verdicts::Verdicts,
};

/// Most streams. For a client that does not read its answers, HTTP/2 buffers at most 400 KiB.
pub(super) const BATCHES: StreamLimit = StreamLimit { what: "batches of questions", most: 256 };

/// The service `plimsoll.v1.Predictor`.
#[derive(Debug, Clone)]
pub(super) struct PredictorService {
    pub(super) sizing: SizingService,
    pub(super) verdicts: Verdicts,
    pub(super) batches: Streams,
}

impl PredictorService {
    fn answer_one(&self, request: pb::PredictRequest, caller: &Identity) -> pb::PredictBatchResponse {
        let asked = wire::sizing::ask(request);
        let result = match asked.and_then(|(key, _limit)| self.sizing.predict(caller, key)) {
            Ok(answer) => Answer::Prediction(wire::sizing::answer(&answer)),
            Err(fault) => Answer::Error(pb::AskError { field: fault.field, description: fault.description }),
        };
        pb::PredictBatchResponse { result: Some(result) }
    }

    /// Answers requests in order, until the client ends them or does not read, the caller is no
    /// longer admitted, or the server stops.
    fn batch(
        &self,
        questions: impl Stream<Item = Result<pb::PredictRequest, Status>> + Send + Unpin + 'static,
        caller: Caller,
    ) -> Result<outbound::Answers<pb::PredictBatchResponse>, Status> {
        let (stream, service) = (self.batches.reserve(caller.clone())?, self.clone());
        Ok(stream.answer(move |outbound| {
            Box::pin(async move { service.answer_all(questions, &caller, outbound).await })
        }))
    }

    async fn answer_all(
        &self,
        mut questions: impl Stream<Item = Result<pb::PredictRequest, Status>> + Unpin,
        caller: &Caller,
        outbound: &Outbound<pb::PredictBatchResponse>,
    ) -> Result<(), Status> {
        while let Some(request) = questions.next().await {
            caller.check().map_err(|denied| ended(&denied))?;
            let asked = caller.within(|caller| caller.take(Bound::Queries, 1, Instant::now().into()));
            asked.map_err(Refusal::Exceeded)?;
            outbound.send(self.answer_one(request?, caller)).await?;
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Predictor for PredictorService {
    type PredictBatchStream = outbound::Answers<pb::PredictBatchResponse>;

    async fn predict(&self, request: Request<pb::PredictRequest>) -> RpcResult<pb::PredictResponse> {
        let caller = caller(&request);
        let (key, _limit) = wire::sizing::ask(request.into_inner()).map_err(Refusal::Fault)?;
        let answer = self.sizing.predict(&caller, key).map_err(Refusal::Forbidden)?;
        Ok(Response::new(pb::PredictResponse { prediction: Some(wire::sizing::answer(&answer)) }))
    }

    async fn predict_batch(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> RpcResult<Self::PredictBatchStream> {
        let caller = caller(&request);
        self.batch(request.into_inner(), caller).map(Response::new)
    }

    async fn should_retry(
        &self,
        request: Request<pb::ShouldRetryRequest>,
    ) -> RpcResult<pb::ShouldRetryResponse> {
        let caller = caller(&request);
        let asked = request.into_inner();
        let newest_run = asked.newest_run;
        let question = wire::verdicts::question(asked).map_err(Refusal::Fault)?;
        let verdict = Box::pin(self.verdicts.should_retry(&caller, (question, newest_run))).await?;
        Ok(Response::new(pb::ShouldRetryResponse { verdict: Some(wire::verdicts::verdict(verdict)) }))
    }

    async fn correct_verdict(
        &self,
        request: Request<pb::CorrectVerdictRequest>,
    ) -> RpcResult<pb::CorrectVerdictResponse> {
        let caller = caller(&request);
        let correction = wire::verdicts::correction_request(request.into_inner()).map_err(Refusal::Fault)?;
        let verdict = Box::pin(self.verdicts.correct(&caller, correction)).await?;
        Ok(Response::new(pb::CorrectVerdictResponse { verdict: Some(wire::verdicts::verdict(verdict)) }))
    }

    async fn explain(&self, request: Request<pb::PredictRequest>) -> RpcResult<pb::ExplainResponse> {
        let caller = caller(&request);
        let (key, limit) = wire::sizing::ask(request.into_inner()).map_err(Refusal::Fault)?;
        let explained = self.sizing.explain(&caller, key, limit)?;
        Ok(Response::new(wire::sizing::explanation(explained)))
    }
}

#[cfg(test)]
pub(super) mod tests;
