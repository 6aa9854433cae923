//! GetStats, ListAttempts, GetAttempt and Watch: convert, call, convert.

mod list;
mod rows;
mod shown;
mod watch;

use std::sync::Arc;

use plimsoll_proto::v1::{self as pb, stats_server::Stats};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};

use super::{
    convert,
    outbound::{Answers, outbound},
    reply, status,
};
use crate::{
    domain::{Fault, Outcome},
    ingest::{Ingest, Running},
    learned::Learned,
    stats::{self, Filter, GroupBy, StatsTotals},
};

/// Flaky failures in an answer.
const FLAKY: usize = 100;

/// Needs that have moved, in an answer.
const REGRESSIONS: usize = 100;

/// The service `plimsoll.v1.Stats`.
#[derive(Debug, Clone)]
pub(super) struct StatsService {
    learned: Learned,
    ingest: Ingest,
    tasks: TaskTracker,
    stopping: CancellationToken,
    watchers: Arc<Semaphore>,
}

impl StatsService {
    /// A service whose watches run as `tasks` until `stopping`.
    pub(super) fn new(
        learned: Learned,
        ingest: Ingest,
        tasks: TaskTracker,
        stopping: CancellationToken,
    ) -> Self {
        let watchers = Arc::new(Semaphore::new(watch::WATCHERS));
        Self { learned, ingest, tasks, stopping, watchers }
    }
}

#[tonic::async_trait]
impl Stats for StatsService {
    type WatchStream = Answers<pb::WatchResponse>;

    async fn get_stats(
        &self,
        request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        let request = request.into_inner();
        let group_by = group_by(request.group_by).map_err(|fault| status::of_fault(&fault))?;
        let filter = filter(request.filter).map_err(|fault| status::of_fault(&fault))?;
        let (learned, ingest) = (self.learned.clone(), self.ingest.clone());
        // a million attempts take their time: not on a thread that serves others
        let counted = tokio::task::spawn_blocking(move || {
            let attempts = learned.newest_first();
            let report = stats::report(&attempts, &filter, group_by, request.step_ms)?;
            Ok((report, stats::regressions(&attempts, &filter, REGRESSIONS), ingest.flaky(FLAKY)))
        });
        let counted =
            counted.await.map_err(|error| Status::internal(format!("counting ended badly: {error}")))?;
        let (report, regressions, flaky) = counted.map_err(|fault: Fault| status::of_fault(&fault))?;
        let group = |g: stats::Group| pb::Group { name: g.name, totals: Some(totals(&g.totals)) };
        let step =
            |s: stats::Step| pb::Step { from_unix_ms: s.from_unix_ms, totals: Some(totals(&s.totals)) };
        Ok(Response::new(pb::GetStatsResponse {
            totals: Some(totals(&report.totals)),
            groups: report.groups.into_iter().map(group).collect(),
            steps: report.steps.into_iter().map(step).collect(),
            regressions: regressions.into_iter().map(reply::regression).collect(),
            flaky: flaky.into_iter().map(reply::flaky).collect(),
            ..pb::GetStatsResponse::default()
        }))
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> Result<Response<pb::ListAttemptsResponse>, Status> {
        let page = list::list(&self.learned, &self.ingest, request.into_inner()).await?;
        Ok(Response::new(page))
    }

    async fn get_attempt(
        &self,
        request: Request<pb::GetAttemptRequest>,
    ) -> Result<Response<pb::GetAttemptResponse>, Status> {
        let shown = shown::show(&self.ingest, request.into_inner()).await?;
        Ok(Response::new(shown))
    }

    async fn watch(
        &self,
        _request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let place = Arc::clone(&self.watchers).try_acquire_owned();
        let place = place.map_err(|_full| status::of_crowd("watchers", watch::WATCHERS))?;
        let (outbound, answers) = outbound();
        let (ingest, stopping) = (self.ingest.clone(), self.stopping.clone());
        self.tasks.spawn(async move {
            watch::serve(&ingest, outbound, &stopping).await;
            drop(place);
        });
        Ok(Response::new(answers))
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

fn group_by(wire: i32) -> Result<GroupBy, Fault> {
    Ok(match convert::known("group_by", wire)? {
        pb::GroupBy::Unspecified => GroupBy::Nothing,
        pb::GroupBy::Package => GroupBy::Package,
        pb::GroupBy::Stack => GroupBy::Stack,
        pb::GroupBy::Project => GroupBy::Project,
        pb::GroupBy::Cause => GroupBy::Cause,
        other => {
            return Err(Fault::new("group_by", format!("is {}, which is not counted", other.as_str_name())));
        }
    })
}

fn filter(wire: Option<pb::Filter>) -> Result<Filter, Fault> {
    let wire = wire.unwrap_or_default();
    let outcome = match convert::known("filter.outcome", wire.outcome)? {
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
        memory_used_of_asked_gib_hours: totals.memory_used_of_asked_gib_hours,
        memory_asked_gib_hours: totals.memory_asked_gib_hours,
        memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
        need_peak_max_bytes: totals.need_peak_max.0,
        samples: totals.samples,
        ..pb::StatsTotals::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_this_server_does_not_know_are_named() {
        let bad = pb::Filter { outcome: 99, ..pb::Filter::default() };
        assert_eq!(filter(Some(bad)).unwrap_err().field, "filter.outcome");
        assert_eq!(group_by(99).unwrap_err().field, "group_by");
    }
}
