//! The defects of Spack's error taxonomy, found by running its patterns: for each, a log that its pattern gets wrong and
//! these rules get right.

use regex::Regex;

use super::*;

/// Whether a pattern of the taxonomy finds something, as Python's `re.search` would.
fn theirs(pattern: &str, log: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(log)
}

fn cause(log: &str) -> Cause {
    judged(&code(1, log)).cause
}

#[test]
fn the_numbers_of_server_errors_are_numbers_and_no_class_of_characters() {
    let pattern = "HTTP Error 5[00|02|03]";
    assert!(theirs(pattern, "HTTP Error 52") && theirs(pattern, "HTTP Error 5|"));
    assert_eq!((cause("HTTP Error 52"), cause("HTTP Error 5|")), (Cause::Unknown, Cause::Unknown));
    assert_eq!(cause("urllib.error.HTTPError: HTTP Error 503: Service Unavailable"), Cause::Infra);
}

#[test]
fn a_preparation_that_took_too_long_is_found_in_spite_of_its_parentheses() {
    let line =
        "ERROR: Job failed (system failure): prepare environment: Timeout occurred. Check https://docs";
    assert!(!theirs("ERROR: Job failed (system failure): prepare environment: Timeout occurred.", line));
    assert_eq!(cause(line), Cause::Infra);
}

#[test]
fn denied_access_is_found_in_spite_of_its_parentheses() {
    let line = "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied";
    assert!(!theirs("An error occurred (AccessDenied)", line));
    assert_eq!(cause(line), Cause::Configuration);
    assert!(judged(&code(1, line)).outlook.mend.is_some());
}

#[test]
fn a_name_of_a_file_is_no_number_of_slashes() {
    let line = "gpg: can't open '/tmp/tmpabc'";
    assert!(!theirs("gpg: can't open '/tmp/*'", line));
    assert_eq!(cause(line), Cause::Infra);
}

#[test]
fn the_runners_own_words_for_a_killed_container_are_known() {
    let line =
        "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'";
    let patterns = ["command terminated with exit code 137", "ERROR: Job failed: exit code 137"];
    assert!(patterns.iter().all(|pattern| !theirs(pattern, line)));
    let evidence = Evidence { exit: None, failure_reason: "runner_system_failure".into(), ..code(1, line) };
    assert_eq!((judged(&evidence).cause, judged(&evidence).action), (Cause::Oom, Action::Bigger));
}

#[test]
fn a_killed_compiler_is_no_error_of_the_build() {
    // the order of the taxonomy puts what Spack prints after every failed install before memory
    let log = "g++: fatal error: Killed signal terminated program cc1plus\nmake: *** [Makefile:3: a.o] Error 1\n\
               1 error found in build log:\nTo reproduce this build locally, run:\n";
    assert!(theirs("error found in build log:", log) && theirs("To reproduce this build locally, run:", log));
    assert_eq!(cause(log), Cause::Oom);
    let counted = judged(&evidence(Some(failed(Some(1))), Exit::Code(1), log));
    assert_eq!((counted.cause, counted.action), (Cause::Oom, Action::Bigger));
    for (words, pattern) in [
        ("test child_was_Killed ... ok", "Killed"),
        ("checking for x.h... No such file or directory", "No such file or directory"),
        ("mirror said HTTP Error 404, trying the next one", "HTTP Error 404"),
    ] {
        assert!(theirs(pattern, words));
        assert_eq!(cause(&format!("{words}\na.c:1:1: error: no\n")), Cause::Deterministic, "{words}");
        assert_eq!(cause(words), Cause::Unknown, "{words}");
    }
}

#[test]
fn sections_inside_of_sections_change_nothing() {
    // section timers of the runner, nested; zipping starts and ends by their order pairs the wrong ones
    let log = "section_start:100:outer\r\x1b[0K\nsection_start:101:inner\r\x1b[0K\na.c:1:1: error: no\n\
               section_end:102:inner\r\x1b[0K\nsection_end:103:outer\r\x1b[0K\n";
    let numbers = |pattern: &str| {
        let found = Regex::new(pattern).unwrap();
        found.captures_iter(log).map(|hit| hit[1].to_owned()).collect::<Vec<_>>()
    };
    let (starts, ends) = (numbers(r"section_start:\d+:(\w+)"), numbers(r"section_end:\d+:(\w+)"));
    assert!(starts.iter().zip(&ends).all(|(start, end)| start != end), "paired by order, both are wrong");
    assert_eq!(cause(log), Cause::Deterministic);
}

#[test]
fn counters_come_before_printed_lines() {
    let log = "To reproduce this build locally, run:";
    assert!(theirs("To reproduce this build locally, run:", log));
    for (evidence, cause) in [
        (evidence(Some(failed(Some(1))), Exit::Code(1), log), Cause::Oom),
        (Evidence { pod_reason: "Preempting".into(), ..code(1, log) }, Cause::Preempted),
        (code(124, log), Cause::Timeout),
        (evidence(Some(starved()), Exit::Code(1), log), Cause::Starved),
    ] {
        assert_eq!(judged(&evidence).cause, cause);
    }
}
