//! The statistics of a week with something of everything.

use plimsoll_proto::v1::{
    Calibration, Cause, CauseCount, ChangeKind, FailureGroup, Flaky, GetStatsResponse, Group, Regression,
    RetriesOfCause, SilencedRule, StatsTotals, Step, Variable, WouldHaveBeen, WrongVerdicts,
};

/// Milliseconds of a step.
const STEP_MS: u64 = 24 * 3_600_000;

fn causes(counts: &[(Cause, u64)]) -> Vec<CauseCount> {
    counts.iter().map(|(cause, count)| CauseCount { cause: (*cause).into(), count: *count }).collect()
}

fn totals() -> StatsTotals {
    StatsTotals {
        attempts: 1234,
        succeeded: 1200,
        failed: 34,
        oom: 20,
        retries: 12,
        causes: causes(&[(Cause::Oom, 20), (Cause::Infra, 14)]),
        retries_by_cause: vec![RetriesOfCause {
            cause: Cause::Deterministic.into(),
            count: 9,
            ..RetriesOfCause::default()
        }],
        retries_avoided: 3,
        retries_helped: 2,
        memory_asked_gib_hours: 400.0,
        memory_used_of_asked_gib_hours: 100.0,
        memory_wasted_gib_hours: 310.0,
        cpu_asked_core_hours: 8.0,
        cpu_used_of_asked_core_hours: 2.0,
        cpu_wasted_core_hours: 6.0,
        need_over_ask_mean: 0.31,
        need_over_ask_max: 1.2,
        need_over_ask_attempts: 1000,
        needed_above_ask: 12,
        asked_money: 45.0,
        wasted_money: 12.4,
        memory_wasted_money: 9.3,
        cpu_wasted_money: 3.1,
        calibration: Some(Calibration {
            attempts: 1000,
            within_limit: 910,
            within_request: 800,
            request_attempts: 900,
            timed: 100,
            within_wall_p95: 96,
            error_log2_mean: 0.5,
        }),
        would_have_been: Some(WouldHaveBeen {
            attempts: 1000,
            asked_gib_hours: 400.0,
            predicted_gib_hours: 150.0,
            asked_money: 12.0,
            predicted_money: 4.5,
            failed: 20,
            would_fail: 3,
            not_known: 12,
        }),
        ..StatsTotals::default()
    }
}

fn group(name: &str, wasted: f64, oom: u64) -> Group {
    let sums = StatsTotals {
        attempts: 600,
        oom,
        failed: oom,
        memory_wasted_gib_hours: wasted,
        wasted_money: wasted * 0.04,
        memory_asked_gib_hours: wasted * 1.3,
        memory_used_of_asked_gib_hours: wasted * 0.3,
        need_peak_max_bytes: 3 << 30,
        ..StatsTotals::default()
    };
    Group { name: name.to_owned(), totals: Some(sums) }
}

fn step(n: u64) -> Step {
    let sums = StatsTotals { attempts: 100 + n, failed: n, ..StatsTotals::default() };
    Step { from_unix_ms: 1_763_164_800_000 + n * STEP_MS, totals: Some(sums) }
}

/// A build whose need has moved in each way.
fn moved() -> Vec<Regression> {
    let regression = Regression {
        key: "hdf5@1.14 <b>".to_owned(),
        kind: ChangeKind::Step.into(),
        attempt: "gitlab.com:77".to_owned(),
        factor: 2.5,
        before_bytes: 1 << 30,
        now_bytes: 5 << 29,
        attempts_before: 8,
        attempts_since: 3,
        changed: "version 1.12 -> 1.14".to_owned(),
        extra_gib_hours: 12.0,
        ..Regression::default()
    };
    let plain = |kind: ChangeKind| Regression {
        kind: kind.into(),
        changed: String::new(),
        factor: 0.5,
        ..regression.clone()
    };
    vec![regression.clone(), plain(ChangeKind::Step), plain(ChangeKind::Back), plain(ChangeKind::Drift)]
}

fn failures() -> FailureGroup {
    FailureGroup {
        cause: Cause::Deterministic.into(),
        failure_line: "x.c:3: error: \u{9b}no".to_owned(),
        attempts: 7,
        packages: vec!["zlib".to_owned(), "hdf5".to_owned()],
        packages_total: 3,
        retried: 4,
        passed: 1,
        retries_gib_hours: 1.5,
        ..FailureGroup::default()
    }
}

/// What the server answers about that week.
pub(super) fn stats() -> GetStatsResponse {
    GetStatsResponse {
        totals: Some(totals()),
        groups: vec![
            group("llvm<script>alert(1)</script>", 200.0, 2),
            group("zlib\u{1b}[2J", 60.0, 18),
            group("(others)", 50.0, 0),
            group("", 0.0, 0),
        ],
        steps: (0..7).map(step).collect(),
        regressions: moved(),
        failures: vec![FailureGroup { retried: 0, ..failures() }, failures()],
        variable: vec![Variable {
            package: "llvm".to_owned(),
            variation: 0.42,
            attempts: 9,
            need_min_bytes: 1 << 30,
            need_max_bytes: 3 << 30,
        }],
        flaky: vec![Flaky {
            key: "zlib@1.3".to_owned(),
            signature_line: "connection \u{9b}reset".to_owned(),
            retried: 4,
            passed: 3,
            ..Flaky::default()
        }],
        wrong: vec![WrongVerdicts {
            rule: "compile-error".to_owned(),
            attempts: 2,
            found: Cause::Deterministic.into(),
            cause: Cause::Infra.into(),
        }],
        silenced: vec![SilencedRule {
            rule: "compile-error".to_owned(),
            wrong: 7,
            cases: 9,
            ..SilencedRule::default()
        }],
        notes: vec!["older\u{9b} attempts are not counted".to_owned()],
        currency: "EUR".to_owned(),
        ..GetStatsResponse::default()
    }
}
