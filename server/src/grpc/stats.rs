//! GetStats, ListAttempts, GetAttempt and Watch: convert, call, convert.

use std::sync::Arc;

use plimsoll_proto::{
    limits,
    v1::{self as pb, stats_server::Stats},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};

use super::{convert, reply, status};
use crate::{
    domain::{Fault, Outcome, Summary},
    ingest::{Change, Ingest, Running},
    learned::Learned,
    stats::{self, Filter, GroupBy, StatsTotals},
};

/// Changes that may wait for a slow watcher before it is told to look again.
const WATCH_ANSWERS: usize = 16;

/// Attempts of one message to a watcher; keeps messages far below the limit.
const WATCH_ATTEMPTS: usize = 200;

/// The service `plimsoll.v1.Stats`.
#[derive(Debug, Clone)]
pub(super) struct StatsService {
    pub(super) learned: Learned,
    pub(super) ingest: Ingest,
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
}

#[tonic::async_trait]
impl Stats for StatsService {
    type WatchStream = ReceiverStream<Result<pb::WatchResponse, Status>>;

    async fn get_stats(
        &self,
        request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        let request = request.into_inner();
        let group_by = match request.group_by() {
            pb::GroupBy::Unspecified => GroupBy::Nothing,
            pb::GroupBy::Package => GroupBy::Package,
            pb::GroupBy::Stack => GroupBy::Stack,
            pb::GroupBy::Project => GroupBy::Project,
            pb::GroupBy::Cause => GroupBy::Cause,
        };
        let filter = filter(request.filter).map_err(|fault| status::of_fault(&fault))?;
        let attempts = self.learned.newest_first();
        let report = stats::report(&attempts, &filter, group_by, request.step_ms);
        let report = report.map_err(|fault| status::of_fault(&fault))?;
        let group = |g: stats::Group| pb::Group { name: g.name, totals: Some(totals(&g.totals)) };
        let step =
            |s: stats::Step| pb::Step { from_unix_ms: s.from_unix_ms, totals: Some(totals(&s.totals)) };
        Ok(Response::new(pb::GetStatsResponse {
            totals: Some(totals(&report.totals)),
            groups: report.groups.into_iter().map(group).collect(),
            steps: report.steps.into_iter().map(step).collect(),
        }))
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> Result<Response<pb::ListAttemptsResponse>, Status> {
        let request = request.into_inner();
        let page = page(&self.learned.newest_first(), request).map_err(|fault| status::of_fault(&fault))?;
        Ok(Response::new(page))
    }

    async fn get_attempt(
        &self,
        request: Request<pb::GetAttemptRequest>,
    ) -> Result<Response<pb::GetAttemptResponse>, Status> {
        let request = request.into_inner();
        let id =
            convert::attempt_id("attempt", &request.attempt).map_err(|fault| status::of_fault(&fault))?;
        let found = self.ingest.find(&id).await.map_err(|refusal| status::of_refusal(&refusal))?;
        let Some((summary, running)) = found else {
            return Err(Status::not_found(format!("no attempt {id} is known here")));
        };
        let mut summary = reply::summary(&summary);
        if running {
            summary.outcome = pb::Outcome::Running.into();
        }
        let mut series = Vec::new();
        if request.with_series {
            let samples = self.ingest.series(&id).await.map_err(|error| status::of_store(&error))?;
            series = samples.iter().map(reply::sample).collect();
        }
        Ok(Response::new(pb::GetAttemptResponse { summary: Some(summary), series }))
    }

    async fn watch(
        &self,
        _request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (answers, receiver) = mpsc::channel(WATCH_ANSWERS);
        let (ingest, stopping) = (self.ingest.clone(), self.stopping.clone());
        self.tasks.spawn(async move {
            // the end of a watch needs no handling: the client left, or the server stops
            let _ended = stopping.run_until_cancelled(send_changes(&ingest, &answers)).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

type Answers = mpsc::Sender<Result<pb::WatchResponse, Status>>;

/// Sends all running attempts, then each change. Ends when the watcher is gone.
async fn send_changes(ingest: &Ingest, answers: &Answers) -> Result<(), mpsc::error::SendError<()>> {
    let gone = |_| mpsc::error::SendError(());
    loop {
        let (running, mut changes) = match ingest.watch().await {
            Ok(watched) => watched,
            Err(refusal) => return answers.send(Err(status::of_refusal(&refusal))).await.map_err(gone),
        };
        let mut first: Vec<_> = running.chunks(WATCH_ATTEMPTS).map(|some| changed(some, &[])).collect();
        if first.is_empty() {
            first.push(pb::WatchResponse::default());
        }
        for message in first {
            answers.send(Ok(message)).await.map_err(gone)?;
        }
        // a watcher that falls behind gets everything anew instead of a queue without bound
        while let Ok(change) = changes.recv().await {
            let message = match change {
                Change::Running(running) => changed(std::slice::from_ref(&*running), &[]),
                Change::Ended(id) => changed(&[], &[id.to_string()]),
            };
            answers.send(Ok(message)).await.map_err(gone)?;
        }
    }
}

fn changed(running: &[Running], ended: &[String]) -> pb::WatchResponse {
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

fn filter(wire: Option<pb::Filter>) -> Result<Filter, Fault> {
    let wire = wire.unwrap_or_default();
    let outcome = match wire.outcome() {
        pb::Outcome::Unspecified => None,
        pb::Outcome::Succeeded => Some(Outcome::Succeeded),
        pb::Outcome::Failed => Some(Outcome::Failed),
        pb::Outcome::Lost => Some(Outcome::Lost),
        pb::Outcome::Running => {
            return Err(Fault::new(
                "filter.outcome",
                "running attempts are shown by Watch; the rest here has ended",
            ));
        }
    };
    if let (Some(from), Some(to)) = (wire.from_unix_ms, wire.to_unix_ms)
        && from > to
    {
        return Err(Fault::new("filter.from_unix_ms", "is after filter.to_unix_ms"));
    }
    Ok(Filter {
        project: wire.project,
        stack: wire.stack,
        package: wire.package,
        from_unix_ms: wire.from_unix_ms,
        to_unix_ms: wire.to_unix_ms,
        outcome,
    })
}

/// One page of attempts. The token is the id of the last attempt shown, so new attempts do not shift the pages.
fn page(
    attempts: &[Arc<Summary>],
    request: pb::ListAttemptsRequest,
) -> Result<pb::ListAttemptsResponse, Fault> {
    let size = match request.page_size {
        0 => 100,
        size if size <= limits::PAGE_SIZE => size as usize,
        size => {
            let description = format!("is {size}, at most {} is allowed", limits::PAGE_SIZE);
            return Err(Fault::new("page_size", description));
        }
    };
    let filter = filter(request.filter)?;
    let after = match request.page_token.as_str() {
        "" => 0,
        token => {
            attempts.iter().position(|s| s.attempt.as_str() == token).map(|n| n + 1).ok_or_else(|| {
                Fault::new(
                    "page_token",
                    "is not from an earlier answer, or too old; start from the first page",
                )
            })?
        }
    };
    let mut rest = attempts.iter().skip(after).filter(|summary| filter.takes(summary)).peekable();
    let shown: Vec<_> = rest.by_ref().take(size).collect();
    let more = rest.peek().is_some();
    let next_page_token =
        shown.last().filter(|_| more).map(|summary| summary.attempt.to_string()).unwrap_or_default();
    Ok(pb::ListAttemptsResponse {
        attempts: shown.into_iter().map(|s| reply::summary(s)).collect(),
        next_page_token,
    })
}

fn totals(totals: &StatsTotals) -> pb::StatsTotals {
    pb::StatsTotals {
        attempts: totals.attempts,
        succeeded: totals.succeeded,
        failed: totals.failed,
        lost: totals.lost,
        oom: totals.oom,
        starved: totals.starved,
        retries: totals.retries,
        wall_hours: totals.wall_hours,
        cpu_core_hours: totals.cpu_core_hours,
        memory_used_gib_hours: totals.memory_used_gib_hours,
        memory_asked_gib_hours: totals.memory_asked_gib_hours,
        memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
        need_peak_max_bytes: totals.need_peak_max.0,
        samples: totals.samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary as summary;

    fn attempts(count: u32) -> Vec<Arc<Summary>> {
        (0..count).map(|n| Arc::new(summary(&n.to_string(), "zlib", "1", 10))).collect()
    }

    #[test]
    fn pages_cover_everything_once() {
        let attempts = attempts(25);
        let mut request = pb::ListAttemptsRequest { page_size: 10, ..Default::default() };
        let mut seen = Vec::new();
        loop {
            let answer = page(&attempts, request.clone()).unwrap();
            seen.extend(answer.attempts.into_iter().map(|s| s.attempt));
            if answer.next_page_token.is_empty() {
                break;
            }
            request.page_token = answer.next_page_token;
        }
        assert_eq!(seen, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn a_token_or_size_that_makes_no_sense_is_named() {
        let bad = pb::ListAttemptsRequest { page_token: "zzz".into(), ..Default::default() };
        assert_eq!(page(&attempts(1), bad).unwrap_err().field, "page_token");
        let bad = pb::ListAttemptsRequest { page_size: 1001, ..Default::default() };
        assert_eq!(page(&attempts(1), bad).unwrap_err().field, "page_size");
    }
}
