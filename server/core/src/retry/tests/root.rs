//! The line from which a failure began, where it stands, and the lines that only pass it on.

use super::*;
use crate::domain::{LogPlace, RootLine};

fn root(log: &str) -> (String, RootLine) {
    let outlook = judged(&code(2, log)).outlook;
    (outlook.signature.unwrap().first, outlook.root.unwrap())
}

const CHAIN: &str = "cc -c a.c\na.c:3:1: error: no 'x'\na.c:9:1: error: then this\n\
                     make[2]: *** [Makefile:3: a.o] Error 1\nmake[1]: *** [all] Error 2\nmake: *** [all] Error 2\n\
                     ERROR: Job failed: exit code 2\n";

#[test]
fn a_verdict_shows_the_root_and_its_consequences() {
    let (line, root) = root(CHAIN);
    assert_eq!((line.as_str(), root.at), ("a.c:3:1: error: no 'x'", LogPlace::FromStart(2)));
    let then =
        ["make[2]: *** [Makefile:3: a.o] Error 1", "make[1]: *** [all] Error 2", "make: *** [all] Error 2"];
    assert_eq!(root.then, then, "the three that stand nearest, in their order");
}

#[test]
fn a_truncated_log_is_counted_from_its_end() {
    let (line, root) = root(&format!("{}{CHAIN}", "building\n".repeat(20_000)));
    assert_eq!((line.as_str(), root.at), ("a.c:3:1: error: no 'x'", LogPlace::FromEnd(6)));
    assert_eq!(root.then.len(), 3);
}

#[test]
fn repeated_consequences_after_the_root_show_once() {
    let log = "make: *** [b] Error 1\nbuilding\ncurl: (6) Could not resolve host: x\nBUILD FAILURE\nBUILD FAILURE\n";
    let (line, root) = root(log);
    assert_eq!((line.as_str(), root.at), ("curl: (6) Could not resolve host: x", LogPlace::FromStart(3)));
    assert_eq!(root.then, ["BUILD FAILURE"]);
}

#[test]
fn the_root_is_kept_independent_of_order() {
    let rules = LogRules::built_in();
    let parts = [CHAIN, &format!("one line more\n{CHAIN}")].map(|log| reported(&code(2, log), &rules));
    let joined = |order: [usize; 2]| {
        let mut all = ReportedEvidence::default();
        for part in order {
            join(&mut all, &parts[part]);
        }
        all
    };
    assert_eq!(joined([0, 1]), joined([1, 0]));
    let later = judged(&Evidence { reported: joined([1, 0]), ..code(2, "") });
    assert_eq!(later.outlook.root.unwrap().then.len(), 3, "a later question knows it without the log");
}

#[test]
fn dropping_log_lines_leaves_none_in_the_verdict() {
    let mut verdict = judged(&code(2, CHAIN));
    verdict.basis.reported = reported(&code(2, CHAIN), &LogRules::built_in());
    assert!(verdict.drop_log_lines());
    let left = format!("{verdict:?}");
    assert!(!left.contains("a.c") && !left.contains("***"), "{left}");
}

#[test]
fn a_failed_test_beside_outside_trouble_is_named() {
    let lost = "ConnectionResetError: [Errno 104] Connection reset by peer";
    for test in
        ["FAILED tests/test_net.py::test_get - Exception", "--- FAIL: TestGet (0.00s)", "FAIL: run-x.sh"]
    {
        let verdict = judged(&code(1, &format!("{lost}\n{test}\n")));
        assert_eq!(verdict.cause, Cause::Infra);
        let own = verdict.outlook.own_failure.unwrap_or_default();
        assert!(own.ends_with(test), "{test}: {own}");
        assert!(verdict.confidence <= 0.5 && verdict.reason.contains(test), "{}", verdict.reason);
        assert!(!verdict.reason.contains("not at fault"), "{}", verdict.reason);
    }
    let alone = judged(&code(1, &format!("{lost}\nmake: *** [get] Error 1\n")));
    assert_eq!(alone.outlook.own_failure, None, "make only passes it on");
}

#[test]
fn lines_of_strong_rules_survive_the_excerpt() {
    let noise = "building a part of it, and all is well so far\n".repeat(5_000);
    let rules = matching::log_rules::built_in().unwrap();
    let strong = rules.iter().filter(|rule| !rule.weak);
    let lost = strong.flat_map(|rule| &rule.matches).filter(|example| {
        let log = format!("building\n{example}\n{noise}");
        let excerpt = plimsoll_base::log_excerpt::of(log.as_bytes(), 64 << 10);
        !String::from_utf8_lossy(&excerpt).contains(example.as_str())
    });
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&String>::new());
}
