//! Weeks to write reports on.

use plimsoll_proto::v1::{
    Calibration, Cause, CauseCount, ChangeKind, FailureGroup, Flaky, MixedNeed, NeedGroup, NeedGroups,
    Regression, RetriesOfCause, SilencedRule, Step, Variable, WouldHaveBeen, WrongVerdicts,
};

use super::*;

fn causes(counts: &[(Cause, u64)]) -> Vec<CauseCount> {
    counts.iter().map(|(cause, count)| CauseCount { cause: (*cause).into(), count: *count }).collect()
}

fn now() -> StatsTotals {
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
        wasted_money: 12.3,
        calibration: Some(Calibration {
            attempts: 1000,
            within_limit: 910,
            within_request: 800,
            request_attempts: 1000,
            timed: 100,
            within_wall_p95: 96,
            error_log2_mean: 0.5,
        }),
        would_have_been: Some(WouldHaveBeen {
            attempts: 1000,
            asked_gib_hours: 400.0,
            predicted_gib_hours: 150.0,
            failed: 20,
            would_fail: 3,
            not_known: 12,
            ..WouldHaveBeen::default()
        }),
        ..StatsTotals::default()
    }
}

fn before() -> StatsTotals {
    StatsTotals {
        attempts: 1100,
        failed: 11,
        lost: 5,
        oom: 11,
        causes: causes(&[(Cause::Oom, 11), (Cause::Starved, 3)]),
        memory_asked_gib_hours: 380.0,
        memory_wasted_gib_hours: 280.0,
        ..StatsTotals::default()
    }
}

fn group(name: &str, wasted: f64, oom: u64) -> Group {
    let sums = StatsTotals {
        attempts: 600,
        oom,
        failed: oom,
        memory_wasted_gib_hours: wasted,
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

fn stats() -> GetStatsResponse {
    let reason = "the label \u{9b}cuda tells them apart".to_owned();
    let groups = Some(NeedGroups { groups: vec![NeedGroup::default(); 2], reason, ..NeedGroups::default() });
    GetStatsResponse {
        totals: Some(now()),
        groups: vec![
            group("llvm<script>alert(1)</script>", 200.0, 2),
            group("zlib\u{1b}[2J", 60.0, 18),
            group("(others)", 50.0, 0),
            group("", 0.0, 0),
        ],
        steps: (0..7).map(step).collect(),
        regressions: moved(),
        mixed: vec![
            MixedNeed {
                key: "py-torch \u{1b}".to_owned(),
                extra_gib_hours: 2.0,
                groups,
                ..MixedNeed::default()
            };
            11
        ],
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

/// A week with something of everything.
pub(super) fn full() -> ReportData {
    ReportData {
        filter: Filter { owner: "team a&b".to_owned(), ..Filter::default() },
        range: TimeRange { from_unix_ms: 1_763_164_800_000, to_unix_ms: 1_763_164_800_000 + 7 * STEP_MS },
        now: now(),
        before: before(),
        stats: stats(),
    }
}

/// The statistics of the [`full`] week.
pub(in crate::ask) fn stats_of_full_week() -> GetStatsResponse {
    full().stats
}

/// The [`full`] week as text.
pub(in crate::ask) fn text_of_full_week(look: crate::ask::TerminalStyle) -> String {
    text::render(&full(), look)
}

/// A week in which nothing happened.
pub(super) fn empty() -> ReportData {
    ReportData {
        now: StatsTotals::default(),
        before: StatsTotals::default(),
        stats: GetStatsResponse::default(),
        ..full()
    }
}

#[test]
fn a_stretch_of_time_is_held_against_one_as_long() {
    let week = TimeRange { from_unix_ms: 14 * STEP_MS, to_unix_ms: 21 * STEP_MS };
    assert_eq!(week.previous(), TimeRange { from_unix_ms: 7 * STEP_MS, to_unix_ms: 14 * STEP_MS });
    assert_eq!(week.step_ms(), STEP_MS);
    let long = TimeRange { from_unix_ms: 0, to_unix_ms: 365 * STEP_MS };
    assert_eq!((long.previous().from_unix_ms, long.step_ms()), (0, 7 * STEP_MS));
    assert_eq!(TimeRange { from_unix_ms: 5, to_unix_ms: 5 }.step_ms(), STEP_MS);
}

#[test]
fn what_is_summed_up_as_others_is_no_waster() {
    let digest = full();
    let names: Vec<&str> = digest.wasters().map(|(group, _)| group.name.as_str()).collect();
    assert_eq!(names, ["llvm<script>alert(1)</script>", "zlib\u{1b}[2J"]);
}
