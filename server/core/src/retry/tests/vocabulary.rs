//! The rules of the program as a vocabulary: each decides where it is alone, none hides another, and a summary explains nothing.

use super::*;
use crate::retry::matching::log_rules;

/// The rule whose line decided: it is shown first.
fn decided_by(verdict: &Verdict) -> &str {
    let line = verdict.evidence.iter().find(|line| line.source == EvidenceSource::Log && line.supports);
    line.and_then(|line| line.text.split_once(": ")).map_or("", |(rule, _line)| rule)
}

/// The cause of the rule that decided, also where a failure of the build itself stands beside it.
fn cause_by_rule(verdict: &Verdict) -> Cause {
    if verdict.cause == Cause::Undecided { Cause::Infra } else { verdict.cause }
}

#[test]
fn every_rule_decides_on_its_own_examples() {
    for rule in log_rules::built_in().unwrap() {
        let verdicts: Vec<Verdict> = rule.matches.iter().map(|line| judged(&code(1, line))).collect();
        let decides = verdicts.iter().any(|verdict| decided_by(verdict) == rule.id);
        let deciders: Vec<_> = verdicts.iter().map(decided_by).collect();
        assert!(decides, "{} is hidden by {deciders:?}", rule.id);
        for (verdict, line) in verdicts.iter().zip(&rule.matches) {
            let cause = cause_by_rule(verdict);
            assert!(rule.weak || cause == rule.cause, "{}: {line:?} is {cause:?}", rule.id);
        }
    }
}

#[test]
fn a_summary_alone_allows_one_retry() {
    for rule in log_rules::built_in().unwrap().into_iter().filter(|rule| rule.cause == Cause::Unknown) {
        assert!(rule.weak, "{}", rule.id);
        let alone = |line: &&String| decided_by(&judged(&code(2, line))) == rule.id;
        for line in rule.matches.iter().filter(alone) {
            let verdict = judged(&code(2, line));
            assert_eq!((verdict.cause, verdict.action), (Cause::Unknown, Action::AsIs), "{line}");
            let again = judged(&Evidence { number: 2, ..code(2, line) });
            assert_eq!(again.action, Action::No, "{line}");
        }
    }
}

#[test]
fn a_summary_after_its_root_changes_nothing() {
    let rules = log_rules::built_in().unwrap();
    let summaries: Vec<String> = rules
        .iter()
        .filter(|rule| rule.cause == Cause::Unknown)
        .flat_map(|rule| rule.matches.clone())
        .collect();
    for rule in rules.iter().filter(|rule| !rule.weak) {
        let Some(root) = rule.matches.iter().find(|line| decided_by(&judged(&code(1, line))) == rule.id)
        else {
            continue;
        };
        for summary in &summaries {
            let verdict = judged(&code(1, &format!("{root}\n{summary}\n")));
            assert_eq!(cause_by_rule(&verdict), rule.cause, "{root} then {summary}");
            assert!(verdict.evidence[0].supports, "{:?}", verdict.evidence);
        }
    }
}

#[test]
fn a_line_counts_once_by_its_strongest_rule() {
    let texts = |log: &str| -> Vec<String> {
        let lines = judged(&code(1, log)).evidence.into_iter();
        lines.filter(|line| line.source == EvidenceSource::Log).map(|line| line.text).collect()
    };
    let both = "curl: (28) Failed to connect to x port 443: Connection timed out";
    let named = LogRules::built_in().read(both).len();
    assert!(named > 1, "the line must be one that two rules know");
    assert_eq!(texts(both), [format!("connection: {both}")]);
    let other = format!("{both}\nHTTP/1.1 504 Gateway Timeout");
    assert_eq!(texts(&other).len(), 2, "another line is other evidence: {:?}", texts(&other));
    let test = "AssertionError: ConnectionResetError: Connection reset by peer";
    assert_eq!(texts(test).len(), 2, "a failed test that names the trouble stays: {:?}", texts(test));
}

#[test]
fn silently_failing_compilers_were_probably_killed() {
    let make = "make[3]: *** [Makefile:12: src/a.o] Error 1\nmake[3]: *** [Makefile:12: src/b.o] Error 1\nmake: *** [all] Error 2";
    let verdict = judged(&code(2, make));
    assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::AsIs), "{verdict:?}");
    assert!(verdict.confidence < 0.5 && decided_by(&verdict) == "compilers-silent", "{verdict:?}");
    let one = make.lines().filter(|line| !line.contains("b.o")).collect::<Vec<_>>().join("\n");
    assert_eq!(judged(&code(2, &one)).cause, Cause::Unknown, "one object file may fail of anything");
    let twice = format!("{one}\n{one}");
    assert_eq!(judged(&code(2, &twice)).cause, Cause::Unknown, "the same line twice is one file");
    for summary in
        ["configure: error: cannot fetch sources", "CMake Error at x.txt:3 (message): download failed"]
    {
        let before = judged(&code(2, &format!("{make}\n{summary}")));
        assert_eq!(before.cause, Cause::Oom, "a summary gives no reason: {summary}");
        let root = "acme: error: the file x does not exist";
        let verdict = judged(&code(2, &format!("{root}\n{summary}")));
        assert_eq!(verdict.cause, Cause::Deterministic, "it follows from the root: {summary}: {verdict:?}");
    }
    for word in ["acme: error: the moon is full", "x.q:3: Fatal: no moon"] {
        let log = format!("{word}\n{make}");
        assert_ne!(judged(&code(2, &log)).cause, Cause::Oom, "a compiler said why: {word}");
    }
}
