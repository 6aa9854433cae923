//! Terms, waits, costs, and which attempts of a job came before.

use super::*;

fn with(policy: &RetryPolicy, evidence: &Evidence, history: &History) -> Verdict {
    let (rules, seen, settings) = (LogRules::built_in(), KnownFailures::new(10), Settings::default());
    judge(evidence, &rules, &VerdictInputs { history, seen: &seen, settings: &settings, policy })
}

fn policy(text: &str) -> RetryPolicy {
    RetryPolicy { terms: RetryPolicy::parse_terms(text).unwrap(), ..RetryPolicy::default() }
}

#[test]
fn every_cause_has_policy_terms() {
    for cause in Cause::ALL {
        let terms = RetryPolicy::default().terms(&Key::default(), cause);
        assert_eq!(terms.retries == 0, cause.is_final(), "{cause:?}");
        assert_eq!(terms.counts_in_budget, !cause.is_taken_away(), "{cause:?}");
    }
}

#[test]
fn exceptions_apply_to_their_project_stack_and_cause() {
    let policy = policy(
        "[[terms]]\nproject = \"a\"\ncause = \"infra\"\nretries = 0\n[[terms]]\nstack = \"s\"\nwait_s = 7\n",
    );
    let key =
        |project: &str, stack: &str| Key { project: project.into(), stack: stack.into(), ..Key::default() };
    assert_eq!(policy.terms(&key("a", ""), Cause::Infra).retries, 0);
    assert_eq!(policy.terms(&key("a", ""), Cause::Undecided).retries, 0, "retried as trouble outside is");
    assert_eq!(policy.terms(&key("b", ""), Cause::Infra).retries, 2);
    assert_eq!(policy.terms(&key("a", ""), Cause::Timeout).retries, 2);
    assert_eq!(policy.terms(&key("a", "s"), Cause::Infra).wait, Millis(7000));
    let mut asked = code(1, "");
    asked.failure_reason = "api_failure".into();
    asked.key.project = "a".into();
    let verdict = with(&policy, &asked, &History::new(1));
    assert_eq!(
        (
            verdict.action,
            verdict.reason.ends_with("no retry, because the policy allows no retry after infra")
        ),
        (Action::No, true),
        "{verdict:?}"
    );
}

#[test]
fn a_policy_file_that_is_wrong_says_where() {
    for (text, where_) in [
        ("[[terms]]\nretrys = 1\n", "retrys"),
        ("[[terms]]\ncause = \"bad luck\"\n", "bad luck"),
        ("[[terms]]\n[[terms]]\njitter = 2.0\n", "terms 2"),
        ("[[terms]]\nretries = 101\n", "retries"),
    ] {
        let error = RetryPolicy::parse_terms(text).unwrap_err();
        assert!(error.contains(where_), "{error}");
    }
}

#[test]
fn the_verdict_states_a_tighter_retry_policy() {
    let of = |evidence: &Evidence| {
        let verdict = judged(evidence);
        (verdict.action, verdict.attempts_left, verdict.outlook.retries_allowed)
    };
    // only the log, or nothing, names the cause: one retry in all
    assert_eq!(of(&code(1, "working")), (Action::AsIs, 2, Some(1)));
    let proven = evidence(Some(failed(Some(1))), Exit::Code(2), "");
    assert_eq!(of(&proven), (Action::Bigger, 2, None), "the budget is what bounds it");
    assert_eq!(of(&code(2, "a.c:3:1: error: no")), (Action::No, 2, None));
    let once = policy("[[terms]]\ncause = \"oom\"\nretries = 1\n");
    assert_eq!(with(&once, &proven, &History::new(1)).outlook.retries_allowed, Some(1));
}

#[test]
fn the_policy_can_allow_retries_of_deterministic_failures() {
    let policy = policy("[[terms]]\ncause = \"deterministic\"\nretries = 1\n");
    let verdict = with(&policy, &code(2, "a.c:3:1: error: no"), &History::new(1));
    assert_eq!((verdict.cause, verdict.action), (Cause::Deterministic, Action::AsIs));
}

#[test]
fn waits_double_to_a_bound_and_are_deterministic() {
    let terms = RetryPolicy::default().terms(&Key::default(), Cause::Infra);
    let wait = |id: &str, number| terms.wait_before(&AttemptId::parse(id).unwrap(), number).0;
    assert!((22_500..=30_000).contains(&wait("7", 1)) && (45_000..=60_000).contains(&wait("7", 2)));
    assert!(wait("7", 40) <= 600_000 && wait("7", u32::MAX) >= 450_000);
    assert_eq!(wait("7", 1), wait("7", 1));
    let waits: std::collections::HashSet<u64> = (0..20).map(|id| wait(&format!("job-{id}"), 1)).collect();
    assert!(waits.len() > 15, "jobs that failed together come back together: {waits:?}");
}

#[test]
fn a_retry_has_costs_that_waiting_reduces() {
    let infra = Evidence {
        failure_reason: "api_failure".into(),
        ..evidence(Some(failed(Some(0))), Exit::Code(1), "")
    };
    let verdict = judged(&infra);
    let (next, cost) = (verdict.next.unwrap(), verdict.outlook.cost.unwrap());
    let measured = failed(Some(0));
    let hours = measured.wall.hours();
    let memory = Bytes(next.memory_request.value).gib_hours(measured.wall);
    assert!((cost.memory_gib_h - memory).abs() < 1e-9, "a default time says nothing of this build: {cost:?}");
    assert!((cost.cpu_core_h - hours).abs() < 1e-9, "one core was asked for: {cost:?}");
    assert!(verdict.outlook.wait.0 > 20_000);
    assert!((verdict.outlook.waiting_saves_gib_h - cost.memory_gib_h / 2.0).abs() < 1e-9);
    let no = judged(&code(2, "a.c:3:1: error: no")).outlook;
    assert_eq!((no.cost, no.wait), (None, Millis(0)));
}

#[test]
fn a_growing_need_is_extrapolated() {
    let mut history = History::new(10);
    for id in 100..108 {
        history.learn(Arc::new(Summary {
            wall: Millis(100_000),
            ..test_summary(&id.to_string(), "zlib", "1", 100)
        }));
    }
    let after = |per_second_mib: f64| {
        let growth =
            Some(MemoryGrowth { need: Bytes(270 * MIB), per_second: per_second_mib * 1024.0 * 1024.0 });
        let killed = Summary { wall: Millis(50_000), ..failed(Some(1)) };
        let asked = Evidence { growth, ..evidence(Some(killed), Exit::Code(2), "") };
        judge_with(&asked, &history, &Settings::default()).next.unwrap().memory_limit.value / MIB
    };
    assert_eq!((after(0.0), after(1.0), after(1e9)), (420, 420, 560));
    assert!((500..560).contains(&after(5.0)), "270 MiB and 5 more a second for about 50 s: {}", after(5.0));
}
