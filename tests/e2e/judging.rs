//! Judging while the server runs: rules and retry policy change at a signal, answers that were given stand, runs that only the CI
//! system knows count, and a log of any size costs a bounded amount of memory.

use std::{fs, process::Command};

use nix::sys::signal::Signal;
use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Programs, Server};

async fn ask(server: &Server, question: pb::ShouldRetryRequest) -> pb::Verdict {
    server.judge(question).await.unwrap()
}

/// A failure that the CI system explains.
fn infra(attempt: &str) -> pb::ShouldRetryRequest {
    pb::ShouldRetryRequest {
        attempt: attempt.into(),
        failure_reason: "api_failure".into(),
        ..pb::ShouldRetryRequest::default()
    }
}

const NO_RETRY: &str = "[[terms]]\ncause = \"infra\"\nretries = 0\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_retry_policy_changes_at_a_signal_and_answers_that_were_given_stand() {
    let (dir, settings) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = settings.path().join("policy.toml");
    fs::write(&policy, "").unwrap();
    let options = ["--retry-policy", policy.to_str().unwrap()];
    let server = Server::start_with(Programs::for_tests(), dir.path(), &options).unwrap();
    let first = ask(&server, infra("1")).await;
    assert_eq!(first.action(), pb::Action::AsIs);
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for_metric("plimsoll_rules_reloads_total{kind=\"taken\"} 1").await;
    // a wrong one is refused whole; whether the signal or the next look finds it first
    fs::write(&policy, format!("{NO_RETRY}[[terms]]\njitter = 7.5\n")).unwrap();
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for_metric("plimsoll_rules_refused 1").await;
    assert_eq!(ask(&server, infra("2")).await.action(), pb::Action::AsIs, "the one in force stays");
    fs::write(&policy, NO_RETRY).unwrap();
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for_metric("plimsoll_rules_refused 0").await;
    let third = ask(&server, infra("3")).await;
    assert_eq!(third.action(), pb::Action::No, "{}", third.reason);
    assert_eq!(ask(&server, infra("1")).await, first, "the same question");
    server.kill().unwrap();
    let server = Server::start_with(Programs::for_tests(), dir.path(), &options).unwrap();
    assert_eq!(ask(&server, infra("1")).await, first, "also after a kill");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_only_the_ci_system_lists_count_against_the_budget() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let run = |id: u32| pb::RetriedJob {
        id: id.to_string(),
        name: "zlib".into(),
        status: "failed".into(),
        failure_reason: "api_failure".into(),
        created_unix_ms: Some(1_700_000_000_000 + u64::from(id)),
        finished_unix_ms: None,
    };
    let asked = |id: u32| pb::ShouldRetryRequest {
        include_retried: vec![run(13), run(11), run(12)],
        ..infra(&format!("gitlab.example:{id}"))
    };
    for (id, left, action) in [(11, 2, pb::Action::AsIs), (12, 1, pb::Action::AsIs), (13, 0, pb::Action::No)]
    {
        let verdict = ask(&server, asked(id)).await;
        assert_eq!((verdict.attempts_left, verdict.action()), (left, action), "{id}: {}", verdict.reason);
    }
    let alone = ask(&server, infra("gitlab.example:13")).await;
    assert_eq!(alone.attempts_left, 0, "a question without the list takes nothing away");
}

#[test]
fn the_budget_and_the_price_of_a_retry_are_shown_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.jsonl");
    let killed = "{\"id\":\"k\",\"exit\":2,\"oom_kill\":1,\"mem_limit\":104857600,\"peak_rss\":99614720,\"wall_s\":60}\n";
    let refused =
        "{\"failure_reason\":\"api_failure\",\"mem_limit\":104857600,\"peak_rss\":9961472,\"wall_s\":60}\n";
    fs::write(&file, format!("{killed}{{\"exit\":127}}\n{refused}")).unwrap();
    let text = Server::call(&["classify", file.to_str().unwrap(), "-o", "json"]).done();
    let answers: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["attempts_left"], 2);
    let next = &answers[0]["next"];
    assert!(next["memory_limit_bytes"].as_u64().unwrap() > 104_857_600, "{next}");
    assert!(answers[0]["cost"]["memory_gib_h"].as_f64().unwrap() > 0.0, "{}", answers[0]);
    assert!(answers[1]["next"].is_null() && answers[1]["cost"].is_null(), "{}", answers[1]);
    assert!(answers[2]["wait_ms"].as_u64().unwrap() > 0, "{}", answers[2]);
    assert!(answers[2]["waiting_saves_gib_h"].as_f64().unwrap() > 0.0, "{}", answers[2]);
}

#[test]
fn a_log_that_is_explained_may_have_any_size_and_hold_anything() {
    let streams = [
        ("yes 'building x.o' | head -c 100000000; echo; echo 'x.c:1:2: error: no'", "cause: deterministic"),
        ("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo 'x.c:1:2: error: no'", "cause: deterministic"),
        ("head -c 100000000 /dev/zero", "no rule knows a line"),
        (
            "yes '2024-05-22T12:43:46.9626460Z #12 51.29 [linux-gcc] ' | head -c 100000000",
            "no rule knows a line",
        ),
    ];
    for (stream, expected) in streams {
        // data of the program, in KiB: less than a third of the log
        let script = format!("{{ {stream}; }} | {{ ulimit -d 30720; exec \"$0\" rules explain -; }}");
        let output =
            Command::new("sh").args(["-c", &script]).arg(&Programs::for_tests().server).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{stream}: {text} {output:?}");
    }
}
