//! First lines of verdicts, as people read them.

use super::*;
use crate::v1::{Basis, EvidenceLine, Outlook, Prediction};

fn sized(value: u64, bound: &SizeBound) -> Option<Quantity> {
    let basis = Basis { bound: bound.to_string(), ..Basis::default() };
    Some(Quantity { value, basis: Some(basis) })
}

fn headline(action: Action, cause: Cause, next: Prediction) -> String {
    first_line(&verdict(action, cause, next))
}

fn verdict(action: Action, cause: Cause, next: Prediction) -> Verdict {
    Verdict {
        action: action.into(),
        cause: cause.into(),
        confidence: 0.99,
        next: Some(next),
        attempts_left: 2,
        outlook: Some(Outlook { stopped_at_bytes: Some(120 << 20), ..Outlook::default() }),
        ..Verdict::default()
    }
}

#[test]
fn more_memory_names_the_old_limit_and_the_new_one() {
    let next =
        || Prediction { memory_limit_bytes: sized(518 << 20, &SizeBound::None), ..Prediction::default() };
    assert_eq!(
        headline(Action::Bigger, Cause::Oom, next()),
        "Retry with more memory: limit 120 MiB -> 518 MiB (out of memory, 99 % sure, 2 attempts left)"
    );
    let fewer = Prediction { build_jobs: sized(3, &SizeBound::RoomIn("518 MiB".to_owned())), ..next() };
    assert_eq!(
        headline(Action::Bigger, Cause::Starved, fewer),
        "Retry with more memory and fewer build jobs: limit 120 MiB -> 518 MiB, -j3 (starved of memory, 99 % sure, 2 attempts left)"
    );
    // where it was stopped is not known
    let unplaced = Verdict { outlook: None, ..verdict(Action::Bigger, Cause::Oom, next()) };
    assert!(first_line(&unplaced).starts_with("Retry with more memory: limit 518 MiB (out"), "{unplaced:?}");
    let blind = Verdict { next: None, attempts_left: 1, ..unplaced };
    assert_eq!(first_line(&blind), "Retry with more memory: out of memory (99 % sure, 1 attempt left)");
}

#[test]
fn each_other_retry_says_what_changes() {
    let cpu = sized(3_400, &SizeBound::HeldBack("2".to_owned()));
    let half = SizeBound::HalfOf { jobs: 8, most: "4.00 GiB".to_owned() };
    let time = sized(90_000, &SizeBound::TooShort("1 min 0 s".to_owned()));
    let none = Prediction::default;
    for (action, cause, next, expected) in [
        (
            Action::Bigger,
            Cause::Contention,
            Prediction { cpu_limit_millicores: cpu, ..none() },
            "Retry with more CPU: limit 2 cores -> 3.4 cores (contention, 99 % sure, 2 attempts left)",
        ),
        (
            Action::FewerJobs,
            Cause::Oom,
            Prediction { build_jobs: sized(4, &half), ..none() },
            "Retry with fewer build jobs: -j8 -> -j4 (out of memory, 99 % sure, 2 attempts left)",
        ),
        (
            Action::Longer,
            Cause::Timeout,
            Prediction { wall_p95_ms: time, ..none() },
            "Retry with more time: 1 min 0 s -> 1 min 30 s (time-out, 99 % sure, 2 attempts left)",
        ),
        (
            Action::Longer,
            Cause::Timeout,
            none(),
            "Retry with more time: time-out (99 % sure, 2 attempts left)",
        ),
        (
            Action::Elsewhere,
            Cause::DiskFull,
            none(),
            "Retry on a machine with more free disk: disk full (99 % sure, 2 attempts left)",
        ),
        (
            Action::Elsewhere,
            Cause::Infra,
            none(),
            "Retry on another machine: infrastructure (99 % sure, 2 attempts left)",
        ),
        (
            Action::AsIs,
            Cause::Preempted,
            none(),
            "Retry with the same size: preempted (99 % sure, 2 attempts left)",
        ),
    ] {
        assert_eq!(headline(action, cause, next), expected);
    }
}

#[test]
fn attempts_left_are_those_that_the_policy_allows() {
    let mut one = verdict(Action::AsIs, Cause::Infra, Prediction::default());
    one.outlook = Some(Outlook { retries_allowed: Some(1), ..Outlook::default() });
    assert_eq!(first_line(&one), "Retry with the same size: infrastructure (99 % sure, 1 attempt left)");
}

#[test]
fn without_a_cause_the_line_says_what_is_not_known_and_the_policy_comes_second() {
    let mut unknown = verdict(Action::AsIs, Cause::Unknown, Prediction::default());
    for (reason, expected) in [
        (
            "the cause is not known: its log was not read (read it): the retry policy allows another attempt with the same size",
            "Cause not known: its log was not read; the retry policy allows another attempt with the same size (2 attempts left)",
        ),
        (
            "the cause is not known: no rule knows a line of its log that says why: the retry policy allows another attempt with the predicted size",
            "Cause not known: no rule knows a line of its log that says why; the retry policy allows another attempt with the predicted size (2 attempts left)",
        ),
        ("(removed)", "Cause not known; the retry policy allows another attempt (2 attempts left)"),
    ] {
        reason.clone_into(&mut unknown.reason);
        assert_eq!(first_line(&unknown), expected);
        // a list of verdicts has the same words; attempts that were left then are no news
        assert_eq!(answer(&unknown), expected.trim_end_matches(" (2 attempts left)"));
    }
    let rule = EvidenceLine {
        source: "policy".to_owned(),
        text: "the policy allows 1 retry".to_owned(),
        supports: true,
    };
    let mut used_up = Verdict { action: Action::No.into(), evidence: vec![rule], ..unknown };
    assert_eq!(first_line(&used_up), "Do not retry: the policy allows 1 retry (cause not known)");
    used_up.evidence.clear();
    assert_eq!(first_line(&used_up), "Do not retry: cause not known");
}

#[test]
fn the_same_size_is_named_only_where_it_is_the_same() {
    let of = |reason: &str| {
        let same = verdict(Action::AsIs, Cause::Preempted, Prediction::default());
        answer(&Verdict { reason: reason.to_owned(), ..same })
    };
    assert_eq!(of("it was preempted: so retry with the same size"), "Retry with the same size");
    assert_eq!(
        of("it was preempted: so retry with the predicted size, because it had none of its own"),
        "Retry with the predicted size"
    );
    assert_eq!(of("it was preempted: so retry with 64 MiB of memory, the most there is"), "Retry");
}

#[test]
fn no_retry_says_which_rule_forbids_it_else_the_cause() {
    let no = verdict(Action::No, Cause::Deterministic, Prediction::default());
    assert_eq!(first_line(&no), "Do not retry: the build itself fails (99 % sure)");
    let outlook = Some(Outlook { seen: 1, ..Outlook::default() });
    let again = Verdict { outlook, ..no.clone() };
    assert_eq!(first_line(&again), "Do not retry: fails every time (99 % sure)");
    let rule = EvidenceLine {
        source: "policy".to_owned(),
        text: "all 3 attempts\u{1b}[2J are used up".to_owned(),
        supports: true,
    };
    let used_up = Verdict { cause: Cause::Oom.into(), evidence: vec![rule], attempts_left: 0, ..no };
    assert_eq!(
        first_line(&used_up),
        "Do not retry: all 3 attempts\\u{1b}[2J are used up (out of memory, 99 % sure)"
    );
}

#[test]
fn what_only_a_log_says_of_memory_is_probable() {
    let mut probable = verdict(Action::AsIs, Cause::Oom, Prediction::default());
    probable.cause_source = "log".to_owned();
    assert!(first_line(&probable).starts_with("Retry with the same size: probably out of memory (99"));
    let success = Verdict {
        action: Action::No.into(),
        cause: Cause::Unknown.into(),
        confidence: 1.0,
        ..Verdict::default()
    };
    assert_eq!(first_line(&success), "Nothing to retry: the attempt succeeded");
}

#[test]
fn trouble_beside_a_failure_of_the_build_itself_is_undecided() {
    let infra = verdict(Action::AsIs, Cause::Infra, Prediction::default());
    assert!(first_line(&infra).contains(": infrastructure ("), "{}", first_line(&infra));
    let line = first_line(&verdict(Action::AsIs, Cause::Undecided, Prediction::default()));
    assert!(line.contains(": undecided: the build itself or infrastructure ("), "{line}");
}
