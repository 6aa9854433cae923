//! What each verdict means in its place.

use plimsoll_proto::v1::{Cause, Outlook, Prediction, Quantity};

use super::*;

fn verdict(action: Action) -> Verdict {
    Verdict { action: action.into(), reason: "so it is".to_owned(), ..Verdict::default() }
}

fn sized(action: Action, jobs: u64, memory: u64) -> Verdict {
    let quantity = |value| Some(Quantity { value, basis: None });
    let next = Prediction {
        build_jobs: quantity(jobs),
        memory_limit_bytes: quantity(memory),
        ..Prediction::default()
    };
    Verdict { next: Some(next), ..verdict(action) }
}

fn place(jobs: u32) -> RetryConditions {
    RetryConditions { jobs: Some(jobs), memory_limit: Some(4 << 30), ..RetryConditions::default() }
}

fn jobs(next: &NextStep) -> Option<u32> {
    match next {
        NextStep::Again { jobs, .. } => *jobs,
        NextStep::Stop(_) => None,
    }
}

fn why(next: NextStep) -> String {
    match next {
        NextStep::Stop(why) => why,
        NextStep::Again { .. } => panic!("{next:?}"),
    }
}

#[test]
fn fewer_jobs_means_fewer_than_before() {
    assert_eq!(jobs(&next_step(&sized(Action::FewerJobs, 4, 0), &place(8))), Some(4));
    assert_eq!(jobs(&next_step(&sized(Action::FewerJobs, 4, 0), &RetryConditions::default())), Some(4));
    for (given, had) in [(4, 4), (8, 4), (0, 4), (u64::MAX, 4)] {
        let stopped = why(next_step(&sized(Action::FewerJobs, given, 0), &place(had)));
        assert!(stopped.contains("no number of jobs below"), "{given}: {stopped}");
    }
    assert!(why(next_step(&verdict(Action::FewerJobs), &place(8))).contains("no number of jobs"));
}

#[test]
fn a_too_large_build_reduces_jobs_to_fit() {
    let short = |verdict| Verdict { cause: Cause::Oom.into(), ..verdict };
    let with = |given, memory| short(sized(Action::Bigger, given, memory));
    assert_eq!(jobs(&next_step(&with(8, 6 << 30), &place(8))), Some(5));
    assert_eq!(jobs(&next_step(&with(4, 6 << 30), &place(8))), Some(2), "6 GiB are meant for 4 jobs");
    assert_eq!(jobs(&next_step(&with(8, 1 << 50), &place(8))), Some(1));
    assert_eq!(jobs(&next_step(&with(8, (4 << 30) + 1), &place(8))), Some(7));
    assert_eq!(jobs(&next_step(&with(8, 1), &place(8))), Some(4), "another limit was short");
    let bare = short(verdict(Action::Bigger));
    assert_eq!(jobs(&next_step(&bare, &place(3))), Some(1));
    assert!(why(next_step(&bare, &place(1))).contains("a single job already"));
    assert!(why(next_step(&bare, &RetryConditions::default())).contains("--key build_jobs=N"));
    let elsewhere = RetryConditions { larger_elsewhere: true, ..place(8) };
    assert!(why(next_step(&bare, &elsewhere)).contains("the exit code asks for one"));
}

#[test]
fn fewer_jobs_do_not_replace_more_cpu() {
    let slow = Verdict { cause: Cause::Contention.into(), ..sized(Action::Bigger, 8, 6 << 30) };
    assert_eq!(why(next_step(&slow, &place(8))), "it needs a larger place: so it is");
}

#[test]
fn an_as_is_retry_waits_a_bounded_time() {
    let waiting = |wait_ms| Verdict {
        outlook: Some(Outlook { wait_ms, ..Outlook::default() }),
        ..verdict(Action::AsIs)
    };
    let again = |wait| NextStep::Again { jobs: None, wait, why: "so it is".to_owned() };
    assert_eq!(next_step(&waiting(30_000), &place(1)), again(Duration::from_secs(30)));
    assert_eq!(next_step(&verdict(Action::AsIs), &place(1)), again(Duration::ZERO));
    assert!(why(next_step(&waiting(900_001), &place(1))).contains("not held longer than 900s"));
}

#[test]
fn verdicts_needing_another_place_are_not_retried_here() {
    for action in [Action::No, Action::Unspecified, Action::Longer, Action::Elsewhere] {
        assert!(why(next_step(&sized(action, 1, 1), &place(8))).ends_with(": so it is"), "{action:?}");
    }
    let taken = Verdict { cause: Cause::Preempted.into(), ..verdict(Action::AsIs) };
    assert!(why(next_step(&taken, &place(8))).contains("is being taken away"));
}
