//! GetStats: convert, call, convert.

use plimsoll_proto::v1 as pb;
use tonic::Status;

use super::{
    super::{reply, status},
    asked,
};
use crate::{
    domain::Fault,
    ingest::Ingest,
    learned::Learned,
    stats::{self, StatsTotals},
};

/// Flaky failures in an answer.
const FLAKY: usize = 100;

/// Needs that have moved, in an answer.
const REGRESSIONS: usize = 100;

/// The answer of GetStats.
pub(super) async fn get(
    learned: &Learned,
    ingest: &Ingest,
    request: pb::GetStatsRequest,
) -> Result<pb::GetStatsResponse, Status> {
    let group_by = asked::group_by(request.group_by).map_err(|fault| status::of_fault(&fault))?;
    let filter = asked::filter(request.filter).map_err(|fault| status::of_fault(&fault))?;
    let (learned, ingest) = (learned.clone(), ingest.clone());
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
    let step = |s: stats::Step| pb::Step { from_unix_ms: s.from_unix_ms, totals: Some(totals(&s.totals)) };
    Ok(pb::GetStatsResponse {
        totals: Some(totals(&report.totals)),
        groups: report.groups.into_iter().map(group).collect(),
        steps: report.steps.into_iter().map(step).collect(),
        regressions: regressions.into_iter().map(reply::regression).collect(),
        flaky: flaky.into_iter().map(reply::flaky).collect(),
        ..pb::GetStatsResponse::default()
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
