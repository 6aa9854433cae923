//! Evidence that is strange: other languages, other encodings, unknown words, clues that contradict each other.

use super::*;

#[test]
fn an_unknown_reason_is_shown_and_decides_nothing() {
    for case in [
        Evidence { failure_reason: "quantum_failure".into(), ..code(1, "") },
        Evidence { container_reason: "Vaporised".into(), ..code(1, "") },
        Evidence { pod_reason: "Vaporised: by the node".into(), ..code(1, "") },
    ] {
        let verdict = judged(&case);
        assert_eq!((verdict.cause, verdict.action), (Cause::Unknown, Action::AsIs));
        assert!(verdict.evidence[0].text.ends_with("is not known here"), "{:?}", verdict.evidence);
    }
}

#[test]
fn a_job_can_fail_although_its_command_succeeded() {
    let case =
        |pod: &str, ci: &str| Evidence { pod_reason: pod.into(), failure_reason: ci.into(), ..code(0, "") };
    assert_eq!(judged(&case("Preempting", "")).cause, Cause::Preempted);
    assert_eq!(judged(&case("", "runner_system_failure")).cause, Cause::Infra);
    let succeeded = judged(&case("OOMKilled", "unknown_failure"));
    assert_eq!(succeeded.reason, "it succeeded, there is nothing to retry");
}

#[test]
fn contradictory_evidence_is_weighed_and_shown() {
    let case = Evidence {
        failure_reason: "job_execution_timeout".into(),
        pod_reason: "Preempting".into(),
        ..evidence(Some(failed(Some(1))), Exit::Code(127), "a.c:1:1: error: no")
    };
    let verdict = judged(&case);
    assert_eq!(verdict.cause, Cause::Oom);
    let against: Vec<&str> =
        verdict.evidence.iter().filter(|line| !line.supports).map(|line| line.source.as_str()).collect();
    assert_eq!(against, ["pod", "exit", "ci", "log"]);
}

#[test]
fn an_expired_time_limit_explains_a_kill() {
    let killed = |limit| Evidence {
        time_limit: Some(Millis(limit)),
        ..evidence(Some(Summary { wall: Millis(60_000), ..failed(Some(0)) }), Exit::Signal(9), "")
    };
    assert_eq!(judged(&killed(60_000)).cause, Cause::Timeout);
    assert_eq!(judged(&killed(61_000)).cause, Cause::Infra);
    let compiler = Evidence { exit: Some(Exit::Code(2)), ..killed(60_000) };
    assert_eq!(judged(&compiler).cause, Cause::Unknown, "it ended by itself");
}

#[test]
fn killed_at_a_full_limit_means_starved() {
    let full = Summary { memory_peak: Bytes(280 * MIB), reclaim_failures: None, ..failed(Some(0)) };
    let killed = |summary: Summary| judged(&evidence(Some(summary), Exit::Signal(9), "")).cause;
    assert_eq!(killed(full.clone()), Cause::Starved);
    assert_eq!(killed(Summary { reclaim_failures: Some(10), ..full.clone() }), Cause::Infra);
    assert_eq!(killed(Summary { memory_peak: Bytes(200 * MIB), ..full.clone() }), Cause::Infra);
    let full = judged(&evidence(Some(full), Exit::Code(1), ""));
    assert_eq!(full.cause, Cause::Unknown, "page cache fills any limit");
}

#[test]
fn a_tools_own_limit_is_not_the_builds() {
    let heap = "java.lang.OutOfMemoryError: Java heap space";
    let verdict = judged(&code(1, heap));
    assert_eq!((verdict.cause, verdict.action), (Cause::ToolOom, Action::No));
    assert!(verdict.reason.contains("-Xmx"), "{}", verdict.reason);
    let far_below = Summary { need_peak: Bytes(100 * MIB), ..failed(Some(0)) };
    let near = failed(Some(0));
    for (summary, cause) in [(far_below, Cause::ToolOom), (near, Cause::Oom)] {
        assert_eq!(judged(&evidence(Some(summary), Exit::Code(1), "MemoryError")).cause, cause);
    }
}

#[test]
fn degenerate_long_logs_give_no_cause() {
    let prefixes = log::line_wrappers::tests::FAMILIES.concat();
    let logs = [
        "x".repeat(8 << 20),
        "\0".repeat(1 << 20),
        "\r".repeat(1 << 20),
        format!("{prefixes}\n").repeat(2000),
    ];
    for log in logs {
        let verdict = judged(&code(1, &log));
        assert_eq!((verdict.cause, verdict.action), (Cause::Unknown, Action::AsIs), "{:?}", verdict.evidence);
    }
    let long = judged(&code(1, &format!("{} No space left on device\n", "x".repeat(8 << 20))));
    assert_eq!(long.cause, Cause::DiskFull, "the end of a long line says how it went");
    let first = long.outlook.signature.unwrap().first;
    assert!(first.len() < 300, "a line is kept in part: {}", first.len());
}

#[test]
fn memory_refused_by_ulimit_is_not_retried_unchanged() {
    let refused = "virtual memory exhausted: Cannot allocate memory";
    let unlimited = Summary { resources: Resources::default(), ..failed(Some(0)) };
    let verdict = judged(&evidence(Some(unlimited.clone()), Exit::Code(1), refused));
    assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::No), "{}", verdict.reason);
    assert!(verdict.reason.contains("probably"), "{}", verdict.reason);
    assert!(verdict.reason.contains("`ulimit -v`"), "{}", verdict.reason);
    let uncounted = Summary { oom_kill: None, ..unlimited };
    let uncounted = judged(&evidence(Some(uncounted), Exit::Code(1), refused));
    assert_eq!(uncounted.action, Action::AsIs, "nothing was counted");
    let limited = judged(&evidence(Some(failed(Some(0))), Exit::Code(1), refused));
    assert_ne!(limited.action, Action::No, "its own limit may have been short: {}", limited.reason);
}

#[test]
fn degenerate_wrapped_logs_give_no_verdict() {
    let prefixes = "2024-05-22T12:43:46.9626460Z [ERROR] > #12 51.29 builder-1  | ".repeat(3);
    for log in [
        "\0".repeat(1 << 20),
        prefixes.repeat(5_000),
        format!("{prefixes}\n").repeat(5_000),
        "{\"msg\":".repeat(100_000),
        format!("{{\"msg\": \"{}", "x".repeat(1 << 20)),
        format!("{}\n", "{\"msg\":[".repeat(50)).repeat(500),
    ] {
        let verdict = judged(&code(1, &log));
        assert_eq!(verdict.cause, Cause::Unknown, "{:?}", verdict.evidence);
    }
}

#[test]
fn a_rule_with_an_endless_alternation_is_refused() {
    let words: Vec<String> = (0..100_000).map(|number| format!("word{number}x")).collect();
    let file = |pattern: &str| {
        format!("[[rule]]\nid = \"x\"\ncause = \"infra\"\npattern = '{pattern}'\nmatches = ['word1x']\n")
    };
    for pattern in
        [words.join("|"), "(a|b|".repeat(100_000), format!("(?:{}){{900}}", words[..900].join("|"))]
    {
        let wrong = LogRules::extended(&[("x.toml".to_owned(), file(&pattern))]).unwrap_err();
        assert!(!wrong.is_empty() && wrong.iter().all(|wrong| wrong.len() < 4 << 10), "{}", wrong.len());
    }
}

#[test]
fn wide_coloured_and_sectioned_logs_are_read() {
    let line = "a.c:1:2: error: no";
    let wide: String = line.chars().flat_map(|c| [c, '\0']).collect();
    let nested = format!(
        "section_start:100:outer\r\x1b[0K\nsection_start:101:inner\r\x1b[0K\n{line}\n\
         section_end:102:inner\r\x1b[0K\nsection_end:103:outer\r\x1b[0K\n"
    );
    for log in [wide, format!("\x1b[1m{line}\x1b[0m"), format!("50 %\r{line}\r"), nested] {
        assert_eq!(judged(&code(1, &log)).cause, Cause::Deterministic, "{log:?}");
    }
}
