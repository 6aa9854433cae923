//! Evidence is a set: the verdict after several questions is the same in any order, and the same as that on one question with all of it.

use super::*;
use crate::retry::matching::log_rules;

/// What one question may say.
#[derive(Debug, Clone)]
enum Piece {
    /// Lines of one log, which nothing takes apart: where they stand in it counts.
    Log(Vec<String>),
    Exit(Exit),
    Container(&'static str),
    Pod(&'static str),
    Ci(&'static str),
    TimeLimit(u64),
    Number(u32),
}

/// A line of each rule. The runner's last word is left out: it is a fact of one whole log. So are lines that a frame of a traceback
/// before them would make a quotation.
fn lines() -> Vec<String> {
    let rules = log_rules::built_in().unwrap();
    let examples = rules.into_iter().flat_map(|rule| rule.matches);
    let is_reason_alone = |line: &String| {
        !line.starts_with(' ') && !line.contains('\n') && !line.starts_with("ERROR: Job failed")
    };
    examples.filter(is_reason_alone).collect()
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let container =
        ["OOMKilled", "Error", "ErrImagePull", "StartError", "DeadlineExceeded", "Odd", "Queer", "Strange"];
    let pod =
        ["Evicted", "Preempting", "NodeLost", "DeadlineExceeded", "UnexpectedAdmissionError", "Odd", "Queer"];
    let ci = [
        "script_failure",
        "api_failure",
        "job_execution_timeout",
        "ci_quota_exceeded",
        "runner_interrupted",
        "odd",
    ];
    let exits =
        [Exit::Code(0), Exit::Code(1), Exit::Code(2), Exit::Code(127), Exit::Code(137), Exit::Signal(9)];
    prop_oneof![
        6 => prop::collection::vec(prop::sample::select(lines()), 1..5).prop_map(Piece::Log),
        2 => prop::sample::select(exits.to_vec()).prop_map(Piece::Exit),
        1 => prop::sample::select(container.to_vec()).prop_map(Piece::Container),
        1 => prop::sample::select(pod.to_vec()).prop_map(Piece::Pod),
        1 => prop::sample::select(ci.to_vec()).prop_map(Piece::Ci),
        1 => (1..100_u64).prop_map(Piece::TimeLimit),
        1 => (1..4_u32).prop_map(Piece::Number),
    ]
}

/// What one piece says.
fn evidence_of(measured: Option<Summary>, piece: &Piece) -> ReportedEvidence {
    let mut asked = Evidence { exit: None, ..evidence(measured, Exit::Code(1), "") };
    match piece {
        Piece::Exit(exit) => asked.exit = Some(*exit),
        Piece::Container(reason) => asked.container_reason = (*reason).to_owned(),
        Piece::Pod(reason) => asked.pod_reason = (*reason).to_owned(),
        Piece::Ci(reason) => asked.failure_reason = (*reason).to_owned(),
        Piece::TimeLimit(seconds) => asked.time_limit = Some(Millis(seconds * 1000)),
        Piece::Number(number) => asked.number = *number,
        Piece::Log(lines) => asked.log_tail = lines.join("\n"),
    }
    reported(&asked, &LogRules::built_in())
}

/// The verdict on pieces that were said in these questions, one after the other.
fn after(questions: &[Vec<Piece>], measured: Option<&Summary>) -> Verdict {
    let mut known = ReportedEvidence::default();
    for question in questions {
        let mut together = ReportedEvidence::default();
        for piece in question {
            join(&mut together, &evidence_of(measured.cloned(), piece));
        }
        join(&mut known, &together);
    }
    let asked = Evidence {
        exit: known.exit,
        number: known.number.max(1),
        time_limit: known.time_limit,
        reported: known,
        ..evidence(measured.cloned(), Exit::Code(1), "")
    };
    let mut verdict = judged(&asked);
    if let Some(signature) = &mut verdict.outlook.signature {
        // only shown: the first line of one log is not that of another
        signature.first.clear();
    }
    verdict
}

/// The pieces in another order and in other questions.
fn dealt(pieces: &[Piece], deal: &[(u32, usize)]) -> Vec<Vec<Piece>> {
    let mut order: Vec<(u32, usize, &Piece)> =
        pieces.iter().zip(deal).map(|(piece, (place, question))| (*place, *question, piece)).collect();
    order.sort_by_key(|(place, _, _)| *place);
    let mut questions = vec![Vec::new(); 4];
    for (_, question, piece) in order {
        questions[question % 4].push(piece.clone());
    }
    questions
}

#[test]
fn two_logs_decide_equally_in_either_order() {
    let network = Piece::Log(vec!["curl: (6) Could not resolve host: x".into()]);
    let compiler = Piece::Log(vec!["a.c:3:1: error: no".into()]);
    let (one, other) = (vec![network.clone()], vec![compiler.clone()]);
    let both = after(&[vec![network, compiler]], None);
    assert_eq!((both.cause, both.action), (Cause::Undecided, Action::AsIs));
    assert_eq!(after(&[one.clone(), other.clone()], None), both);
    assert_eq!(after(&[other, one], None), both);
}

proptest! {
    #[test]
    fn evidence_order_does_not_change_the_verdict(
        pieces in prop::collection::vec(any_piece(), 1..8),
        deal in prop::collection::vec((any::<u32>(), 0..4_usize), 8),
        kills in prop::sample::select(vec![None, Some(None), Some(Some(0)), Some(Some(1))]),
    ) {
        let measured: Option<Summary> = kills.map(failed);
        let at_once = after(std::slice::from_ref(&pieces), measured.as_ref());
        prop_assert_eq!(after(&dealt(&pieces, &deal), measured.as_ref()), at_once);
    }
}
