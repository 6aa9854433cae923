//! Gets the data of pages, on behalf of the caller who reads them.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{FromRequestParts, rejection::ExtensionRejection},
    http::{StatusCode, request},
};
use plimsoll_pages::view::{ReaderChoice, TimeRange};
use plimsoll_proto::v1 as pb;

use super::trouble::{PageError, PageResult};
use crate::{
    access::{Reply, guard::Caller, identity::Role},
    door::{http_state::HttpState, read_api::ReadApi},
    runtime::settings::InForce,
    verdicts::{CorrectionRequest, Verdicts},
};

/// Extracts from a request the caller who reads the page: a page shows only what this caller may
/// see. The gate adds the caller, also without an access file.
#[derive(Debug)]
pub(super) struct RequestReader(pub(super) Reader);

impl FromRequestParts<HttpState> for RequestReader {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(
        request: &mut request::Parts,
        parts: &HttpState,
    ) -> Result<Self, ExtensionRejection> {
        let Extension(caller) = Extension::from_request_parts(request, parts).await?;
        let (api, shown) = (ReadApi::over(&parts.services), Arc::clone(&parts.settings));
        Ok(Self(Reader { api, caller, settings_in_force: shown }))
    }
}

/// The caller who reads a page, with the requests that pages make.
#[derive(Debug)]
pub(super) struct Reader {
    api: ReadApi,
    caller: Caller,
    pub(super) settings_in_force: Arc<Vec<InForce>>,
}

impl Reader {
    /// Whether the reader may see every project.
    pub(super) fn is_for_all(&self) -> bool {
        self.caller.projects.is_all()
    }

    /// Whether the reader may correct causes at all. Whether a given attempt may be corrected is
    /// checked at the correction.
    pub(super) fn may_correct(&self) -> bool {
        self.caller.roles.has(Role::Operator) && self.caller.proven.job.is_none()
    }

    /// Corrects a verdict, like the rpc `CorrectVerdict`.
    pub(super) async fn correct(&self, verdicts: &Verdicts, asked: CorrectionRequest) -> PageResult<()> {
        self.naming_projects(verdicts.correct(&self.caller, asked).await.map(drop))
    }

    /// Adds the projects that the reader may ask for to a refusal.
    fn naming_projects<T>(&self, answer: Reply<T>) -> PageResult<T> {
        answer.map_err(|refusal| {
            let mut error = PageError::from(refusal);
            if error.status == StatusCode::FORBIDDEN {
                error.allowed_projects = self.caller.projects.whole_names().map(str::to_owned).collect();
            }
            error
        })
    }

    /// Reads statistics, like the rpc `GetStats`.
    pub(super) async fn get_stats(&self, asked: pb::GetStatsRequest) -> PageResult<pb::GetStatsResponse> {
        self.naming_projects(self.api.get_stats(&self.caller, asked).await)
    }

    /// Statistics over time, and the length of a time step. If the range has more steps than are
    /// allowed, the steps are longer.
    /// Errors: like the rpc `GetStats`.
    pub(super) async fn stats_over_time(
        &self,
        view: &ReaderChoice,
        filter: pb::Filter,
        group_by: pb::GroupBy,
    ) -> PageResult<(pb::GetStatsResponse, u64)> {
        let group_by = group_by.into();
        let ask = |step_ms| pb::GetStatsRequest {
            filter: Some(filter.clone()),
            group_by,
            step_ms,
            ..Default::default()
        };
        let step = view.range.step_ms();
        match self.get_stats(ask(step)).await {
            Err(error) if error.status == StatusCode::BAD_REQUEST && view.range == TimeRange::All => {
                Ok((self.get_stats(ask(TimeRange::WIDER_MS)).await?, TimeRange::WIDER_MS))
            }
            answer => Ok((answer?, step)),
        }
    }

    /// Lists attempts, like the rpc `ListAttempts`.
    pub(super) async fn list_attempts(
        &self,
        asked: pb::ListAttemptsRequest,
    ) -> PageResult<pb::ListAttemptsResponse> {
        self.naming_projects(self.api.list_attempts(&self.caller, asked).await)
    }

    /// Recommends requests, like the rpc `Recommend`.
    pub(super) async fn recommend(&self, asked: pb::RecommendRequest) -> PageResult<pb::RecommendResponse> {
        self.naming_projects(self.api.recommend(&self.caller, asked).await)
    }

    /// Reads one attempt, like the rpc `GetAttempt`.
    pub(super) async fn get_attempt(
        &self,
        asked: pb::GetAttemptRequest,
    ) -> PageResult<pb::GetAttemptResponse> {
        self.naming_projects(self.api.get_attempt(&self.caller, asked).await)
    }

    /// Explains a prediction, like the rpc `Explain`. It requires the role caller, in addition to
    /// the reader's.
    pub(super) fn explain(&self, asked: pb::PredictRequest) -> PageResult<pb::ExplainResponse> {
        if !self.caller.roles.has(Role::Caller) {
            let text =
                format!("{} may not ask for predictions: that takes the role caller", self.caller.name);
            return Err(PageError::new(StatusCode::FORBIDDEN, text));
        }
        self.naming_projects(self.api.explain(&self.caller, asked))
    }

    /// The first messages of the rpc `Watch`, for the `most` running attempts with the highest
    /// memory need, and the number of running attempts.
    pub(super) async fn running(&self, most: usize) -> PageResult<(pb::WatchResponse, usize)> {
        Ok(self.api.running(&self.caller, most).await?)
    }
}
