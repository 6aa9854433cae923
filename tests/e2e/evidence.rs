//! Evidence adds up: a question about an attempt starts from all that is known of it, one that says less takes nothing away, and the
//! cause that a verdict found is the cause of the attempt wherever it is shown, also after a restart.

use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{Agent, Programs, Sender, Server};

async fn ask(server: &Server, question: pb::ShouldRetryRequest) -> pb::Verdict {
    server.judge(question).await.unwrap()
}

fn about(attempt: &str) -> pb::ShouldRetryRequest {
    pb::ShouldRetryRequest { attempt: attempt.into(), ..pb::ShouldRetryRequest::default() }
}

fn with_log(attempt: &str, log: &str) -> pb::ShouldRetryRequest {
    pb::ShouldRetryRequest { log_tail: log.as_bytes().to_vec(), ..about(attempt) }
}

/// An attempt that failed with exit code 1, and of which the kernel says nothing.
async fn failed(server: &Server, attempt: &str) {
    Sender::delivered(&server.url(), (attempt, "zlib"), 1, Some(1)).await.unwrap();
}

/// How many attempts the statistics count with each cause.
async fn causes(server: &Server) -> Vec<(pb::Cause, u64)> {
    let mut client = StatsClient::connect(server.url()).await.unwrap();
    let stats = client.get_stats(pb::GetStatsRequest::default()).await.unwrap().into_inner();
    stats.totals.unwrap().causes.iter().map(|one| (one.cause(), one.count)).collect()
}

async fn shown(server: &Server, attempt: &str) -> (pb::Cause, String, pb::GetAttemptResponse) {
    let shown = server.shown(attempt).await.unwrap();
    let summary = shown.summary.clone().unwrap();
    (summary.cause(), summary.cause_source, shown)
}

const BROKEN: &str = "x.c:3:1: error: expected ';' before 'return'\nmake: *** [x] Error 1\n";

/// What a user sees of the attempt `dup1` everywhere.
async fn is_deterministic_everywhere(server: &Server, agent: &Agent) {
    let again = agent.call(&["should-retry", "--attempt", "dup1"]);
    assert_eq!(again.code, Some(10), "{again:?}");
    assert!(again.stdout.starts_with("Do not retry: the build itself fails"), "{again:?}");
    let shown = agent.json(&["show", "dup1"]);
    let summary = &shown["summary"];
    assert_eq!(summary["cause"], "deterministic");
    assert_eq!(summary["cause_source"], "log");
    assert_eq!(shown["verdict"]["cause"], "deterministic");
    let listed = agent.json(&["attempts", "--cause", "deterministic"]);
    assert_eq!(listed["attempts"].as_array().unwrap().len(), 1, "{listed}");
    let none = agent.json(&["attempts", "--cause", "unknown"]);
    assert_eq!(none["attempts"].as_array().unwrap().len(), 0, "{none}");
    assert_eq!(causes(server).await, [(pb::Cause::Deterministic, 1)]);
    let (_, page) = server.get("/attempts/dup1").unwrap();
    assert!(page.contains("cause from the log"), "{page}");
    let (_, api) = server.get("/api/attempts?range=all&cause=DETERMINISTIC").unwrap();
    assert!(api.contains("dup1"), "{api}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_explained_by_its_log_stays_explained() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let (work, script) =
        plimsoll_support::temporary::file_with("fail.sh", "echo 'FAIL: test_math'\nexit 1\n");
    let agent = Agent::new(Programs::for_tests(), server.url(), work.path());
    let options = "--attempt dup1 --phases gitlab --key package=dup --exit-code-for no=90";
    let ran = agent.run(options, &format!("exec bash {}", script.display()));
    assert_eq!(ran.code, Some(90), "{ran:?}");
    is_deterministic_everywhere(&server, &agent).await;
    server
        .wait_for_metric("plimsoll_fleet_attempts_total{outcome=\"failed\",cause=\"deterministic\"} 1")
        .await;
    server.stop().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let agent = Agent::new(Programs::for_tests(), server.url(), work.path());
    is_deterministic_everywhere(&server, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_of_one_caller_counts_for_all() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    failed(&server, "a").await;
    let unknown = ask(&server, about("a")).await;
    assert_eq!(unknown.cause(), pb::Cause::Unknown);
    assert_eq!(ask(&server, about("a")).await, unknown, "nothing new is known");
    let log = ask(&server, with_log("a", BROKEN)).await;
    assert_eq!((log.cause(), log.cause_source.as_str()), (pb::Cause::Deterministic, "log"));
    assert_eq!(ask(&server, about("a")).await, log, "the same question gets the answer of now");
    assert_eq!(causes(&server).await, [(pb::Cause::Deterministic, 1)]);
    let ci = pb::ShouldRetryRequest { failure_reason: "job_execution_timeout".into(), ..about("a") };
    let ci = ask(&server, ci).await;
    assert_eq!((ci.cause(), ci.cause_source.as_str()), (pb::Cause::Timeout, "ci"));
    assert!(ci.evidence.iter().any(|line| line.source == "log"), "{ci:?}");
    assert_eq!(causes(&server).await, [(pb::Cause::Timeout, 1)], "counted once, with the cause of now");
    assert_eq!(ask(&server, with_log("a", BROKEN)).await, ci, "a question with less evidence undoes nothing");
    let pod = pb::ShouldRetryRequest { container_reason: "OOMKilled".into(), ..about("a") };
    assert_eq!(ask(&server, pod).await.cause(), pb::Cause::Oom);
    let (cause, source, answer) = shown(&server, "a").await;
    assert_eq!((cause, source.as_str()), (pb::Cause::Oom, "container"));
    let before: Vec<pb::Cause> = answer.earlier_verdicts.iter().map(pb::Verdict::cause).collect();
    assert_eq!(before, [pb::Cause::Timeout, pb::Cause::Deterministic, pb::Cause::Unknown], "newest first");
    assert_eq!(causes(&server).await, [(pb::Cause::Oom, 1)]);
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    assert_eq!(causes(&server).await, [(pb::Cause::Oom, 1)], "also after a kill");
    assert_eq!(Some(ask(&server, about("a")).await), answer.verdict);
    let pod = pb::ShouldRetryRequest { pod_reason: "NodeLost".into(), exit: None, ..about("a") };
    let still = ask(&server, pb::ShouldRetryRequest { container_reason: "Error".into(), ..pod }).await;
    assert_eq!(still.cause(), pb::Cause::Oom);
    let (_, metrics) = server.get("/metrics").unwrap();
    let is_counted = metrics.contains("plimsoll_fleet_cause_changes_total{");
    assert!(!is_counted, "it ended before this start: {metrics}");
}
