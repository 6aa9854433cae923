//! GetStats, ListAttempts, GetAttempt and Watch: convert, call, convert.

mod asked;
mod counting;
mod get;
mod list;
mod rows;
mod shown;
mod watch;

use std::sync::Arc;

use asked::filter;
pub(crate) use counting::Counting;
use plimsoll_proto::v1::{self as pb, stats_server::Stats};
use tonic::{Request, Response, Status};
pub(super) use watch::WATCHERS;

use super::{
    convert,
    guarded::{admitted, caller},
    outbound::Answers,
    reply, status,
    streams::Streams,
    view::View,
};
use crate::{
    domain::Fault,
    identity::Identity,
    ingest::{Ingest, Running},
    learned::Learned,
    placing::Placing,
    privacy::Private,
};

/// The service `plimsoll.v1.Stats`.
#[derive(Debug, Clone)]
pub(super) struct StatsService {
    learned: Learned,
    ingest: Ingest,
    placing: Placing,
    counting: Counting,
    watchers: Streams,
    private: Arc<Private>,
}

impl StatsService {
    /// A service that hides nothing.
    pub(super) fn new(
        learned: Learned,
        ingest: Ingest,
        placing: Placing,
        counting: Counting,
        watchers: Streams,
    ) -> Self {
        Self { learned, ingest, placing, counting, watchers, private: Arc::default() }
    }

    /// The same, which hides what is private.
    #[must_use]
    pub(super) fn hiding(self, private: Arc<Private>) -> Self {
        Self { private, ..self }
    }

    /// What somebody sees.
    pub(super) fn view(&self, caller: Arc<Identity>) -> View {
        View { private: Arc::clone(&self.private), caller }
    }
}

#[tonic::async_trait]
impl Stats for StatsService {
    type WatchStream = Answers<pb::WatchResponse>;

    async fn get_stats(
        &self,
        request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        may_count(&caller, request.filter.as_ref())?;
        let view = self.view(Arc::clone(&caller));
        view.may_ask(request.filter.as_ref(), &request.group_label)?;
        let confined = !caller.projects.is_all();
        let mut answer = get::get(self, request, confined).await?;
        if confined {
            // these are over all projects
            answer.flaky.clear();
        }
        view.flaky(&mut answer.flaky);
        Ok(Response::new(answer))
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> Result<Response<pb::ListAttemptsResponse>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        may_count(&caller, request.filter.as_ref())?;
        let view = self.view(caller);
        view.may_ask(request.filter.as_ref(), "")?;
        let mut page = list::list(&self.learned, &self.ingest, &self.counting, request).await?;
        page.attempts = page.attempts.into_iter().map(|summary| view.summary(summary)).collect();
        Ok(Response::new(page))
    }

    async fn get_attempt(
        &self,
        request: Request<pb::GetAttemptRequest>,
    ) -> Result<Response<pb::GetAttemptResponse>, Status> {
        let caller = caller(&request);
        let mut shown = shown::show(&self.ingest, request.into_inner(), &caller).await?;
        let view = self.view(caller);
        let key = shown.summary.as_ref().and_then(|summary| summary.key.as_ref());
        let project = key.map(|key| key.project.clone()).unwrap_or_default();
        shown.summary = shown.summary.map(|summary| view.summary(summary));
        shown.verdict = shown.verdict.map(|verdict| view.verdict(verdict, &project));
        let earlier = shown.earlier_verdicts.into_iter().map(|verdict| view.verdict(verdict, &project));
        shown.earlier_verdicts = earlier.collect();
        Ok(Response::new(shown))
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = caller(&request);
        if !caller.projects.is_all() {
            let text =
                format!("Watch shows the attempts of all projects, and {} may see only some", caller.name);
            return Err(Status::permission_denied(text));
        }
        let stream = self.watchers.take(admitted(&request))?;
        let (ingest, view) = (self.ingest.clone(), self.view(caller));
        Ok(Response::new(stream.answer(|outbound| Box::pin(watch::follow(ingest, view, outbound)))))
    }
}

/// Whether a question about statistics makes sense.
///
/// # Errors
/// Names the field that does not.
pub(super) fn understood(request: pb::GetStatsRequest) -> Result<(), Fault> {
    asked::question(request, false).map(|_question| ())
}

/// The same for a page of attempts.
///
/// # Errors
/// Names the field that does not.
pub(super) fn page_understood(request: &pb::ListAttemptsRequest) -> Result<(), Fault> {
    list::understood(request)
}

/// Whether `caller` may see sums and lists over these attempts: somebody with some projects names one of them.
fn may_count(caller: &Identity, filter: Option<&pb::Filter>) -> Result<(), Status> {
    let project = filter.map_or("", |filter| filter.project.as_str());
    caller.may_see("filter.project", project).map_err(|fault| status::forbidden(&fault))
}

pub(super) fn changed(running: &[Running], ended: &[String]) -> pb::WatchResponse {
    let wire = |running: &Running| {
        let last = running.progress.last.unwrap_or_default();
        pb::Running {
            attempt: running.attempt.id.to_string(),
            key: Some(reply::key(&running.attempt.key)),
            elapsed_ms: last.elapsed.0,
            memory_bytes: last.memory.0,
            need_bytes: last.need.0,
            need_peak_bytes: running.progress.need_peak.0,
            cpu_usec: last.cpu.0,
            memory_limit_bytes: running.attempt.resources.memory_limit.map(|limit| limit.0),
            starved: running.progress.starvation.now,
        }
    };
    pb::WatchResponse { running: running.iter().map(wire).collect(), ended: ended.to_vec() }
}
