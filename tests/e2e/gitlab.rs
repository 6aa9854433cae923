//! GitLab reports a failed job that was not measured, the server asks back, and the job's next pod gets more memory.

use std::net::{SocketAddr, TcpListener};

use plimsoll_tests::{Server, http::answer_each};
use serde_json::{Value, json};

use crate::admission::{memory_limit, pod, start_with};

/// The run of the job that failed.
const RUN: u64 = 12345;
const NAME: &str = "curl@8.15.0 /abcdefg";

const LOG: &str = "g++ -c big.cpp\n\
    ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'\n";

/// A GitLab that knows the failed run of the job.
fn gitlab() -> SocketAddr {
    let answer = |head: &str| {
        let project = "/projects/spack%2Fspack-packages";
        let is_trace = |path: &str| path.ends_with(&format!("{project}/jobs/{RUN}/trace"));
        let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
            _ if !head.contains("glpat-1") => (401, String::new()),
            path if is_trace(path) => (200, LOG.to_owned()),
            path if path.contains(&format!("{project}/pipelines/777/jobs?include_retried=true")) => {
                (200, json!([{"id": RUN, "name": NAME, "status": "failed"}]).to_string())
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
fn killed_run(address: SocketAddr) -> String {
    let hook = json!({
        "object_kind": "build", "build_id": RUN, "build_name": NAME, "build_status": "failed",
        "build_failure_reason": "runner_system_failure", "pipeline_id": 777, "project_id": 5, "ref": "develop",
        "project": {"web_url": format!("http://{address}/x/y"), "path_with_namespace": "spack/spack-packages"},
    });
    hook.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_hook_and_its_size_survive_kills() {
    // it takes connections and says nothing
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |address: SocketAddr| format!("http://{address}");
    let (silent, address) = (url(silent.local_addr().unwrap()), gitlab());
    let known = url(address);
    let options = |url| ["--admit-mode", "on", "--admit-confidence", "0.000001", "--gitlab-url", url];
    let webhook = start_with(&[("--gitlab-token-file", "glpat-1\n")], &options(&silent));
    let (first, _) = webhook.admit(&pod()).await;
    assert_eq!(post(&webhook.server, &killed_run(address)), 200);
    let webhook = webhook.killed_and_started(&options(&known));
    webhook.server.wait_for_metric("plimsoll_hooks_total{kind=\"judged\"} 1").await;
    let webhook = webhook.killed_and_started(&options(&known));
    let (again, _) = webhook.admit(&pod()).await;
    assert!(memory_limit(&again) > memory_limit(&first), "{again}");
    let why = &again["metadata"]["annotations"]["plimsoll/sized"];
    assert!(matches!(why, Value::String(why) if why.contains("ran out of memory")), "{why}");
}
