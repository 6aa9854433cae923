//! Failures that come again: the same one at the same commit, and those that go away.

use super::*;
use crate::retry::RetrySuccess;

const ODD: &str = "terminate called without an active exception: error: could not do it";

fn key() -> Key {
    let mut key = Key { package: "zlib".into(), version: "1".into(), ..Key::default() };
    key.labels.insert("commit".into(), "c0ffee".into());
    key
}

fn asked(id: &str, log: &str) -> Evidence {
    Evidence { attempt: AttemptId::parse(id).unwrap(), key: key(), ..code(1, log) }
}

fn with(seen: &KnownFailures, evidence: &Evidence, history: &History) -> Verdict {
    let (rules, settings, policy) = (LogRules::built_in(), Settings::default(), RetryPolicy::default());
    judge(evidence, &rules, &VerdictInputs { history, seen, settings: &settings, policy: &policy })
}

#[test]
fn a_repeated_failure_at_one_commit_stops_retries() {
    let (mut seen, history) = (KnownFailures::new(10), History::new(1));
    let first = asked("1", "/builds/a/x: curl: (6) Could not resolve host: x");
    let verdict = with(&seen, &first, &history);
    assert_eq!(verdict.action, Action::AsIs);
    seen.learn(&first.key, &verdict);
    assert_eq!(with(&seen, &first, &history).action, Action::AsIs, "the same question");
    let again = asked("2", "/builds/b/x: curl: (6) Could not resolve host: x");
    let verdict = with(&seen, &again, &history);
    assert_eq!((verdict.action, verdict.outlook.seen), (Action::No, 1), "{}", verdict.reason);
    let other = asked("3", "/builds/b/x: curl: (6) Could not resolve host: another");
    assert_eq!(with(&seen, &other, &history).action, Action::AsIs, "another failure");
    let mut elsewhere = again;
    elsewhere.key.labels.insert("commit".into(), "decade".into());
    assert_eq!(with(&seen, &elsewhere, &history).action, Action::AsIs, "another commit");
}

/// Verdicts on failures of this log, each with a retry that ended so.
fn lived(seen: &mut KnownFailures, history: &mut History, log: &str, ends: &[Outcome]) {
    for (n, outcome) in ends.iter().enumerate() {
        let mut first = asked(&format!("f{n}"), log);
        first.key.labels.insert("commit".into(), format!("{n}"));
        let mut verdict = with(seen, &first, history);
        verdict.action = Action::AsIs;
        seen.learn(&first.key, &verdict);
        let mut retry = test_summary(&format!("r{n}"), "zlib", "1", 100);
        retry.key = first.key;
        (retry.retries, retry.outcome) = (Some(first.attempt), *outcome);
        history.learn(Arc::new(retry));
    }
}

#[test]
fn failures_that_passed_on_retry_are_flaky() {
    use Outcome::{Failed, Succeeded};
    let broken = "a.c:1:1: error: no";
    assert_eq!(with(&KnownFailures::new(9), &asked("x", broken), &History::new(9)).action, Action::No);
    let mut one_of_nine = [Failed; 9];
    one_of_nine[0] = Succeeded;
    for (ends, action, cause) in [
        (&[Succeeded, Succeeded, Failed][..], Action::AsIs, Cause::Flaky),
        (&one_of_nine, Action::No, Cause::Flaky),
        (&[Failed, Failed], Action::No, Cause::Deterministic),
    ] {
        let (mut seen, mut history) = (KnownFailures::new(20), History::new(50));
        lived(&mut seen, &mut history, broken, ends);
        let verdict = with(&seen, &asked("7", broken), &history);
        assert_eq!((verdict.cause, verdict.action), (cause, action), "{ends:?}: {}", verdict.reason);
        assert_eq!(verdict.outlook.retried as usize, ends.len());
    }
}

#[test]
fn unprofitable_retries_are_still_sampled() {
    let (mut seen, mut history) = (KnownFailures::new(20), History::new(50));
    let ends = [[Outcome::Succeeded].as_slice(), [Outcome::Failed; 12].as_slice()].concat();
    lived(&mut seen, &mut history, ODD, &ends);
    let yes =
        (0..400).filter(|n| with(&seen, &asked(&format!("t{n}"), ODD), &history).action == Action::AsIs);
    let yes = yes.count();
    assert!((4..=60).contains(&yes), "{yes} of 400, about 20 were expected");
}

#[test]
fn nothing_is_certain_after_one_retry() {
    let rate = |tried, passed| RetrySuccess { tried, passed }.rate();
    assert!((rate(0, 0) - 0.5).abs() < 1e-9 && rate(1, 1) < 0.7 && rate(1, 0) > 0.3);
}

#[test]
fn what_is_seen_is_bounded() {
    let mut seen = KnownFailures::new(2);
    let history = History::new(1);
    for (id, file) in [("1", "a"), ("2", "b"), ("3", "c")] {
        let failed = asked(id, &format!("{file}.c:1:1: error: no"));
        let verdict = with(&seen, &failed, &history);
        seen.learn(&failed.key, &verdict);
    }
    let again =
        |file: &str| with(&seen, &asked("9", &format!("{file}.c:1:1: error: no")), &history).outlook.seen;
    assert_eq!((again("a"), again("b"), again("c")), (0, 1, 1));
}

#[test]
fn a_signature_shows_the_first_original_error() {
    for (log, first) in [
        (
            "cc -c a.c\na.c:3:1: error: no 'x86_64'\na.c:9:1: error: then this\nmake: *** [x] Error 1\n",
            "a.c:3:1: error: no 'x86_64'",
        ),
        (
            "t1 runs\nERROR: expected 3, got 4\nran python3 steps.py, which failed\n",
            "ERROR: expected 3, got 4",
        ),
        ("t1 runs\npython3 steps.py cannot go on\n", "python3 steps.py cannot go on"),
    ] {
        let signature = judged(&code(1, log)).outlook.signature.unwrap();
        assert_eq!(signature.first, first);
        assert!(!signature.line.contains('3'), "the fingerprint has no numbers: {}", signature.line);
    }
}

/// An attempt of one CI job of a pipeline, as an agent measures it that says nothing of what it retries.
fn of_job(id: &str, pipeline: &str, outcome: Outcome) -> Summary {
    let mut summary = test_summary(id, "zlib", "1", 100);
    for (name, value) in [("commit", pipeline), ("pipeline", pipeline), ("job", "build")] {
        summary.key.labels.insert(name.into(), value.into());
    }
    let failed = outcome == Outcome::Failed;
    (summary.outcome, summary.exit) = (outcome, Some(Exit::Code(i32::from(failed))));
    summary
}

#[test]
fn passing_gitlab_retries_outweigh_a_log_based_no() {
    let (mut seen, mut history) = (KnownFailures::new(10), History::new(10));
    let broken = "a.c:1:1: error: no";
    let failed = |id: &str, pipeline: &str| Evidence {
        attempt: AttemptId::parse(id).unwrap(),
        key: Key::default(),
        ..evidence(Some(of_job(id, pipeline, Outcome::Failed)), Exit::Code(1), broken)
    };
    let first = failed("gl:1", "100");
    let verdict = with(&seen, &first, &history);
    assert_eq!((verdict.cause, verdict.action), (Cause::Deterministic, Action::No));
    history.learn(Arc::new(of_job("gl:1", "100", Outcome::Failed)));
    seen.learn(&first.measured.as_ref().unwrap().key, &verdict);
    let next = failed("gl:9", "101");
    assert_eq!(with(&seen, &next, &history).action, Action::No, "nothing was retried yet");
    // another job of the same pipeline is no retry
    let mut other = of_job("gl:2", "100", Outcome::Succeeded);
    other.key.labels.insert("job".into(), "lint".into());
    history.learn(Arc::new(other));
    assert_eq!(with(&seen, &next, &history).action, Action::No);
    // one that failed again agrees with the verdict
    seen.learn(
        &of_job("gl:5", "99", Outcome::Failed).key,
        &Verdict { attempt: AttemptId::parse("gl:5").unwrap(), ..verdict },
    );
    history.learn(Arc::new(of_job("gl:5", "99", Outcome::Failed)));
    history.learn(Arc::new(of_job("gl:6", "99", Outcome::Failed)));
    assert_eq!(with(&seen, &next, &history).outlook.retried, 0);
    history.learn(Arc::new(of_job("gl:3", "100", Outcome::Succeeded)));
    let verdict = with(&seen, &next, &history);
    assert_eq!((verdict.cause, verdict.action), (Cause::Flaky, Action::AsIs), "{}", verdict.reason);
    assert_eq!((verdict.outlook.retried, verdict.outlook.passed), (2, 1));
}

#[test]
fn passing_retries_do_not_outweigh_a_proven_no() {
    let (mut seen, mut history) = (KnownFailures::new(10), History::new(10));
    let crash = |id: &str, pipeline: &str| Evidence {
        attempt: AttemptId::parse(id).unwrap(),
        key: Key::default(),
        ..evidence(Some(of_job(id, pipeline, Outcome::Failed)), Exit::Code(127), "x: command not found")
    };
    let first = crash("gl:1", "100");
    let verdict = with(&seen, &first, &history);
    assert!(verdict.action == Action::No && verdict.outlook.proven, "{verdict:?}");
    history.learn(Arc::new(of_job("gl:1", "100", Outcome::Failed)));
    seen.learn(&first.measured.as_ref().unwrap().key, &verdict);
    history.learn(Arc::new(of_job("gl:2", "100", Outcome::Succeeded)));
    let verdict = with(&seen, &crash("gl:9", "101"), &history);
    assert_eq!((verdict.action, verdict.outlook.retried), (Action::No, 0), "{}", verdict.reason);
}
