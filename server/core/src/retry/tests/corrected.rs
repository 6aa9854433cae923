//! Causes that persons corrected.

use super::*;
use crate::{
    domain::{CorrectionRule, VerdictCorrection},
    retry::{Corrections, WrongVerdicts},
};

const BROKEN: &str = "a.c:1:1: error: no";
const HOUR: u64 = 3_600_000;

pub(super) fn correction(cause: Cause) -> VerdictCorrection {
    VerdictCorrection {
        cause,
        why: "mirror was down".into(),
        by: "ann".into(),
        at_unix_ms: 1,
        project: "p".into(),
        found: Cause::Unknown,
        found_source: None,
        rule: String::new(),
        before: None,
        before_source: None,
        signature: None,
        undone: false,
    }
}

/// An attempt that no person spoke of.
fn other() -> AttemptId {
    AttemptId::parse("other").unwrap()
}

/// The verdict on a failure of which a person says another cause.
fn corrected(evidence: &Evidence, correction: &VerdictCorrection) -> Verdict {
    let evidence = Evidence { correction: Some(Box::new(correction.clone())), ..evidence.clone() };
    let finding =
        classify(&evidence, &LogRules::built_in()).corrected(correction.cause, correction.evidence_text());
    let (history, seen) = (History::new(10), KnownFailures::new(10));
    let (settings, policy) = (Settings::default(), RetryPolicy::default());
    let known = VerdictInputs { history: &history, seen: &seen, settings: &settings, policy: &policy };
    crate::retry::judge(&evidence, finding, &known)
}

/// Corrections with that of one failure of this log, and the verdict on it.
fn known(log: &str, cause: Cause) -> (Corrections, Verdict) {
    let natural = judged(&code(2, log));
    let rule = CorrectionRule { id: natural.outlook.signature.unwrap().id, until_unix_ms: 24 * HOUR };
    let verdict = corrected(&code(2, log), &VerdictCorrection { signature: Some(rule), ..correction(cause) });
    let mut known = Corrections::new(10);
    known.record(&verdict);
    (known, verdict)
}

#[test]
fn a_correction_decides_but_keeps_signature_and_evidence() {
    let natural = judged(&code(2, BROKEN));
    assert_eq!((natural.cause, natural.action), (Cause::Deterministic, Action::No));
    let verdict = corrected(&code(2, BROKEN), &correction(Cause::Infra));
    assert_eq!((verdict.cause, verdict.action), (Cause::Infra, Action::AsIs), "{}", verdict.reason);
    assert_eq!(verdict.basis.cause_source, Some(EvidenceSource::Person));
    assert_eq!(verdict.outlook.signature, natural.outlook.signature);
    assert!(verdict.reason.contains("ann corrected the cause: mirror was down"), "{}", verdict.reason);
    let supports: Vec<bool> = verdict.evidence.iter().map(|line| line.supports).collect();
    assert_eq!((supports[0], supports[1..].contains(&true)), (true, false), "{:?}", verdict.evidence);
    assert_eq!(verdict.evidence.len(), natural.evidence.len() + 1);
    let noted = verdict.correction().unwrap();
    assert_eq!((noted.found, noted.found_source), (Cause::Deterministic, Some(EvidenceSource::Log)));
    assert_eq!(natural.evidence[0].text.split_once(": ").unwrap().0, noted.rule);
}

#[test]
fn evidence_is_marked_for_the_corrected_cause() {
    let asked = code(1, "curl: (6) Could not resolve host: x\na.c:1:1: error: no\n");
    let marked = |verdict: &Verdict| -> Vec<(String, bool)> {
        let of_log = verdict.evidence.iter().filter(|line| line.source == EvidenceSource::Log);
        of_log.map(|line| (line.text.split(':').next().unwrap().to_owned(), line.supports)).collect()
    };
    let natural = judged(&asked);
    let other = if natural.cause == Cause::Infra { Cause::Deterministic } else { Cause::Infra };
    let corrected = corrected(&asked, &correction(other));
    let (before, after) = (marked(&natural), marked(&corrected));
    assert!(before.len() >= 2 && before.iter().any(|(_, supports)| *supports), "{before:?}");
    assert!(before.iter().any(|(_, supports)| !supports), "{before:?}");
    for ((rule, before), (same, after)) in before.iter().zip(&after) {
        assert_eq!(rule, same, "what spoke against it speaks for the new cause: {corrected:?}");
        assert_eq!(!before, *after, "what spoke against it speaks for the new cause: {corrected:?}");
    }
    assert_eq!(corrected.cause, other);
}

#[test]
fn signature_corrections_do_not_override_success_or_kernel() {
    let (known, _) = known(BROKEN, Cause::Infra);
    let rules = LogRules::built_in();
    let found = |evidence: &Evidence| known.apply("p", &other(), classify(evidence, &rules), HOUR).cause;
    assert_eq!(found(&code(2, BROKEN)), Some(Cause::Infra));
    assert_eq!(found(&code(0, BROKEN)), None);
    assert_eq!(found(&evidence(Some(failed(Some(1))), Exit::Code(2), BROKEN)), Some(Cause::Oom));
}

#[test]
fn signature_corrections_expire_and_stay_in_their_project() {
    let (mut known, verdict) = known(BROKEN, Cause::Infra);
    let natural = || classify(&code(2, BROKEN), &LogRules::built_in());
    assert_eq!(known.apply("p", &other(), natural(), 24 * HOUR - 1).decided_by, Some(EvidenceSource::Person));
    assert_eq!(known.apply("p", &other(), natural(), 24 * HOUR), natural(), "it has expired");
    assert_eq!(known.apply("q", &other(), natural(), HOUR), natural(), "another project");
    let unlike = classify(&code(2, "b.c:1:1: error: other"), &LogRules::built_in());
    assert_eq!(known.apply("p", &other(), unlike.clone(), HOUR), unlike, "another failure");
    let mut undone = verdict;
    undone.basis.correction.as_mut().unwrap().undone = true;
    known.record(&undone);
    assert!(known.is_empty());
    assert_eq!(known.apply("p", &other(), natural(), HOUR), natural(), "it was taken back");
}

#[test]
fn an_attempt_does_not_inherit_its_own_word() {
    let (known, verdict) = known(BROKEN, Cause::Infra);
    let natural = classify(&code(2, BROKEN), &LogRules::built_in());
    // so that what is left without the word is what the rules find
    assert_eq!(known.apply("p", &verdict.attempt, natural.clone(), HOUR), natural);
}

#[test]
fn the_last_valid_signature_correction_counts() {
    let natural = || classify(&code(2, BROKEN), &LogRules::built_in());
    let id = judged(&code(2, BROKEN)).outlook.signature.unwrap().id;
    let word = |attempt: &str, cause, at_unix_ms, until_unix_ms| {
        let rule = CorrectionRule { id: id.clone(), until_unix_ms };
        let signed = VerdictCorrection { signature: Some(rule), at_unix_ms, ..correction(cause) };
        let of = Evidence { attempt: AttemptId::parse(attempt).unwrap(), ..code(2, BROKEN) };
        corrected(&of, &signed)
    };
    let (long, short) = (word("b", Cause::Infra, 1, 24 * HOUR), word("a", Cause::DiskFull, 2, HOUR));
    for words in [[&long, &short], [&short, &long]] {
        let mut known = Corrections::new(10);
        for verdict in words {
            known.record(verdict);
        }
        let cause = |known: &Corrections, now| known.apply("p", &other(), natural(), now).cause;
        assert_eq!(cause(&known, 0), Some(Cause::DiskFull));
        assert_eq!(cause(&known, 2 * HOUR), Some(Cause::Infra), "the short one has expired");
        assert!(known.forget(&short.attempt) && !known.forget(&short.attempt));
        assert_eq!(cause(&known, 0), Some(Cause::Infra), "the other word is still there");
        let mut one = Corrections::new(1);
        for verdict in words {
            one.record(verdict);
        }
        assert_eq!(cause(&one, 0), Some(Cause::DiskFull), "the oldest gave its place");
    }
}

#[test]
fn wrong_verdicts_are_counted_by_rule() {
    let mut known = Corrections::new(2);
    for (id, log, cause) in [
        ("1", BROKEN, Cause::Infra),
        ("2", BROKEN, Cause::Deterministic),
        ("3", "working", Cause::Infra),
        ("3", "working", Cause::Infra),
    ] {
        let evidence = Evidence { attempt: AttemptId::parse(id).unwrap(), ..code(2, log) };
        known.record(&corrected(&evidence, &correction(cause)));
    }
    let by_nothing =
        WrongVerdicts { rule: "none".into(), found: Cause::Unknown, cause: Cause::Infra, count: 1 };
    assert_eq!(known.len(), 2, "the oldest gave its place");
    assert_eq!(known.wrong_verdicts(|_| true), vec![by_nothing]);
    assert_eq!(known.wrong_verdicts(|project| project == "q"), []);
}
