//! GitLab reports a failed job that was not measured, the server asks back, and the job's next pod gets more memory.

use std::net::{SocketAddr, TcpListener};

use plimsoll_tests::{Programs, Sender, Server, http::answer_each};
use serde_json::{Value, json};

use crate::admission::{memory_limit, pod, start_with};

/// Runs of the job, the first and the next ones.
const RUNS: [u64; 3] = [12345, 12346, 12347];
const NAME: &str = "curl@8.15.0 /abcdefg";

const LOG: &str = "g++ -c big.cpp\n\
    ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'\n";

/// A GitLab that knows failed runs of one job.
fn gitlab() -> SocketAddr {
    let answer = |head: &str| {
        let project = "/projects/spack%2Fspack-packages";
        let is_trace =
            |path: &str| RUNS.iter().any(|run| path.ends_with(&format!("{project}/jobs/{run}/trace")));
        let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
            _ if !head.contains("glpat-1") => (401, String::new()),
            path if is_trace(path) => (200, LOG.to_owned()),
            path if path.contains(&format!("{project}/pipelines/777/jobs?include_retried=true")) => {
                (200, json!([{"id": RUNS[0], "name": NAME, "status": "failed"}]).to_string())
            }
            _ => (404, String::new()),
        };
        (status, String::new(), body)
    };
    answer_each(answer).unwrap().0
}

fn post(server: &Server, body: &str) -> u16 {
    server.send("POST", "/v1/collect", "Content-Type: application/json\r\n", body).unwrap().status
}

/// A job that memory ended, as GitLab tells of it.
fn killed_run(address: SocketAddr, run: u64) -> String {
    let hook = json!({
        "object_kind": "build", "build_id": run, "build_name": NAME, "build_status": "failed",
        "build_failure_reason": "runner_system_failure", "pipeline_id": 777, "project_id": 5, "ref": "develop",
        "project": {"web_url": format!("http://{address}/x/y"), "path_with_namespace": "spack/spack-packages"},
    });
    hook.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_was_taken_outlives_a_kill_and_so_does_the_bigger_size_of_its_job() {
    // it takes connections and says nothing
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |address: SocketAddr| format!("http://{address}");
    let (silent, address) = (url(silent.local_addr().unwrap()), gitlab());
    let known = url(address);
    let options = |url| ["--admit-mode", "on", "--admit-confidence", "0.000001", "--gitlab-url", url];
    let webhook = start_with(&[("--gitlab-token-file", "glpat-1\n")], &options(&silent));
    let (first, _) = webhook.admit(&pod()).await;
    assert_eq!(post(&webhook.server, &killed_run(address, RUNS[0])), 200);
    let webhook = webhook.killed_and_started(&options(&known));
    webhook.server.wait_for_metric("plimsoll_hooks_total{kind=\"judged\"} 1").await;
    let webhook = webhook.killed_and_started(&options(&known));
    let (again, _) = webhook.admit(&pod()).await;
    assert!(memory_limit(&again) > memory_limit(&first), "{again}");
    let why = &again["metadata"]["annotations"]["plimsoll/sized"];
    assert!(matches!(why, Value::String(why) if why.contains("ran out of memory")), "{why}");
}

/// The pod of a run of the job, with the variables that GitLab gives every run.
fn pod_of(run: u64) -> Value {
    let mut pod = pod();
    for name in ["job.runner.gitlab.com/id", "gitlab/ci_job_id"] {
        pod["metadata"]["annotations"][name] = json!(run.to_string());
    }
    for variable in pod["spec"]["containers"][0]["env"].as_array_mut().unwrap() {
        if variable["name"] == "CI_JOB_ID" {
            variable["value"] = json!(run.to_string());
        }
    }
    // its host is that of the GitLab that is asked
    pod["spec"]["containers"][0]["env"]
        .as_array_mut()
        .unwrap()
        .retain(|named| named["name"] != "CI_SERVER_HOST");
    pod["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "4", "memory": "2G" }, "limits": { "memory": "4G" } });
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn each_further_run_of_an_unmeasured_job_is_bigger_and_stays_so_after_a_restart() {
    let address = gitlab();
    let url = format!("http://{address}");
    let options = ["--admit-mode", "on", "--gitlab-url", &url];
    let mut webhook = start_with(&[("--gitlab-token-file", "glpat-1\n")], &options);
    let (first, _) = webhook.admit(&pod_of(RUNS[0])).await;
    assert_eq!(first, pod_of(RUNS[0]), "nothing is known of it");
    let limit = |pod: &Value| pod["spec"]["containers"][0]["resources"]["limits"]["memory"].clone();
    for (at, (run, expected)) in RUNS[1..].iter().zip(["5723Mi", "8585Mi"]).enumerate() {
        // the writer has put the pod on disk before it answers this
        drop(Sender::opened(&webhook.server.url(), &format!("behind-{at}"), "other").await.unwrap());
        webhook = webhook.killed_and_started(&options);
        assert_eq!(post(&webhook.server, &killed_run(address, RUNS[at])), 200);
        webhook.server.wait_for_metric("plimsoll_hooks_total{kind=\"judged\"} 1").await;
        let (pod, _) = webhook.admit(&pod_of(*run)).await;
        assert_eq!(limit(&pod), expected, "{pod}");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "4");
        let (again, _) = webhook.admit(&pod_of(*run)).await;
        assert_eq!(limit(&again), expected, "the runner makes the same pod once more");
    }
    webhook = webhook.killed_and_started(&options);
    let (pod, _) = webhook.admit(&pod_of(RUNS[2])).await;
    assert_eq!(limit(&pod), "8585Mi", "the verdict is on disk: {pod}");
}

#[test]
fn a_token_without_an_address_or_a_file_that_is_not_there_is_a_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let try_start = |options: &[&str]| {
        let started = Server::start_with(Programs::for_tests(), &dir.path().join("data"), options);
        started.unwrap_err().to_string()
    };
    assert!(try_start(&["--gitlab-url", "https://gitlab.example"]).contains("gitlab_token_file"));
    let missing = ["--gitlab-url", "https://gitlab.example", "--gitlab-token-file", "/nowhere/token"];
    // without its name: the token may stand there
    let printed = try_start(&missing);
    assert!(
        printed.contains("gitlab_token_file: names no file") && !printed.contains("/nowhere"),
        "{printed}"
    );
    let wrong = ["--gitlab-url", "gitlab.example", "--gitlab-token-file", "/nowhere/token"];
    assert!(try_start(&wrong).contains("https://gitlab.example"));
}
