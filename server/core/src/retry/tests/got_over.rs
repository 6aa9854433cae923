//! What a build got over, what the other side answered, and who ended it: each by tools that no rule names.

use super::*;

/// A fault outside the build, and what shows that the build went on.
const GOT_OVER: [&[&str]; 6] = [
    &["npm warn network read ECONNRESET", "added 713 packages, and audited 714 packages in 41s"],
    &["curl: (56) Recv failure: Connection reset by peer", "Retrying.", "'a.tar.gz' saved [12/12]"],
    &["There appears to be trouble with your network connection. Retrying...", "Done in 21.33s."],
    &[
        "Temporary failure resolving 'deb.example.org'",
        "Fetched 4,211 kB in 2s",
        "Setting up acme (1.2-3) ...",
    ],
    &["error: Connection refused, retrying", "Successfully installed acme-1.2"],
    &["[WARN] i/o timeout", "HEAD is now at 1234abc Fix it"],
];
/// What failed afterwards: tests, linters, type checkers and formatters.
const FAILED: [&[&str]; 14] = [
    &["FAIL src/cart.test.js", "Tests:       1 failed, 41 passed, 42 total"],
    &["--- FAIL: TestSum (0.00s)", "    sum_test.go:14: got 3, want 4", "FAIL"],
    &["92% tests passed, 1 tests failed out of 12"],
    &["  1) Cart adds up", "41 examples, 1 failure"],
    &["FAILURES!", "Tests: 41, Assertions: 102, Failures: 1."],
    &["Failed!  - Failed:     1, Passed:    41, Skipped:     0, Total:    42"],
    &["  12:5  error  'x' is not defined  no-undef", "1 problem (1 error, 0 warnings)"],
    &["would reformat src/acme/cart.py", "1 file would be reformatted, 41 files would be left unchanged."],
    &["acme/cart.py:12: error: Incompatible return value type", "Found 1 error in 1 file"],
    &["14/32 parse-empty            FAIL            0.07s   exit status 1"],
    &["//src:cart_test                                  FAILED in 0.3s"],
    &["3 scenarios (1 failed, 2 passed)"],
    &["** TEST FAILED **"],
    &["- files were modified by this hook"],
];
/// How a runner ends the log.
const END: &str = "ERROR: Job failed: exit code 1";

fn verdict(exit: i32, lines: &[&str]) -> (Cause, Action) {
    let verdict = judged(&code(exit, &lines.join("\n")));
    (verdict.cause, verdict.action)
}

#[test]
fn what_a_build_got_over_is_no_cause() {
    for (over, failed) in GOT_OVER.into_iter().flat_map(|over| FAILED.map(|failed| (over, failed))) {
        let (cause, action) = verdict(1, &[over, failed, &[END]].concat());
        assert_eq!((cause, action), (Cause::Deterministic, Action::No), "{over:?} {failed:?}");
    }
    let inside = ["test net::get ...", "connection refused", "1 failed, 11 passed"];
    assert_eq!(verdict(1, &inside).1, Action::AsIs, "nothing shows that the tests began later");
    let gave_up = ["connection refused, retrying", "connection refused", "error: giving up"];
    assert_eq!(verdict(1, &gave_up).0, Cause::Infra);
}

#[test]
fn success_elsewhere_overcomes_no_fault() {
    let retried = "error: Connection refused, retrying";
    for log in [
        &[retried, "make: *** [get] Error 1", "Running after_script", "'a.xml' saved [12/12]", END][..],
        &[retried, "##[error]Process completed with exit code 7.", "Done in 2.3s.", END],
        &[
            "connection refused",
            "cc a.c",
            "cc b.c",
            "cc c.c",
            "cc d.c",
            "cc e.c",
            "Retrying.",
            "1 failed, 11 passed",
        ],
        &["connection refused", "warning: unused variable x", "1 failed, 11 passed"],
    ] {
        assert_eq!(verdict(1, log), (Cause::Infra, Action::AsIs), "{log:?}");
    }
}

#[test]
fn an_answer_comes_before_a_failed_fetch() {
    let asked = ["fatal: the remote end hung up unexpectedly", "error: failed to download acme.tar.gz"];
    let answers = [
        "fatal: remote error: upload-pack: not our ref 4711abc4711abc",
        "Fetcher failure: Unable to find revision 4711abc in branch main",
        "npm error notarget No matching version found for acme@^9.",
        "curl: (22) The requested URL returned error: 404",
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "The requested URL returned error: 401 Unauthorized",
        "E: The repository 'http://x stable InRelease' is not signed.",
        "HTTPSConnectionPool: Max retries exceeded with url: / (certificate verify failed: self-signed certificate)",
    ];
    for answer in answers {
        for asked in asked {
            assert_eq!(verdict(1, &[answer, asked, END]).1, Action::No, "{answer} {asked}");
        }
        assert_eq!(verdict(1, &["HTTP/1.1 503 Service Unavailable", asked[0]]).1, Action::AsIs);
    }
    for outside in ["error: 429 Too Many Requests", "HTTP 403: API rate limit exceeded", asked[0]] {
        assert_eq!(verdict(1, &[outside, asked[1]]), (Cause::Infra, Action::AsIs), "{outside}");
    }
}

#[test]
fn a_line_names_who_ended_the_build() {
    let heap =
        "4: v8::internal::V8::FatalProcessOutOfMemory(v8::internal::Isolate*, char const*, bool) [node]";
    let memory = "Aborted by the batch server\nJob exceeded a memory resource limit (vmem). Job was aborted";
    let jenkins = "[ 42%] Building a.oBuild timed out (after 60 minutes). Marking the build as aborted.";
    let loader = "container_linux.go:380: starting container process caused \"exec format error\"";
    for (exit, line, cause) in [
        (1, memory, Cause::Oom),
        (143, "=>> PBS: job killed: walltime 3610 exceeded limit 3600", Cause::Timeout),
        (143, jenkins, Cause::Timeout),
        (1, "note: the previous build was aborted by the user\na.c:3:1: error: no", Cause::Deterministic),
        (134, "Watchdog caught collective operation timeout: ran for 1800772 milliseconds", Cause::Infra),
        (134, heap, Cause::ToolOom),
        (134, "terminate called", Cause::Deterministic),
        (1, loader, Cause::Configuration),
        (1, "query stack during panic:\nerror: could not compile `acme` (lib)", Cause::Deterministic),
        (1, "error: could not compile `acme` (lib)", Cause::Oom),
        (1, "mount: /mnt: no such device", Cause::Configuration),
        (1, "License Manager Error -8", Cause::Configuration),
        (1, "error: release version 21 not supported", Cause::Deterministic),
        (1, "setup: eval: line 231: unexpected EOF while looking for matching `''", Cause::Deterministic),
    ] {
        assert_eq!(verdict(exit, &[line]).0, cause, "{exit} {line}");
    }
}

#[test]
fn what_the_cluster_refuses_is_configuration() {
    let system = "ERROR: Job failed (system failure): prepare environment: setting up build pod: ";
    let refused = [
        "pods \"x\" is forbidden: minimum memory usage per Container is 128Mi, but request is 64Mi",
        "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": privileged",
        "pods is forbidden: User \"system:serviceaccount:ci:b\" cannot create resource \"pods\"",
        "Pod \"x\" is invalid: spec.containers[0].image: Required value",
        "no PriorityClass with name high was found",
        "namespaces \"ci\" not found",
        "admission webhook \"policy.example.org\" denied the request: no limits",
    ]
    .map(|text| (text, Cause::Configuration, Action::No));
    let passing = [
        "pods \"x\" is forbidden: exceeded quota: compute, requested: memory=4Gi, used: memory=60Gi",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
        "failed calling webhook \"x.example.org\": Post \"https://x\": context deadline exceeded",
    ]
    .map(|text| (text, Cause::Infra, Action::AsIs));
    for (text, cause, action) in refused.into_iter().chain(passing) {
        for system in ["", system] {
            let line = format!("{system}{text}");
            assert_eq!(verdict(1, &[line.as_str()]), (cause, action), "{line}");
        }
        if text.contains(" is forbidden: ") {
            let pod_reason = format!("FailedCreate: {text}");
            assert_eq!(judged(&Evidence { pod_reason, ..code(1, "") }).cause, cause, "{text}");
        }
    }
}
