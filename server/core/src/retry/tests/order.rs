//! Trouble outside the build beside failures of its own in one log: what ended the build decides.

use super::*;

const NETWORK: [&str; 4] = [
    "curl: (6) Could not resolve host: downloads.example.org",
    "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "Error: Timed out waiting for a write lock.",
];
const OWN: [&str; 6] = [
    "a.c:3:1: error: 'x' undeclared",
    "error[E0425]: cannot find value `x` in this scope",
    "/usr/bin/ld: a.o: undefined reference to `main'",
    "test result: FAILED. 1 passed; 2 failed",
    "FAILED tests/test_parse.py::test_empty - AssertionError: 1 != 2",
    "AssertionError: 1 != 2",
];
const FOLLOW: [&str; 6] = [
    "make: *** [Makefile:12: all] Error 1",
    "ERROR: Job failed: exit code 1",
    "Error: ProcessError: exited with status 1",
    "CMake Error at CMakeLists.txt:3 (message): download failed",
    "configure: error: cannot fetch sources",
    "a.c:1:10: fatal error: zlib.h: No such file or directory",
];

fn cause(lines: &[&str]) -> Cause {
    judged(&code(1, &lines.join("\n"))).cause
}

#[test]
fn overcome_network_trouble_is_not_the_cause() {
    for network in NETWORK {
        for own in OWN {
            for over in ["downloaded from mirror", "mirror 2 of 3: ok", "Fetched 12 MB in 3s"] {
                let log = ["cc -c b.c", network, over, "cc -c a.c", own, FOLLOW[0], FOLLOW[1]];
                let verdict = judged(&code(1, &log.join("\n")));
                assert_eq!((verdict.cause, verdict.action), (Cause::Deterministic, Action::No), "{log:?}");
                let shown = verdict.evidence.iter().find(|line| line.text.contains(network)).unwrap();
                assert!(!shown.supports && verdict.reason.contains(own), "{verdict:#?}");
            }
        }
    }
    let missing = [NETWORK[0], "downloaded from mirror", "ModuleNotFoundError: No module named 'acme'"];
    assert_eq!(cause(&missing), Cause::Deterministic, "it was downloaded, and is missing all the same");
}

#[test]
fn source_errors_do_not_follow_from_downloads() {
    for own in &OWN[..3] {
        assert_eq!(cause(&[NETWORK[0], own]), Cause::Deterministic, "{own}");
    }
    let tests = [NETWORK[0], "============= test session starts =============", OWN[4]];
    assert_eq!(cause(&tests), Cause::Deterministic, "the trouble was before the tests");
}

#[test]
fn consequences_of_a_failed_download_do_not_decide() {
    for network in NETWORK {
        let outside = cause(&[network]);
        assert!(matches!(outside, Cause::Infra | Cause::Contention));
        let is_not_the_builds = |lines: &[&str]| [outside, Cause::Undecided].contains(&cause(lines));
        assert!(is_not_the_builds(&[&[network][..], &FOLLOW].concat()), "{network}");
        for follow in FOLLOW {
            assert!(is_not_the_builds(&[network, "trying again: download failed", follow]), "{follow}");
        }
    }
    let missing = "ModuleNotFoundError: No module named 'acme'";
    assert_eq!(cause(&[NETWORK[0], missing]), Cause::Infra, "the download explains what is missing");
    assert_eq!(cause(&[missing, NETWORK[0]]), Cause::Undecided, "it was missing before");
    assert_eq!(cause(&[NETWORK[0], "#9 DONE 36.2s", missing]), Cause::Deterministic, "the step went on");
    let inside = ["running 12 tests", NETWORK[2], "test result: FAILED. 11 passed; 1 failed"];
    assert_eq!(cause(&inside), Cause::Undecided, "the trouble was in a test");
    let itself = [NETWORK[0], "downloaded b", "FAILED tests/t.py::get - Connection reset by peer"];
    assert_eq!(cause(&itself), Cause::Infra, "a failure that names the trouble is not another one");
}

#[test]
fn the_last_of_two_failures_usually_decides() {
    let (network, own) = (NETWORK[0], OWN[0]);
    assert_eq!(cause(&[own, "trying the packaged one", network, FOLLOW[1]]), Cause::Undecided);
    let over = [own, FOLLOW[0], "uploading the log", network, FOLLOW[1]];
    assert_eq!(cause(&over), Cause::Deterministic, "the upload did not break the build");
    let taken = "ERROR: Job failed (system failure): pods \"runner-x\" not found";
    assert_eq!(cause(&[own, FOLLOW[0], taken]), Cause::Undecided, "the runner says why the job ended");
}

#[test]
fn test_failures_beside_connection_loss_are_undecided() {
    for log in [[OWN[4], NETWORK[2]], [NETWORK[2], OWN[4]], [NETWORK[2], OWN[3]]] {
        let verdict = judged(&code(1, &log.join("\n")));
        assert_eq!((verdict.cause, verdict.action), (Cause::Undecided, Action::AsIs), "{log:?}");
        let reason = &verdict.reason;
        assert!(verdict.confidence <= 0.5, "{log:?}: {}", verdict.confidence);
        assert!(reason.contains("or the build itself did (test-failed: "), "{reason}");
        assert!(!reason.contains("not at fault") && reason.contains("retry with the same size"), "{reason}");
    }
    let alone = judged(&code(1, NETWORK[2]));
    assert!(alone.confidence > 0.5 && alone.reason.contains("the build is not at fault"), "{alone:?}");
}

#[test]
fn a_verdict_explains_how_to_identify_unknown_causes() {
    let unread = "the cause is not known: its log was not read (to make it known, put `plimsoll run` in front of the build, ";
    let policy = ": the retry policy allows another attempt with the same size";
    let reason = judged(&code(1, "")).reason;
    assert!(reason.starts_with(unread) && reason.ends_with(policy), "{reason}");
    for log in ["the moon is full", "fatal: the moon is full"] {
        let reason = judged(&code(1, log)).reason;
        let unmatched = "the cause is not known: no rule knows a line of its log that says why (to make it known, say it with `plimsoll verdict correct`, ";
        assert!(reason.starts_with(unmatched) && reason.ends_with(policy), "{reason}");
    }
}

#[test]
fn the_log_showing_most_of_the_order_counts() {
    let asked = |log: &[&str]| reported(&code(1, &log.join("\n")), &LogRules::built_in());
    let parts = [
        asked(&NETWORK[..1]),
        asked(&[NETWORK[0], "downloaded from mirror", OWN[0]]),
        asked(&[OWN[0], FOLLOW[0]]),
    ];
    for [a, b, c] in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let mut known = ReportedEvidence::default();
        for part in [a, b, c] {
            join(&mut known, &parts[part]);
        }
        let verdict = judged(&Evidence { reported: known.clone(), ..code(1, "") });
        assert_eq!(verdict.cause, Cause::Deterministic, "{known:?}");
        join(&mut known, &asked(&[OWN[0], NETWORK[0]]));
        let verdict = judged(&Evidence { reported: known, ..code(1, "") });
        assert_eq!(verdict.cause, Cause::Undecided, "it came again, and last");
    }
}

#[test]
fn follow_up_messages_do_not_replace_the_cause() {
    let said_after = [FOLLOW[0], FOLLOW[3], FOLLOW[4], "FAILED tests/test_net.py::test_get - Exception"];
    let rules = matching::log_rules::built_in().unwrap();
    let own = rules.iter().filter(|rule| {
        // a scheduler shows the same state of what it cancels because another one failed
        // and what a tool only warns of is over once tests run
        let unclear = ["fetch-failed", "configure-failed", "canceled-state", "temporary", "image-pull-state"];
        rule.cause != Cause::Unknown && !unclear.contains(&&*rule.id)
    });
    let changed = own.flat_map(|rule| {
        let example = rule.matches[0].as_str();
        let before = cause(&[example]);
        let after = said_after.into_iter().filter(move |line| {
            let now = cause(&[example, line]);
            now != before && now != Cause::Undecided
        });
        after.map(move |line| format!("{}: {example} | {line}", rule.id))
    });
    assert_eq!(changed.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn specific_failures_outrank_lines_that_pass_them_on() {
    let words = "acme: the colour of the step is not valid";
    for before in [words, "-- Configuring incomplete, errors occurred!"] {
        assert_eq!(cause(&[before]), Cause::Deterministic, "{before}");
        assert_eq!(cause(&[before, FOLLOW[4]]), Cause::Deterministic, "{before}");
    }
    assert_eq!(cause(&[FOLLOW[4], "-- Configuring incomplete, errors occurred!"]), Cause::Infra);
}
