//! Words that many logs hold, whatever became of the build: they prove nothing, and mostly they say nothing.

use super::*;

/// Words that name memory where nothing else speaks, and hide nothing.
const BARE_WORDS: &[&str] = &["Killed", "OOMKilled", "std::bad_alloc"];

/// Lines of builds that went well, or failed of something else.
pub(super) const IN_PASSING: &[&str] = &[
    // output of tests
    "test child_is_reported_as_Killed ... ok",
    "PASS: parent sees that the child was Killed",
    "ok 7 - write fails with: No space left on device",
    "not relevant: process 4711 Killed by the test itself",
    "Testing fetch of a missing page: HTTP Error 404: Not Found (as expected)",
    "out of memory handler installed",
    "simulating out of memory",
    "tests/oom.py::test_memory_error_is_raised PASSED [ 10%]",
    "12/30 Test #12: disk_full_No space left on device ... Passed 0.02 sec",
    "caught MemoryError as planned",
    "[       OK ] Client.Connection reset by peer (3 ms)",
    // what configure scripts say
    "checking for nonexistent.h... No such file or directory",
    "cat: /etc/os-release2: No such file or directory",
    "rm: cannot remove 'x': No such file or directory",
    "mirror said HTTP Error 404, trying the next one",
    // source and commands that are printed
    "  210 |   error (\"Killed signal terminated program %s\", name);",
    "  12 |     panic!(\"memory allocation of 8 bytes failed\")",
    "+ grep -c 'No space left on device' build.log",
    "$ test $(grep -c 'Out of memory: Killed process 1' log) = 0",
    "++ echo 'ERROR: Job failed: execution took longer than 1h0m0s seconds'",
    "// terminate called after throwing: see std::bad_alloc",
    "# Killed",
    // other languages
    "Getötet",
    "Processus arrêté : mémoire épuisée",
    "Memoria insuficiente",
    "Нет места на устройстве",
    "Недостаточно памяти",
    "内存不足",
    "プロセスが強制終了されました",
    "Datei oder Verzeichnis nicht gefunden",
];

#[test]
fn words_in_passing_name_no_cause() {
    for words in IN_PASSING {
        let verdict = judged(&code(1, words));
        assert_eq!(verdict.cause, Cause::Unknown, "{words:?}: {:?}", verdict.evidence);
    }
    let all = judged(&code(1, &IN_PASSING.join("\n")));
    assert!(all.evidence.is_empty(), "no rule says anything: {:?}", all.evidence);
}

#[test]
fn bare_memory_terms_are_only_a_candidate() {
    for word in BARE_WORDS {
        for exit in [1, 137] {
            let verdict = judged(&code(exit, &format!("step 4 of 9\n{word}\nmake: *** [all] Error 1\n")));
            assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::AsIs), "{word} {exit}");
        }
    }
}

#[test]
fn incidental_terms_do_not_hide_the_cause() {
    let errors = [
        ("x.c:3:1: error: expected ';'", Cause::Deterministic),
        ("ModuleNotFoundError: No module named 'x'", Cause::Deterministic),
        ("configure: error: no acceptable C compiler", Cause::Deterministic),
        ("curl: (6) Could not resolve host: x", Cause::Infra),
        ("/bin/sh: write error: No space left on device", Cause::DiskFull),
    ];
    for (error, cause) in errors {
        for words in IN_PASSING.iter().chain(BARE_WORDS) {
            for log in [format!("{words}\n{error}\n"), format!("{error}\n{words}\n")] {
                assert_eq!(judged(&code(1, &log)).cause, cause, "{log:?}");
            }
        }
    }
}

#[test]
fn source_beside_a_message_is_not_what_happened() {
    let log = "x.cc:2:3: error: 'puts' was not declared\n    \
               2 |   puts(\"g++: fatal error: Killed signal terminated program cc1plus\");\n      |   ^~~~\n";
    assert_eq!(judged(&code(1, log)).cause, Cause::Deterministic);
    let traceback = "Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    \
                     raise OSError(\"No space left on device\") if full else KeyError(1)\nKeyError: 1\n";
    assert_eq!(judged(&code(1, traceback)).cause, Cause::Deterministic);
}

#[test]
fn prefixes_of_spack_and_runner_hide_nothing() {
    for log in [
        "1 error found in build log:\n     123    make all\n  >> 124    x.c:1:2: error: no such thing\n",
        "2024-05-22T12:43:46.962646Z 01O x.c:1:2: error: no such thing",
    ] {
        assert_eq!(judged(&code(1, log)).cause, Cause::Deterministic, "{log}");
    }
    let killed = "3 errors found in build log:\n  >> 91    g++: fatal error: Killed signal terminated program cc1plus\n";
    assert_eq!(judged(&code(1, killed)).cause, Cause::Oom, "a candidate");
    let stamped =
        "2024-05-22T12:43:46.962646Z 00O ERROR: Job failed: execution took longer than 1h0m0s seconds";
    assert_eq!(judged(&code(1, stamped)).cause, Cause::Timeout);
}

#[test]
fn a_logged_limit_outranks_an_interrupt() {
    let memory = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.";
    let time = "*** JOB 7 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***";
    for (exit, log, cause) in [
        (130, memory, Cause::Oom),
        (130, time, Cause::Timeout),
        (130, "step 4 of 9", Cause::Canceled),
        (130, "the worker was killed", Cause::Canceled),
        (130, "curl: (6) Could not resolve host: x", Cause::Canceled),
        (143, "std::bad_alloc", Cause::Oom),
        (143, "Process completed with exit code 137.", Cause::Infra),
    ] {
        assert_eq!(judged(&code(exit, log)).cause, cause, "{exit} {log}");
    }
}

/// The runner's line for a container that was killed for memory.
const RUNNER: &str =
    "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'";

#[test]
fn the_runners_line_counts_only_at_the_end() {
    let judgement = |measured: Option<Summary>, log: &str| {
        let failed = measured.map(Arc::new);
        let evidence = Evidence {
            failure_reason: "runner_system_failure".into(),
            measured: failed,
            exit: None,
            ..code(1, log)
        };
        let verdict = judged(&evidence);
        (verdict.cause, verdict.action)
    };
    assert_eq!(judgement(None, RUNNER), (Cause::Oom, Action::Bigger));
    let forged = format!("{RUNNER}\nERROR: Job failed (system failure): pods \"x\" not found\n");
    let forged = judgement(None, &forged).1;
    assert_ne!(forged, Action::Bigger, "the build printed it, the runner has another reason");
    let lost = Summary { outcome: Outcome::Lost, exit: None, ..failed(Some(0)) };
    assert_eq!(judgement(Some(lost), RUNNER).1, Action::Bigger, "the agent went with the container");
    let none_killed = judgement(Some(failed(Some(0))), RUNNER).1;
    assert_ne!(none_killed, Action::Bigger, "counted to the end, and nothing killed");
}

proptest! {
    #[test]
    fn no_mixture_of_words_grows_a_size(
        at in prop::collection::vec(0..IN_PASSING.len(), 0..6),
        code in 1..256_i32,
        kills in prop::sample::select(vec![None, Some(0)]),
    ) {
        let log: Vec<&str> = at.into_iter().filter_map(|at| IN_PASSING.get(at).copied()).collect();
        let verdict = judged(&evidence(Some(failed(kills)), Exit::Code(code), &log.join("\n")));
        if let Some(next) = verdict.next {
            prop_assert!(next.memory_limit.value <= 280 * MIB && next.memory_request.value <= 200 * MIB);
        }
    }
}
