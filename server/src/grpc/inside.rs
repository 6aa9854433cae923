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
use crate::{
    domain::Fault,
    identity::{Identity, Role},
    ingest::Ingest,
};

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
    /// The one who asks may not see it. `projects` are those that he may name instead.
    Forbidden { text: String, projects: Vec<String> },
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
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => Self::Wrong(text),
            Code::PermissionDenied => Self::Forbidden { text, projects: Vec::new() },
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

    /// Whether the one who asks may see every project.
    pub(crate) fn is_for_all(&self) -> bool {
        self.caller.projects.is_all()
    }

    /// An answer; a refusal names the projects that the one who asks may ask for.
    fn told<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Refused> {
        answer.map(Response::into_inner).map_err(|status| match Refused::from(status) {
            Refused::Forbidden { text, .. } => Refused::Forbidden {
                text,
                projects: self.caller.projects.whole().map(str::to_owned).collect(),
            },
            refused => refused,
        })
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
        self.told(self.stats.get_stats(self.request(asked)).await)
    }

    /// As the rpc `ListAttempts`.
    pub(crate) async fn list_attempts(
        &self,
        asked: pb::ListAttemptsRequest,
    ) -> Result<pb::ListAttemptsResponse, Refused> {
        self.told(self.stats.list_attempts(self.request(asked)).await)
    }

    /// As the rpc `GetAttempt`.
    pub(crate) async fn get_attempt(
        &self,
        asked: pb::GetAttemptRequest,
    ) -> Result<pb::GetAttemptResponse, Refused> {
        self.told(self.stats.get_attempt(self.request(asked)).await)
    }

    /// As the rpc `Explain`, for which reading is not enough there either.
    pub(crate) async fn explain(&self, asked: pb::PredictRequest) -> Result<pb::ExplainResponse, Refused> {
        if !self.caller.roles.has(Role::Caller) {
            let text =
                format!("{} may not ask for predictions: that takes the role caller", self.caller.name);
            return Err(Refused::Forbidden { text, projects: Vec::new() });
        }
        self.told(self.predictor.explain(self.request(asked)).await)
    }

    /// What the first messages of the rpc `Watch` say, of at most `most` attempts with the highest need; and how many run. Of
    /// those that the one who asks may see.
    pub(crate) async fn running(&self, most: usize) -> Result<(pb::WatchResponse, usize), Refused> {
        let running = self.ingest.highest(most, Arc::clone(&self.caller)).await;
        let (running, count) = running.map_err(|refusal| status::of_refusal(&refusal))?;
        let view = self.stats.view(Arc::clone(&self.caller));
        Ok((view.watched(stats::changed(&running, &[])), count))
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
        let forbidden = Refused::Forbidden { text: "not yours".into(), projects: Vec::new() };
        assert_eq!(of(Status::permission_denied("not yours")), forbidden);
        assert!(matches!(of(status::of_crowd("watchers", 5)), Refused::Busy(_)));
        assert!(matches!(of(Status::unavailable("full")), Refused::Busy(_)));
        assert!(matches!(of(Status::internal("oh")), Refused::Broken(_)));
    }
}
