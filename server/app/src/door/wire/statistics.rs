//! Builds the answer of `GetStats`.

use plimsoll_core::{
    domain::{Bytes, Cause, RescueTotals},
    retry::{FailureGroup, FlakyFailure, SilencedRule, WrongVerdicts},
    stats::{Coverage, Group, PackageVariation, Regression, Report, Retries, StatsTotals, TimeStep},
};
use plimsoll_proto::v1 as pb;

use crate::fleet::statistics::StatisticsAnswer;

/// Builds the answer of `GetStats`.
pub(crate) fn answer(counted: StatisticsAnswer) -> pb::GetStatsResponse {
    let flaky = counted.flaky.into_iter().map(flaky_failure).collect();
    let failures = counted.failures.into_iter().map(failure_group).collect();
    let wrong = counted.wrong.into_iter().map(wrong_verdicts).collect();
    let silenced = counted.silenced.into_iter().map(silenced_rule).collect();
    pb::GetStatsResponse { flaky, failures, wrong, silenced, ..sums(counted.report) }
}

fn sums(report: Report) -> pb::GetStatsResponse {
    let group = |group: Group| pb::Group { name: group.name, totals: Some(totals(&group.totals)) };
    let step =
        |step: TimeStep| pb::Step { from_unix_ms: step.from_unix_ms, totals: Some(totals(&step.totals)) };
    pb::GetStatsResponse {
        totals: Some(totals(&report.totals)),
        groups: report.groups.into_iter().map(group).collect(),
        steps: report.steps.into_iter().map(step).collect(),
        regressions: report.regressions.into_iter().map(regression).collect(),
        variable: report.variable.into_iter().map(variable).collect(),
        currency: report.currency,
        coverage: Some(coverage(report.covers)),
        notes: report.notes,
        ..pb::GetStatsResponse::default()
    }
}

fn coverage(covers: Coverage) -> pb::Coverage {
    let ms = |seconds: u32| u64::from(seconds) * 1000;
    let (first, last) = covers.ended.map_or((0, 0), |(first, last)| (ms(first), ms(last)));
    pb::Coverage {
        attempts: covers.attempts,
        first_ended_unix_ms: first,
        last_ended_unix_ms: last,
        older_left_out: covers.is_cut,
    }
}

fn variable(variable: PackageVariation) -> pb::Variable {
    pb::Variable {
        package: variable.package,
        attempts: variable.attempts,
        variation: variable.variation,
        need_min_bytes: variable.need_min.0,
        need_max_bytes: variable.need_max.0,
    }
}

fn totals(totals: &StatsTotals) -> pb::StatsTotals {
    let retries = totals.retries();
    let (need_over_ask_mean, need_over_ask_max) = totals.need_over_ask.mean_and_max();
    pb::StatsTotals {
        attempts: totals.attempts,
        succeeded: totals.succeeded(),
        failed: totals.failed(),
        lost: totals.lost(),
        ended: totals.ended(),
        oom: totals.of_cause(Cause::Oom),
        starved: totals.of_cause(Cause::Starved),
        retries: retries.count,
        wall_hours: totals.wall_hours,
        cpu_core_hours: totals.cpu_core_hours,
        memory_used_gib_hours: totals.memory_used_gib_hours,
        memory_used_of_asked_gib_hours: totals.memory_used_of_asked_gib_hours,
        memory_asked_gib_hours: totals.memory_asked_gib_hours,
        memory_wasted_gib_hours: totals.memory_wasted_gib_hours,
        need_peak_max_bytes: totals.need_peak_max().0,
        need_peak_max_is_lower_bound: totals.is_need_peak_max_lower_bound(),
        samples: totals.samples,
        cpu_asked_core_hours: totals.cpu_asked_core_hours,
        cpu_wasted_core_hours: totals.cpu_wasted_core_hours,
        cpu_used_of_asked_core_hours: totals.cpu_used_of_asked_core_hours,
        need_over_ask_mean,
        need_over_ask_max,
        need_over_ask_lower_bounds: totals.need_over_ask.lower_bounds,
        need_over_ask_max_is_lower_bound: totals.need_over_ask.highest_ratio.is_lower,
        causes: totals.causes().map(cause_count).collect(),
        retries_by_cause: totals.retries_by_cause().map(retries_of_cause).collect(),
        retries_avoided: totals.retries_avoided,
        retries_helped: retries.passed,
        wasted_money: totals.wasted_money(),
        memory_wasted_money: totals.memory_wasted_money,
        cpu_wasted_money: totals.cpu_wasted_money,
        asked_money: totals.asked_money,
        calibration: Some(calibration(totals)),
        would_have_been: Some(would_have_been(totals)),
        memory_not_measured: totals.memory_not_measured,
        cpu_not_measured: totals.cpu_not_measured,
        memory_not_asked: totals.memory_not_asked,
        cpu_not_asked: totals.cpu_not_asked,
        cpu_wall_hours: totals.cpu_wall_hours,
        need_over_ask_attempts: totals.need_over_ask.attempts,
        needed_above_ask: totals.need_over_ask.above,
        canceled: totals.canceled(),
        rescue: (totals.rescue.attempts > 0).then(|| rescue(&totals.rescue)),
    }
}

fn cause_count((cause, count): (Cause, u64)) -> pb::CauseCount {
    pb::CauseCount { cause: cause.to_wire().into(), count }
}

fn retries_of_cause((cause, retries): (Option<Cause>, Retries)) -> pb::RetriesOfCause {
    let Retries { count, passed, asked_gib_hours } = retries;
    let cause = cause.map(Cause::to_wire).unwrap_or_default().into();
    pb::RetriesOfCause { cause, count, passed, asked_gib_hours }
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
        request_attempts: held.request_attempts,
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
        not_known: would.not_known,
    }
}

fn rescue(totals: &RescueTotals) -> pb::RescueTotals {
    pb::RescueTotals {
        attempts: totals.attempts,
        saved: totals.saved,
        probably_saved: totals.probably_saved,
        ended: totals.ended,
        paused_process_hours: totals.paused_process_seconds / 3600.0,
        over_median_hours: totals.over_median_seconds / 3600.0,
        timed: totals.timed,
        raised_gib_hours: totals.raised_byte_seconds / Bytes::GIB.as_f64() / 3600.0,
    }
}

fn flaky_failure(flaky: FlakyFailure) -> pb::Flaky {
    pb::Flaky {
        key: flaky.key,
        signature: flaky.signature.id,
        signature_line: flaky.signature.line,
        failure_line: flaky.signature.first,
        retried: flaky.helped.tried,
        passed: flaky.helped.passed,
    }
}

fn failure_group(group: FailureGroup) -> pb::FailureGroup {
    pb::FailureGroup {
        project: group.project,
        cause: group.cause.to_wire().into(),
        signature: group.signature.id,
        signature_line: group.signature.line,
        failure_line: group.signature.first,
        attempts: group.attempts,
        packages: group.packages,
        packages_total: group.packages_total,
        newest_attempt: group.newest.to_string(),
        ended_unix_ms: group.ended_unix_ms,
        retried: group.retried,
        passed: group.passed,
        retries_gib_hours: group.retries_gib_h,
        retries_hours: group.retries_h,
    }
}

fn wrong_verdicts(wrong: WrongVerdicts) -> pb::WrongVerdicts {
    pb::WrongVerdicts {
        rule: wrong.rule,
        found: wrong.found.to_wire().into(),
        cause: wrong.cause.to_wire().into(),
        attempts: wrong.count,
    }
}

fn silenced_rule(silenced: SilencedRule) -> pb::SilencedRule {
    let SilencedRule { rule, project, record } = silenced;
    let (wrong, cases) = (record.wrong.into(), record.cases().into());
    pb::SilencedRule { rule, project, wrong, cases, share: record.share() }
}

fn regression(regression: Regression) -> pb::Regression {
    pb::Regression {
        key: regression.key.describe(),
        kind: regression.kind.into(),
        attempt: regression.attempt.to_string(),
        ended_unix_ms: regression.ended_unix_ms,
        factor: regression.factor,
        before_bytes: regression.before.0,
        now_bytes: regression.now.0,
        attempts_before: regression.attempts_before,
        attempts_since: regression.attempts_since,
        changed: regression.changed,
        extra_gib_hours: regression.extra_gib_hours,
    }
}
