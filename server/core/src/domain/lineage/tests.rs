//! Which attempt retries which, in every order in which they can become known.

use proptest::prelude::*;

use super::*;
use crate::domain::{Cause, Outcome, test_summary};

/// An attempt of the job `build` of pipeline 9, started in this minute.
fn of_job(id: &str, minute: u64, retries: Option<&str>) -> Summary {
    let mut summary = test_summary(id, "zlib", "1", 10);
    summary.key.labels = [("pipeline".into(), "9".into()), ("job".into(), "build".into())].into();
    summary.started_unix_ms = 1_700_000_000_000 + minute * 60_000;
    summary.retries = retries.map(|id| AttemptId::parse(id).unwrap());
    summary
}

fn failed(cause: Cause, summary: Summary) -> Summary {
    Summary { outcome: Outcome::Failed, cause: Some(cause), ..summary }
}

fn history(attempts: &[Summary]) -> History {
    let mut history = History::new(1000);
    for attempt in attempts {
        history.learn(attempt.clone());
    }
    history
}

fn after(history: &History, attempts: &[Summary]) -> Vec<RetryStatus> {
    let of = |summary: &Summary| history.retry_after(history.get(&summary.attempt).unwrap());
    attempts.iter().map(of).collect()
}

fn assert_after(attempts: &[Summary], expected: &[RetryStatus]) {
    assert_eq!(after(&history(attempts), attempts), expected);
}

const NOTHING: RetryStatus = RetryStatus::Nothing;
const OOM: RetryStatus = RetryStatus::Cause(Cause::Oom);

#[test]
fn a_job_retried_by_gitlab_is_a_retry() {
    let first = failed(Cause::Oom, of_job("gitlab.example:7001", 0, None));
    let second = of_job("gitlab.example:7002", 10, None);
    assert_after(&[first.clone(), second.clone()], &[NOTHING, OOM]);
    // the number counts, whatever the clocks say and whichever came first
    assert_after(&[Summary { started_unix_ms: 1, ..second.clone() }, first.clone()], &[OOM, NOTHING]);
    let history = history(&[second.clone(), first.clone()]);
    let retry = history.retried_by(&first.attempt, &first.key).unwrap();
    assert_eq!(retry.attempt, second.attempt);
    assert_eq!(history.retried_by(&second.attempt, &second.key), None);
}

#[test]
fn a_failure_leads_to_its_last_retry() {
    let first = failed(Cause::Oom, of_job("gitlab.example:7001", 0, None));
    let second = failed(Cause::Oom, of_job("gitlab.example:7002", 10, None));
    let named = of_job("other", 20, Some("gitlab.example:7002"));
    let known = history(&[first.clone(), second.clone(), named.clone()]);
    for retried in [&first, &second] {
        assert_eq!(known.last_retry(&retried.attempt), Some((named.attempt.clone(), Outcome::Succeeded)));
    }
    assert_eq!(known.last_retry(&named.attempt), None);
    let one = failed(Cause::Oom, of_job("one", 20, Some("gitlab.example:7001")));
    let other = of_job("other", 30, Some("gitlab.example:7001"));
    let known = history(&[failed(Cause::Oom, of_job("gitlab.example:7001", 0, None)), one, other]);
    assert_eq!(known.last_retry(&first.attempt).unwrap().0.as_str(), "other", "both name the first");
    // what runs again after a success is no retry
    let known = history(&[
        first.clone(),
        of_job("gitlab.example:7002", 10, None),
        of_job("gitlab.example:7003", 20, None),
    ]);
    let last = known.last_retry(&first.attempt).unwrap().0;
    assert_eq!((last.as_str(), known.last_retry(&last)), ("gitlab.example:7002", None));
}

#[test]
fn a_rerun_after_success_is_no_retry() {
    let first = of_job("gitlab.example:7001", 0, None);
    let second = failed(Cause::Oom, of_job("gitlab.example:7002", 10, None));
    let third = of_job("gitlab.example:7003", 20, None);
    let named = of_job("gitlab.example:7004", 30, Some("gitlab.example:7003"));
    assert_after(&[first, second, third, named], &[NOTHING, NOTHING, OOM, NOTHING]);
}

#[test]
fn different_pipelines_keys_or_hosts_are_no_retries() {
    let first = failed(Cause::Oom, of_job("gitlab.example:7001", 0, None));
    let mut pipeline = of_job("gitlab.example:7002", 10, None);
    pipeline.key.labels.insert("pipeline".into(), "10".into());
    let mut key = of_job("gitlab.example:7003", 10, None);
    key.key.version = "2".into();
    let command = of_job("gitlab.example:7001.2", 10, None);
    let host = of_job("other.example:7004", 10, None);
    let mut no_labels = of_job("gitlab.example:7005", 10, None);
    no_labels.key.labels.clear();
    for other in [pipeline, key, command, host, no_labels] {
        assert_after(&[first.clone(), other], &[NOTHING, NOTHING]);
    }
}

#[test]
fn a_retry_with_its_predecessor_missing_is_unknown() {
    let first = failed(Cause::Oom, of_job("1", 0, None));
    // it says what it retries, and that is not known
    let third = of_job("3", 20, Some("2"));
    assert_after(&[first.clone(), third.clone()], &[NOTHING, RetryStatus::Unknown]);
    let known = history(&[first.clone(), third.clone()]);
    assert_eq!(known.attempts_before(&(&third).into()).len(), 1, "the first is of the same job");
    // it says nothing
    let silent = of_job("3", 20, None);
    assert_after(&[first.clone(), silent], &[NOTHING, OOM]);
    // the middle comes late
    let second = failed(Cause::Infra, of_job("2", 10, None));
    assert_after(&[first, third, second], &[NOTHING, RetryStatus::Cause(Cause::Infra), OOM]);
}

#[test]
fn retry_cycles_start_at_the_first_attempt() {
    let named = |id: &str, minute, retries: &str| {
        let mut summary = failed(Cause::Oom, of_job(id, minute, Some(retries)));
        summary.key.labels.clear();
        summary
    };
    assert_after(&[named("a", 0, "a")], &[NOTHING]);
    assert_after(&[named("a", 0, "b"), named("b", 1, "a")], &[NOTHING, OOM]);
    let circle = [named("a", 0, "c"), named("b", 1, "a"), named("c", 2, "b")];
    assert_after(&circle, &[NOTHING, OOM, OOM]);
    let known = history(&circle);
    for summary in &circle {
        assert_eq!(known.attempts_before(&summary.into()).len(), 2, "{}", summary.attempt);
    }
    // one that leads into a circle is no part of it
    let [a, b, c] = circle;
    assert_after(&[a, b, c, named("d", 3, "b")], &[NOTHING, OOM, OOM, OOM]);
}

#[test]
fn unproven_attempts_use_up_no_retries() {
    let untrusted = |id: &str, minute: u64, retries: Option<&str>, proven: bool| {
        let mut summary = failed(Cause::Infra, of_job(id, minute, retries));
        (summary.opening.untrusted, summary.opening.proven) = (true, proven);
        summary
    };
    let before = |first: &Summary, second: &Summary| {
        history(&[first.clone(), second.clone()]).attempts_before(&second.into()).len()
    };
    let (forged, own) = (untrusted("host:1", 0, None, false), untrusted("host:1", 0, None, true));
    let victim = untrusted("host:2", 10, None, true);
    assert_eq!([before(&forged, &victim), before(&own, &victim)], [0, 1]);
    // of two that prove nothing one is as good as the other
    assert_eq!(before(&forged, &untrusted("host:2", 10, None, false)), 1);
    // another job that says it retries what this one retries
    let mut other = untrusted("host:1", 0, Some("host:2"), true);
    other.key.labels.clear();
    let again = untrusted("host:2/3", 10, Some("host:2"), true);
    assert_eq!(before(&other, &again), 0);
    assert_eq!(before(&untrusted("host:2/2", 5, Some("host:2"), true), &again), 1, "of the same job");
}

#[test]
fn an_untrusted_attempt_comes_before_no_trusted_one() {
    let mut stranger = failed(Cause::Oom, of_job("1", 0, None));
    stranger.opening.untrusted = true;
    let ours = of_job("2", 10, None);
    assert_after(&[stranger.clone(), ours.clone()], &[NOTHING, NOTHING]);
    let named = Summary { retries: AttemptId::parse("1").ok(), ..ours };
    assert_after(&[stranger, named], &[NOTHING, RetryStatus::Unknown]);
    let mut other = of_job("3", 10, None);
    other.opening.untrusted = true;
    assert_after(&[failed(Cause::Oom, of_job("1", 0, None)), other], &[NOTHING, OOM]);
}

#[test]
fn attempts_without_numbers_are_ordered_by_start() {
    let all = ["h:1", "h:2", "mine", "h:3"];
    // the second began after the third, by a clock that is an hour ahead
    let minutes = [0, 75, 60, 20];
    let attempts: Vec<Summary> =
        all.iter().zip(minutes).map(|(id, minute)| of_job(id, minute, None)).collect();
    assert_eq!(in_order(attempts.iter().map(JobRun::from)), [0, 2, 1, 3]);
}

#[test]
fn what_an_agent_says_counts_before_the_clocks() {
    let first = failed(Cause::Oom, of_job("a", 60, None));
    let second = of_job("b", 0, Some("a"));
    assert_after(&[first.clone(), second.clone()], &[NOTHING, OOM]);
    let known = history(&[second.clone(), first.clone()]);
    assert_eq!(known.attempts_before(&(&first).into()).len(), 0);
    assert_eq!(known.attempts_before(&(&second).into()).len(), 1);
}

proptest! {
    /// Whatever agents say, and in whatever order attempts become known: one is a retry or not by what is known alone, and nothing takes
    /// for ever.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        named in prop::collection::vec((0_u64..5, prop::option::of(0_usize..8), any::<bool>()), 1..8),
        order in Just((0_usize..8).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let attempts: Vec<Summary> = named.iter().enumerate().map(|(n, (minute, retries, labels))| {
            let retries = retries.map(|n| n.to_string());
            let mut summary = failed(Cause::Oom, of_job(&n.to_string(), *minute, retries.as_deref()));
            if !labels {
                summary.key.labels.clear();
            }
            summary
        }).collect();
        let one = after(&history(&attempts), &attempts);
        let shuffled: Vec<Summary> = order.iter().filter_map(|at| attempts.get(*at)).cloned().collect();
        prop_assert_eq!(&after(&history(&shuffled), &attempts), &one);
    }
}
