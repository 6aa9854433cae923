//! Evidence in, cause and verdict out: the traps that simple rules fall into.

mod again;
mod agrees;
mod budget;
mod containers;
mod corrected;
mod cpu;
mod decided;
mod evidence_set;
mod explain;
mod extend;
mod got_over;
mod lineage;
mod masked;
mod next_size;
mod order;
mod rescue;
mod root;
mod rpm;
mod rule_records;
mod sentences;
mod short;
mod strange;
mod vocabulary;
mod words;
mod wrapped;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{
        Action, AttemptId, Bytes, Cause, Cores, CpuMicros, Evidence, EvidenceSource, Exit, History, Key,
        ListedRun, MemoryGrowth, Micros, Millis, OomOrigin, Outcome, ReportedEvidence, Resources, Summary,
        Verdict, test_history, test_summary,
    },
    predict::Settings,
};

const MIB: u64 = Bytes::MIB.0;

/// A failed attempt with a limit of 280 MiB and a need near it; the kernel counted `kills`.
fn failed(kills: Option<u64>) -> Summary {
    let resources = Resources {
        memory_request: Some(Bytes(200 * MIB)),
        memory_limit: Some(Bytes(280 * MIB)),
        cpu_request: Some(Cores(1.0)),
        cpu_limit: Some(Cores(2.0)),
    };
    Summary {
        resources,
        oom_kill: kills,
        outcome: Outcome::Failed,
        exit: Some(Exit::Code(2)),
        ..test_summary("7", "zlib", "1", 270)
    }
}

/// Builds of a package that needed so many MiB.
fn history_of(package: &str, needs: &[u64]) -> History {
    let built = |(id, need): (usize, &u64)| test_summary(&format!("h{id}"), package, "1", *need);
    test_history(needs.iter().enumerate().map(built))
}

fn verdict_on(summary: Summary, history: &History, settings: &Settings) -> Verdict {
    judge_with(&evidence(Some(summary), Exit::Code(2), ""), history, settings)
}

fn starved() -> Summary {
    Summary { reclaim_failures: Some(7_031_687), ..failed(Some(0)) }
}

fn evidence(measured: Option<Summary>, exit: Exit, log: &str) -> Evidence {
    Evidence {
        key: Key { package: "zlib".into(), version: "1".into(), ..Key::default() },
        measured: measured.map(Arc::new),
        exit: Some(exit),
        log_tail: log.to_owned(),
        ..Evidence::about(AttemptId::parse("7").unwrap())
    }
}

/// Evidence of a failed attempt under its own id.
fn evidence_of(summary: Summary) -> Evidence {
    Evidence { attempt: summary.attempt.clone(), ..evidence(Some(summary), Exit::Code(2), "") }
}

/// Evidence of a measured attempt whose pod had to give way to another.
fn preempted(summary: Summary) -> Evidence {
    Evidence { pod_reason: "Preempting".into(), ..evidence(Some(summary), Exit::Code(143), "") }
}

/// Settings with this many MiB as the most there is.
fn capped(mib: u64) -> Settings {
    Settings { memory_cap: Some(Bytes(mib * MIB)), ..Settings::default() }
}

/// The verdict on what these rules find.
fn judge(evidence: &Evidence, rules: &LogRules, known: &VerdictInputs<'_>) -> Verdict {
    super::judge(evidence, classify(evidence, rules), known)
}

fn judge_with(evidence: &Evidence, history: &History, settings: &Settings) -> Verdict {
    let (rules, seen, policy) = (LogRules::built_in(), KnownFailures::new(10), RetryPolicy::default());
    judge(evidence, &rules, &VerdictInputs { history, seen: &seen, settings, policy: &policy })
}

fn judged(evidence: &Evidence) -> Verdict {
    judge_with(evidence, &History::new(10), &Settings::default())
}

fn cause_of(summary: &Summary) -> Option<Cause> {
    super::cause_of(summary).map(|(cause, _source)| cause)
}

fn code(code: i32, log: &str) -> Evidence {
    evidence(None, Exit::Code(code), log)
}

const STORAGE: &str = "Evicted: Container build exceeded its local ephemeral storage limit \"10Gi\". ";

#[test]
fn each_kind_of_evidence_names_its_cause() {
    let container = |reason: &str| Evidence { container_reason: reason.into(), ..code(137, "") };
    let pod = |reason: &str| Evidence { pod_reason: reason.into(), ..code(143, "") };
    let ci = |reason: &str| Evidence { failure_reason: reason.into(), ..code(1, "") };
    let measured = |summary: Summary, code| evidence(Some(summary), Exit::Code(code), "");
    let compile_error = "a.c:3:1: error: no\nmake: *** [x] Error 1";
    let full = "a.s: No space left on device\n";
    let table = vec![
        ("make hides a killed compiler", measured(failed(Some(1)), 2), Cause::Oom, Action::Bigger),
        ("container OOMKilled, no counters", container("OOMKilled"), Cause::Oom, Action::Bigger),
        ("starved until the time-out", measured(starved(), 124), Cause::Starved, Action::Bigger),
        ("starved and killed by the platform", measured(starved(), 137), Cause::Starved, Action::Bigger),
        ("time-out without starvation", measured(failed(Some(0)), 124), Cause::Timeout, Action::Longer),
        ("137 alone", code(137, ""), Cause::Infra, Action::AsIs),
        ("137 and no kill counted", measured(failed(Some(0)), 137), Cause::Infra, Action::AsIs),
        ("SIGPIPE, as under head", evidence(None, Exit::Signal(13), ""), Cause::Canceled, Action::No),
        ("SIGPIPE as a shell tells it", code(141, ""), Cause::Canceled, Action::No),
        ("SIGTERM alone", code(143, ""), Cause::Infra, Action::AsIs),
        ("SIGTERM while the node goes", pod("NodeShutdown"), Cause::Preempted, Action::AsIs),
        ("evicted", pod("Evicted"), Cause::EvictedByNode, Action::AsIs),
        ("evicted for its storage", pod(STORAGE), Cause::EphemeralStorage, Action::Elsewhere),
        ("the node is lost", pod("NodeLost"), Cause::NodeLost, Action::AsIs),
        ("pod deadline", pod("DeadlineExceeded"), Cause::Timeout, Action::Longer),
        ("command not found", code(127, ""), Cause::Deterministic, Action::No),
        ("crash", code(139, ""), Cause::Deterministic, Action::No),
        ("runner time-out", ci("job_execution_timeout"), Cause::Timeout, Action::Longer),
        ("no runner", ci("stuck_or_timeout_failure"), Cause::Infra, Action::AsIs),
        ("quota", ci("ci_quota_exceeded"), Cause::Configuration, Action::No),
        ("a reason that is not known yet", ci("quantum_failure"), Cause::Unknown, Action::AsIs),
        ("exit 1 and nothing else", code(1, "working\n"), Cause::Unknown, Action::AsIs),
        ("full disk", code(1, &format!("{full}make: *** [x] Error 1")), Cause::DiskFull, Action::Elsewhere),
        ("compile error", code(2, compile_error), Cause::Deterministic, Action::No),
        ("SIGPIPE after an error, as a shell has it", code(141, full), Cause::DiskFull, Action::Elsewhere),
        ("DNS", code(6, "curl: (6) Could not resolve host: x"), Cause::Infra, Action::AsIs),
    ];
    for (name, evidence, cause, action) in table {
        let verdict = judged(&evidence);
        assert_eq!((verdict.cause, verdict.action), (cause, action), "{name}: {verdict:#?}");
        assert_eq!(verdict.next.is_some(), action != Action::No, "{name}");
        assert!(!verdict.reason.is_empty(), "{name}");
        assert_eq!(verdict.attempts_left, if cause.is_taken_away() { 3 } else { 2 }, "{name}");
    }
}

#[test]
fn a_survived_kill_is_no_failure() {
    let summary = Summary { outcome: Outcome::Succeeded, exit: Some(Exit::Code(0)), ..failed(Some(3)) };
    assert_eq!(cause_of(&summary), None);
    let verdict = judged(&evidence(Some(summary), Exit::Code(0), "Killed signal terminated program cc1plus"));
    assert_eq!((verdict.action, verdict.next), (Action::No, None));
    assert!(verdict.reason.contains("succeeded") && !verdict.evidence[0].supports, "{:?}", verdict.evidence);
}

#[test]
fn log_text_alone_does_not_prove_memory() {
    for log in [
        "test parent_sees_child ... Killed",
        "PASS: handles out of memory",
        "Killed",
        "// throws std::bad_alloc",
    ] {
        let verdict = judged(&evidence(Some(failed(Some(0))), Exit::Code(1), log));
        assert!(!verdict.cause.is_memory(), "{log:?}: {verdict:?}");
    }
    let compiler = "g++: fatal error: Killed signal terminated program cc1plus";
    let verdict = judged(&evidence(Some(failed(Some(0))), Exit::Code(1), compiler));
    assert_eq!((verdict.cause, verdict.action), (Cause::Infra, Action::AsIs), "killed, but not for memory");
    let verdict = judged(&code(1, compiler));
    assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::AsIs), "a candidate grows nothing");
    assert!(verdict.confidence < 0.5);
    let runner =
        "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'";
    let forged = Evidence { failure_reason: "script_failure".into(), ..code(1, runner) };
    assert_eq!(judged(&forged).action, Action::AsIs, "a build can print what the runner prints");
    let case = Evidence { failure_reason: "runner_system_failure".into(), ..code(1, runner) };
    assert_eq!(judged(&case).action, Action::Bigger, "but not the CI system's own reason");
}

#[test]
fn a_log_alone_buys_one_retry() {
    let at = |number| judged(&Evidence { number, ..code(1, "curl: (6) Could not resolve host: x") });
    assert_eq!((at(1).action, at(2).action), (Action::AsIs, Action::No));
    assert_eq!(at(2).evidence.last().unwrap().source, EvidenceSource::Policy);
}

#[test]
fn the_next_memory_is_one_real_step_up() {
    let after = |need| {
        let mut history = History::new(10);
        for id in 100..if need == 0 { 100 } else { 108 } {
            history.learn(Arc::new(test_summary(&id.to_string(), "zlib", "1", need)));
        }
        let evidence = evidence(Some(failed(Some(1))), Exit::Code(2), "");
        judge_with(&evidence, &history, &Settings::default())
    };
    // half as much again, also where the history says less
    for (need, grown) in [(0, 420), (250, 420)] {
        let (verdict, next) = (after(need), after(need).next.unwrap());
        assert_eq!([next.memory_limit.value, next.memory_request.value], [grown * MIB; 2], "{need}");
        assert_eq!((next.cpu_request.value, next.cpu_limit.value), (1000, 2000));
        assert!(verdict.reason.ends_with(&format!("-> {grown} MiB)")), "{}", verdict.reason);
    }
    let next = after(900).next.unwrap();
    assert!(next.memory_limit.value > 1000 * MIB, "the history says that more is needed: {next:?}");
}

#[test]
fn a_preempted_attempt_keeps_size_and_budget() {
    let mut history = History::new(10);
    let first = AttemptId::parse("first").unwrap();
    history.learn(Arc::new(Summary {
        attempt: first.clone(),
        cause: Some(Cause::Preempted),
        ..failed(Some(0))
    }));
    let again = Summary { number: 4, retries: Some(first), ..failed(Some(0)) };
    let verdict = judge_with(&Evidence { number: 4, ..preempted(again) }, &history, &Settings::default());
    let next = verdict.next.unwrap();
    assert_eq!((verdict.action, verdict.attempts_left), (Action::AsIs, 1));
    assert_eq!((next.memory_limit.value, next.memory_request.value), (280 * MIB, 200 * MIB));
}

#[test]
fn the_budget_ends_and_says_so() {
    let verdict = judged(&Evidence { number: 3, ..evidence(Some(failed(Some(1))), Exit::Code(2), "") });
    assert_eq!((verdict.action, verdict.attempts_left), (Action::No, 0));
    let expected = "no retry, because all 3 attempts are used up; if you start it by hand, give it a memory limit of 420 MiB";
    assert!(verdict.reason.ends_with(expected), "{}", verdict.reason);
    assert_eq!(verdict.next.unwrap().memory_limit.value, 420 * MIB, "a size for the person who reads it");
    assert_eq!(verdict.outlook.cost, None, "nothing is held before that person decides");
    let broken = judged(&Evidence { number: 3, pod_reason: "Preempting".into(), ..code(143, "") });
    assert!(broken.next.is_some(), "what was taken away does not count");
    let same = judged(&Evidence { number: 3, failure_reason: "api_failure".into(), ..code(1, "") });
    assert_eq!((same.action, same.next), (Action::No, None), "nothing has to grow");
}

#[test]
fn a_stalled_build_gets_no_more_time() {
    let hung = Summary { cpu: CpuMicros(5000), ..failed(Some(0)) };
    let verdict = judged(&evidence(Some(hung), Exit::Code(124), ""));
    assert_eq!((verdict.cause, verdict.action), (Cause::Timeout, Action::AsIs));
    let next = judged(&evidence(Some(failed(Some(0))), Exit::Code(124), "")).next.unwrap();
    assert!(next.wall_p95.value >= 90_000 && next.memory_limit.value == 280 * MIB, "{next:?}");
}

#[test]
fn sealing_knows_counters_and_exit_alone() {
    assert_eq!(cause_of(&failed(Some(1))), Some(Cause::Oom));
    assert_eq!(cause_of(&failed(None)), Some(Cause::Unknown));
    let timeout = Summary { exit: Some(Exit::Code(124)), ..starved() };
    assert_eq!(cause_of(&timeout), Some(Cause::Starved));
    assert!(is_censored(&timeout, Some(Cause::Starved)) && !is_censored(&timeout, Some(Cause::Timeout)));
    let healthy = Summary { reclaim_failures: Some(1203), wall: Millis(10_900), ..timeout };
    assert_eq!(cause_of(&healthy), Some(Cause::Timeout), "110 a second is a healthy build at its limit");
}

#[test]
fn what_argued_against_is_listed() {
    let verdict =
        judged(&evidence(Some(failed(Some(0))), Exit::Code(137), "memory allocation of 8 bytes failed"));
    let kernel = verdict.evidence.iter().find(|line| line.source == EvidenceSource::Kernel).unwrap();
    assert!(verdict.cause == Cause::Oom && !kernel.supports, "{verdict:#?}");
}

proptest! {
    #[test]
    fn no_evidence_breaks_it(log in ".{0,400}", code in any::<i32>(), number in any::<u32>(), kills in any::<Option<u64>>(), starved in any::<Option<(u64, u64)>>(), need in any::<u64>(), limit in any::<u64>(), wall in any::<u64>(), reason in "[A-Za-z_]{0,20}") {
        let resources = Resources { memory_limit: Some(Bytes(limit)), ..Resources::default() };
        let summary = Summary { need_peak: Bytes(need), wall: Millis(wall), resources, starved: starved.map(|s| Millis(s.0)), starved_at_end: starved.map(|s| Millis(s.1)), ..failed(kills) };
        let evidence = Evidence { number, failure_reason: reason.clone(), container_reason: reason, ..evidence(Some(summary), Exit::Code(code), &log) };
        let verdict = judged(&evidence);
        prop_assert!((0.0..=1.0).contains(&verdict.confidence));
        prop_assert!(verdict.next.is_some() || verdict.action == Action::No);
        if let Some(next) = verdict.next {
            prop_assert!(next.memory_request.value > 0 && next.memory_request.value <= next.memory_limit.value);
        }
        prop_assert_eq!(judged(&evidence), judged(&evidence));
    }

    #[test]
    fn no_log_grows_a_size(log in prop::collection::vec(prop::sample::select(vec![
        "Killed", "MemoryError", "make: *** [x] Killed", "Out of memory: Killed process 1 (x)", "reason: 'OOMKilled'",
        "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'",
        "ERROR: Job failed: execution took longer than 1h", "a.c:1:1: error: no",
    ]), 0..8), code in 1..140_i32) {
        let verdict = judged(&evidence(Some(failed(None)), Exit::Code(code), &log.join("\n")));
        if let Some(next) = verdict.next {
            prop_assert_eq!(next.memory_limit.value, 280 * MIB);
        }
    }
}
