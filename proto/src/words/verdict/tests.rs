//! First lines of verdicts, as people read them: `recorded.txt` has each below what it shows.

use super::*;
use crate::{
    fixtures::assert_recorded,
    v1::{Basis, EvidenceLine, Outlook, Prediction},
};

fn sized(value: u64, bound: &SizeBound) -> Option<Quantity> {
    let basis = Basis { size_bound: bound.to_wire(), ..Basis::default() };
    Some(Quantity { value, basis: Some(basis) })
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

/// A verdict without a size.
fn plain(action: Action, cause: Cause) -> Verdict {
    verdict(action, cause, Prediction::default())
}

/// A rule of the policy that decided.
fn policy(text: &str) -> Vec<EvidenceLine> {
    vec![EvidenceLine { source: "policy".to_owned(), text: text.to_owned(), supports: true }]
}

/// Retries that change something.
fn retries() -> Vec<(&'static str, Verdict)> {
    let none = Prediction::default;
    let more = || Prediction { memory_limit_bytes: sized(518 << 20, &SizeBound::None), ..none() };
    let fewer = Prediction { build_jobs: sized(3, &SizeBound::RoomIn("518 MiB".to_owned())), ..more() };
    let half = SizeBound::HalfOf(8, "4.00 GiB".to_owned());
    let half = Prediction { build_jobs: sized(4, &half), ..none() };
    let cpu = SizeBound::HeldBack("2".to_owned());
    let cpu = Prediction { cpu_limit_millicores: sized(3_400, &cpu), ..none() };
    let time = SizeBound::TooShort("1 min 0 s".to_owned());
    let time = Prediction { wall_p95_ms: sized(90_000, &time), ..none() };
    let unplaced = Verdict { outlook: None, ..verdict(Action::Bigger, Cause::Oom, more()) };
    let blind = Verdict { next: None, attempts_left: 1, ..unplaced.clone() };
    let one_allowed = Some(Outlook { retries_allowed: Some(1), ..Outlook::default() });
    let one_left = Verdict { outlook: one_allowed, ..plain(Action::AsIs, Cause::Infra) };
    let by_log = Verdict { cause_source: "log".to_owned(), ..plain(Action::AsIs, Cause::Oom) };
    vec![
        ("more memory: the old limit and the new one", verdict(Action::Bigger, Cause::Oom, more())),
        ("more memory and fewer jobs", verdict(Action::Bigger, Cause::Starved, fewer)),
        ("where it was stopped is not known", unplaced),
        ("no size is known", blind),
        ("more CPU", verdict(Action::Bigger, Cause::Contention, cpu)),
        ("fewer jobs", verdict(Action::FewerJobs, Cause::Oom, half)),
        ("more time", verdict(Action::Longer, Cause::Timeout, time)),
        ("more time, and no time is known", plain(Action::Longer, Cause::Timeout)),
        ("more free disk", plain(Action::Elsewhere, Cause::DiskFull)),
        ("another machine", plain(Action::Elsewhere, Cause::Infra)),
        ("the same size", plain(Action::AsIs, Cause::Preempted)),
        ("attempts left are those that the policy allows", one_left),
        ("what only a log says of memory is probable", by_log),
        ("infrastructure alone", plain(Action::AsIs, Cause::Infra)),
        ("trouble beside a failure of the build itself", plain(Action::AsIs, Cause::Undecided)),
    ]
}

/// No retry, and which rule forbids it, else the cause.
fn refusals() -> Vec<(&'static str, Verdict)> {
    let no = plain(Action::No, Cause::Deterministic);
    let again = Verdict { outlook: Some(Outlook { seen: 1, ..Outlook::default() }), ..no.clone() };
    let evidence = policy("all 3 attempts\u{1b}[2J are used up");
    let used_up = Verdict { cause: Cause::Oom.into(), evidence, attempts_left: 0, ..no.clone() };
    let unknown = plain(Action::No, Cause::Unknown);
    let by_policy = Verdict { evidence: policy("the policy allows 1 retry"), ..unknown.clone() };
    let success = Verdict { confidence: 1.0, attempts_left: 0, next: None, outlook: None, ..unknown.clone() };
    vec![
        ("the build itself fails", no),
        ("it failed in the same way before", again),
        ("a rule forbids it, and control characters are escaped", used_up),
        ("a rule forbids it, and the cause is not known", by_policy),
        ("nothing is known", unknown),
        ("a success", success),
    ]
}

#[test]
fn first_lines_of_verdicts_are_as_recorded() {
    let lines = [retries(), refusals()].concat();
    let mut texts: Vec<_> = lines.iter().map(|(what, verdict)| (*what, first_line(verdict))).collect();
    let unread = "the cause is not known: its log was not read (read it): the retry policy allows another attempt with the same size";
    let unruled = "the cause is not known: no rule knows a line of its log that says why: the retry policy allows another attempt with the predicted size";
    let predicted = "it was preempted: so retry with the predicted size, because it had none of its own";
    let most = "it was preempted: so retry with 64 MiB of memory, the most there is";
    for (what, cause, reason) in [
        ("the cause is not known, and the policy comes second", Cause::Unknown, unread),
        ("no rule knows a line", Cause::Unknown, unruled),
        ("the reason was removed", Cause::Unknown, "(removed)"),
        ("the same size is named", Cause::Preempted, "it was preempted: so retry with the same size"),
        ("another size is not called the same", Cause::Preempted, predicted),
        ("a size in bytes", Cause::Preempted, most),
    ] {
        let given = Verdict { reason: reason.to_owned(), ..plain(Action::AsIs, cause) };
        // a list of verdicts has the same words; attempts that were left then are no news
        texts.push((what, format!("{}\nin a list: {}", first_line(&given), answer(&given))));
    }
    assert_recorded(&texts, include_str!("recorded.txt"), "verdict_words");
}
