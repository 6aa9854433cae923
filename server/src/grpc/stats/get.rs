//! GetStats: convert, call, convert.

use plimsoll_proto::v1 as pb;
use tonic::Status;

use super::{
    super::{reply, status},
    StatsService, asked,
};
use crate::{
    domain::{Cause, Fault},
    placement::{Placement, Pool},
    stats::{Covers, Group, PoolPrices, Price, Report, StatsTotals, Step, Variable},
};

/// Flaky failures in an answer.
const FLAKY: usize = 100;

/// The answer of GetStats to a caller who may see some projects only if he is `confined`.
pub(super) async fn get(
    service: &StatsService,
    request: pb::GetStatsRequest,
    confined: bool,
) -> Result<pb::GetStatsResponse, Status> {
    let question = asked::question(request, confined).map_err(|fault| status::of_fault(&fault))?;
    let (stats, ingest) = (service.learned.stats().clone(), service.ingest.clone());
    let prices = prices(&service.placing.now());
    // a million attempts take their time
    let counting = move || Ok((stats.report(&question, &prices)?, ingest.flaky(FLAKY)));
    let counted = service.counting.run(counting).await?;
    let (report, flaky) = counted.map_err(|fault: Fault| status::of_fault(&fault))?;
    Ok(pb::GetStatsResponse { flaky: flaky.into_iter().map(reply::flaky).collect(), ..answer(report) })
}

/// What the file of pools says of prices.
fn prices(placement: &Placement) -> PoolPrices {
    let price = |pool: &Pool| Price { gib_hour: pool.price.gib_hour, core_hour: pool.price.core_hour };
    PoolPrices {
        pools: placement.pools().iter().map(|pool| (pool.name.clone(), price(pool))).collect(),
        currency: placement.currency().to_owned(),
    }
}

fn answer(report: Report) -> pb::GetStatsResponse {
    let group = |group: Group| pb::Group { name: group.name, totals: Some(totals(&group.totals)) };
    let step = |step: Step| pb::Step { from_unix_ms: step.from_unix_ms, totals: Some(totals(&step.totals)) };
    pb::GetStatsResponse {
        totals: Some(totals(&report.totals)),
        groups: report.groups.into_iter().map(group).collect(),
        steps: report.steps.into_iter().map(step).collect(),
        regressions: report.regressions.into_iter().map(reply::regression).collect(),
        mixed: report.mixed.iter().map(reply::mixed_need).collect(),
        variable: report.variable.into_iter().map(variable).collect(),
        currency: report.currency,
        coverage: Some(coverage(report.covers)),
        notes: report.notes,
        ..pb::GetStatsResponse::default()
    }
}

fn coverage(covers: Covers) -> pb::Coverage {
    let ms = |seconds: u32| u64::from(seconds) * 1000;
    let (first, last) = covers.ended.map_or((0, 0), |(first, last)| (ms(first), ms(last)));
    pb::Coverage {
        attempts: covers.attempts,
        first_ended_unix_ms: first,
        last_ended_unix_ms: last,
        older_left_out: covers.cut,
    }
}

fn variable(variable: Variable) -> pb::Variable {
    pb::Variable {
        package: variable.package,
        attempts: variable.attempts,
        variation: variable.variation,
        need_min_bytes: variable.need_min.0,
        need_max_bytes: variable.need_max.0,
    }
}

fn totals(totals: &StatsTotals) -> pb::StatsTotals {
    let (need_over_ask_mean, need_over_ask_max) = totals.need_over_ask();
    pb::StatsTotals {
        attempts: totals.attempts,
        succeeded: totals.succeeded(),
        failed: totals.failed(),
        lost: totals.lost(),
        oom: totals.of_cause(Cause::Oom),
        starved: totals.of_cause(Cause::Starved),
        retries: totals.retries(),
        wall_hours: totals.wall_hours,
        cpu_core_hours: totals.cpu_core_hours,
        memory_used_gib_hours: totals.memory_used_gib_hours,
        memory_used_of_asked_gib_hours: totals.memory_used_of_asked_gib_hours,
        memory_asked_gib_hours: totals.memory_asked_gib_hours,
        memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
        need_peak_max_bytes: totals.need_peak_max().0,
        samples: totals.samples,
        cpu_asked_core_hours: totals.cpu_asked_core_hours,
        cpu_wasted_core_hours: totals.cpu_wasted_core_hours,
        cpu_used_of_asked_core_hours: totals.cpu_used_of_asked_core_hours,
        need_over_ask_mean,
        need_over_ask_max,
        causes: totals.causes().map(|(cause, count)| cause_count(Some(cause), count)).collect(),
        retries_by_cause: totals.retries_by_cause().map(|(cause, count)| cause_count(cause, count)).collect(),
        retries_avoided: totals.retries_avoided,
        retries_helped: totals.retries_helped,
        wasted_money: totals.wasted_money,
        asked_money: totals.asked_money,
        calibration: Some(calibration(totals)),
        would_have_been: Some(would_have_been(totals)),
        memory_not_measured: totals.memory_not_measured,
        cpu_not_measured: totals.cpu_not_measured,
    }
}

fn cause_count(cause: Option<Cause>, count: u64) -> pb::CauseCount {
    let cause = cause.map_or(pb::Cause::Unspecified, reply::cause);
    pb::CauseCount { cause: cause.into(), count }
}

fn calibration(totals: &StatsTotals) -> pb::Calibration {
    let held = &totals.calibration;
    pb::Calibration {
        attempts: held.attempts,
        within_limit: held.within_limit,
        within_request: held.within_request,
        timed: held.timed,
        within_wall_p95: held.within_time,
        error_log2_mean: held.error_log2_mean(),
    }
}

fn would_have_been(totals: &StatsTotals) -> pb::WouldHaveBeen {
    let would = &totals.would_have_been;
    pb::WouldHaveBeen {
        attempts: would.attempts,
        asked_gib_hours: would.asked_gib_hours,
        predicted_gib_hours: would.predicted_gib_hours,
        failed: would.failed,
        would_fail: would.would_fail,
        asked_money: would.asked_money,
        predicted_money: would.predicted_money,
    }
}
