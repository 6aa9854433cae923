//! The services asked from inside the process: the web page gets what a gRPC client gets, from the same code.

use std::sync::Arc;

use plimsoll_proto::v1::{self as pb, predictor_server::Predictor as _, stats_server::Stats as _};
use tonic::{Code, Request, Response, Status};

use super::{
    Parts,
    predictor::PredictorService,
    stats::{self, StatsService},
    status,
};
use crate::{domain::Fault, identity::Identity, ingest::Ingest};

/// A handle on the services that answer one question with one answer.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    stats: StatsService,
    predictor: PredictorService,
    ingest: Ingest,
    caller: Arc<Identity>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The question breaks a rule; the text names the field.
    Wrong(String),
    /// What was asked for is not known.
    Unknown(String),
    /// Not now.
    Busy(String),
    /// It should have worked.
    Broken(String),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        let text = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition | Code::OutOfRange => {
                Self::Wrong(text)
            }
            Code::NotFound => Self::Unknown(text),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded => Self::Busy(text),
            _ => Self::Broken(text),
        }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Wrong(fault.to_string())
    }
}

impl Inside {
    /// The services over `parts`, asked by anyone.
    pub(crate) fn new(parts: &Parts) -> Self {
        let (stats, predictor, ingest) = (parts.stats(), parts.predictor(), parts.ingest.clone());
        Self { stats, predictor, ingest, caller: Identity::anyone() }
    }

    /// The same, asked by `caller`: it sees what it would see over gRPC.
    #[must_use]
    pub(crate) fn asked_by(self, caller: Arc<Identity>) -> Self {
        Self { caller, ..self }
    }

    fn request<T>(&self, asked: T) -> Request<T> {
        let mut request = Request::new(asked);
        request.extensions_mut().insert(Arc::clone(&self.caller));
        request
    }

    /// As the rpc `GetStats`.
    pub(crate) async fn get_stats(
        &self,
        asked: pb::GetStatsRequest,
    ) -> Result<pb::GetStatsResponse, Refused> {
        Ok(self.stats.get_stats(self.request(asked)).await.map(Response::into_inner)?)
    }

    /// As the rpc `ListAttempts`.
    pub(crate) async fn list_attempts(
        &self,
        asked: pb::ListAttemptsRequest,
    ) -> Result<pb::ListAttemptsResponse, Refused> {
        Ok(self.stats.list_attempts(self.request(asked)).await.map(Response::into_inner)?)
    }

    /// As the rpc `GetAttempt`.
    pub(crate) async fn get_attempt(
        &self,
        asked: pb::GetAttemptRequest,
    ) -> Result<pb::GetAttemptResponse, Refused> {
        Ok(self.stats.get_attempt(self.request(asked)).await.map(Response::into_inner)?)
    }

    /// As the rpc `Explain`.
    pub(crate) async fn explain(&self, asked: pb::PredictRequest) -> Result<pb::ExplainResponse, Refused> {
        Ok(self.predictor.explain(self.request(asked)).await.map(Response::into_inner)?)
    }

    /// What the first messages of the rpc `Watch` say, of at most `most` attempts with the highest need; and how many run.
    pub(crate) async fn running(&self, most: usize) -> Result<(pb::WatchResponse, usize), Refused> {
        let (mut running, _changes) =
            self.ingest.watch().await.map_err(|refusal| status::of_refusal(&refusal))?;
        running.retain(|one| self.caller.may_see("attempt", &one.attempt.key.project).is_ok());
        let count = running.len();
        running.sort_unstable_by_key(|one| std::cmp::Reverse(one.progress.need_peak));
        running.truncate(most);
        Ok((stats::changed(&running, &[]), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_with_a_question_is_told_from_what_is_wrong_here() {
        let of = |status: Status| Refused::from(status);
        let fault = status::of_fault(&Fault::new("page_size", "is 7000"));
        assert_eq!(of(fault), Refused::Wrong("page_size: is 7000".into()));
        assert_eq!(of(Status::not_found("no")), Refused::Unknown("no".into()));
        assert!(matches!(of(status::of_crowd("watchers", 5)), Refused::Busy(_)));
        assert!(matches!(of(Status::unavailable("full")), Refused::Busy(_)));
        assert!(matches!(of(Status::internal("oh")), Refused::Broken(_)));
    }
}
