//! Verdicts: recorded failures are judged without a server; the same failure ends it, also after a restart; a question that cannot be answered says why.

use std::{io::Write as _, process::Stdio};

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Programs, Sender, Server, hello};
use tonic::{Code, Status};

/// Runs `plimsoll-server classify` over these lines; code, lines of the answer, complaints.
fn classify(lines: &str, options: &[&str]) -> (Option<i32>, Vec<serde_json::Value>, String) {
    let mut command = Server::program();
    command.args(["classify", "-", "-o", "json"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code(), answers, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn recorded_failures_are_judged_without_a_server() {
    let lines = r#"{"id":"killed","exit":2,"signal":0,"oom_kill":1,"mem_limit":99733504,"peak_rss":96591872,"wall_s":3.2,"log_tail":["g++: fatal error: Killed signal terminated program cc1plus"]}
{"id":"words","exit":1,"oom_kill":0,"log_tail":"test handles_out_of_memory ... Killed"}
{"id":"late","exit":137,"signal":9,"oom_kill":0,"wall_s":60.1,"timeout_s":60,"log_tail":[]}
{"id":"fine","exit":0,"log_tail":["error: 0 warnings"]}
{"id":"broken","exit":2,"failure_reason":"script_failure","log_tail":["x.c:3:1: error: expected ';'"]}
"#;
    let (code, answers, complaints) = classify(lines, &[]);
    assert_eq!(code, Some(0), "{complaints}");
    let rows: Vec<[&str; 3]> =
        answers.iter().map(|a| ["id", "cause", "verdict"].map(|name| a[name].as_str().unwrap())).collect();
    assert_eq!(
        rows,
        [
            ["killed", "oom", "bigger"],
            ["words", "unknown", "as_is"],
            ["late", "timeout", "longer"],
            ["fine", "none", "no"],
            ["broken", "deterministic", "no"],
        ]
    );
    assert_eq!(answers[0]["evidence"][0]["source"], "kernel");
    let (_, answers, _) = classify(lines, &["--log-only"]);
    assert_eq!((&answers[0]["cause"], &answers[0]["verdict"]), (&"oom".into(), &"as_is".into()));
    assert_eq!(answers[2]["cause"], "infra", "a kill alone does not say why");
}

/// The opening of an attempt of a package at a commit.
#[test]
fn retry_budget_and_cost_need_no_server() {
    let killed = "{\"id\":\"k\",\"exit\":2,\"oom_kill\":1,\"mem_limit\":104857600,\"peak_rss\":99614720,\"wall_s\":60}\n";
    let refused =
        "{\"failure_reason\":\"api_failure\",\"mem_limit\":104857600,\"peak_rss\":9961472,\"wall_s\":60}\n";
    let (code, answers, complaints) = classify(&format!("{killed}{{\"exit\":127}}\n{refused}"), &[]);
    assert_eq!(code, Some(0), "{complaints}");
    assert_eq!(answers[0]["attempts_left"], 2);
    let next = &answers[0]["next"];
    assert!(next["memory_limit_bytes"].as_u64().unwrap() > 104_857_600, "{next}");
    assert!(answers[0]["cost"]["memory_gib_h"].as_f64().unwrap() > 0.0, "{}", answers[0]);
    assert!(answers[1]["next"].is_null() && answers[1]["cost"].is_null(), "{}", answers[1]);
    assert!(answers[2]["wait_ms"].as_u64().unwrap() > 0, "{}", answers[2]);
    assert!(answers[2]["waiting_saves_gib_h"].as_f64().unwrap() > 0.0, "{}", answers[2]);
}

fn opening(attempt: &str, project: &str) -> pb::Hello {
    let mut key = pb::Key { package: "zlib".into(), project: project.into(), ..pb::Key::default() };
    key.labels.insert("commit".into(), "c0ffee".into());
    pb::Hello { key: Some(key), ..hello(attempt, "zlib") }
}

/// A failed attempt without a log, of a package at a commit.
async fn failed(server: &Server, attempt: &str, project: &str) {
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.build(opening(attempt, project), 1, Some(1)).await.unwrap();
}

async fn ask(server: &Server, attempt: &str, log: &str) -> Result<pb::Verdict, Status> {
    let (attempt, log_tail) = (attempt.to_owned(), log.as_bytes().to_vec());
    server.judge(pb::ShouldRetryRequest { attempt, log_tail, ..Default::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_failure_at_one_commit_stops_retries() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    for attempt in ["1", "2"] {
        failed(&server, attempt, "").await;
    }
    let first = ask(&server, "1", "/builds/a/x: fatal: the moon is full (pid 12)").await.unwrap();
    assert_eq!((first.cause(), first.action()), (pb::Cause::Unknown, pb::Action::AsIs), "{first:?}");
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let again = ask(&server, "2", "/builds/b/x: fatal: the moon is full (pid 99)").await.unwrap();
    assert_eq!(again.action(), pb::Action::No, "{again:?}");
    let (first, again) = (first.outlook.unwrap(), again.outlook.unwrap());
    assert_eq!((first.signature, first.seen, again.seen), (again.signature, 0, 1));
    assert_eq!(again.signature_line, "x: fatal: the moon is full (pid 0)");
    assert_eq!(again.failure_line, "/builds/b/x: fatal: the moon is full (pid 99)", "as it was");
    assert!(first.cost_memory_gib_hours > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_cannot_be_answered_says_why() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let _stream = Sender::opened(&server.url(), "running", "zlib").await.unwrap();
    failed(&server, "theirs", "a").await;
    let running = ask(&server, "running", "").await.unwrap_err();
    assert_eq!(running.code(), Code::FailedPrecondition, "{running}");
    let unknown = ask(&server, "unknown", "").await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument, "{unknown}");
    let key = Some(pb::Key { package: "zlib".into(), project: "b".into(), ..pb::Key::default() });
    let foreign = pb::ShouldRetryRequest { attempt: "theirs".into(), key, ..Default::default() };
    let foreign = server.judge(foreign).await.unwrap_err();
    assert_eq!(foreign.code(), Code::InvalidArgument, "{foreign}");
    assert!(foreign.message().contains("another project"), "{foreign}");
}
