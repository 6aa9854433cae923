//! What Prometheus saw of builds, joined with the jobs that GitLab lists: how they ended, and which job a pod ran that does not say it.
//!
//! Needs Debian's package `prometheus`, as `prometheus_import` does.

use std::{
    net::SocketAddr,
    sync::mpsc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use plimsoll_proto::times::rfc3339;
use plimsoll_tests::{assert_has, http::answer_each};
use serde_json::{Value, json};

use crate::{
    prometheus_import::{exported, import, prometheus},
    tools::has_prometheus,
};

#[expect(clippy::disallowed_methods, reason = "the import reads what came before now")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A job that ran between these minutes before `now`.
fn job(now: Duration, id: u64, name: &str, ran: (u64, u64), end: (&str, &str)) -> Value {
    let ago = |minutes: u64| {
        let then = now.saturating_sub(Duration::from_secs(minutes * 60));
        rfc3339(u64::try_from(then.as_millis()).unwrap())
    };
    json!({
        "id": id, "name": name, "stage": "build", "ref": "main", "status": end.0, "failure_reason": end.1,
        "created_at": ago(ran.0 + 1), "started_at": ago(ran.0), "finished_at": ago(ran.1),
        "pipeline": {"id": 9}, "commit": {"id": "c0"}, "user": {"username": "ann"},
    })
}

/// What GitLab says, and the query of the next page.
fn answer(now: Duration, path: &str) -> (u16, Value, Option<&'static str>) {
    let job = |id, name, ran, end| job(now, id, name, ran, end);
    let project = |path: &str| json!({"id": 1, "path_with_namespace": path, "forked_from_project": null});
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    match place.trim_start_matches("/api/v4/") {
        "projects/1" => (200, project("group/one"), None),
        "projects/3" => (200, project("group/three"), None),
        "projects/1/jobs" => {
            let timeout = job(101, "compile", (202, 99), ("failed", "job_execution_timeout"));
            let killed = job(102, "compile", (96, 79), ("failed", "script_failure"));
            let retried = job(103, "compile", (71, 49), ("success", ""));
            (200, json!([retried, killed, timeout]), None)
        }
        // newest first, on two pages; the older one is of a fork's merge request
        "projects/3/jobs" if query.contains("cursor=b") => {
            let mut built = job(301, "link", (62, 38), ("success", ""));
            built["ref"] = json!("refs/merge-requests/5/head");
            (200, json!([built, job(300, "old", (3000, 2990), ("success", ""))]), Some("cursor=c"))
        }
        "projects/3/jobs" => (200, json!([job(302, "later", (30, 20), ("success", ""))]), Some("cursor=b")),
        "projects/3/merge_requests/5" => (200, json!({"iid": 5, "source_project_id": 77}), None),
        _ => (404, json!({"message": "404 Not Found"}), None),
    }
}

/// A GitLab with these jobs; it says what it was asked.
fn gitlab(now: Duration) -> (SocketAddr, mpsc::Receiver<String>) {
    let answer = move |head: &str| {
        let is_known = head.starts_with("GET ") && head.contains("glpat-1");
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body, next) = if is_known { answer(now, path) } else { (401, Value::Null, None) };
        // as a GitLab behind a proxy writes it: with another host
        let link = next.map_or_else(String::new, |query| {
            format!("Link: <https://inner.example/api/v4/x?{query}>; rel=\"next\", <https://x/y>; rel=\"first\"\r\n")
        });
        (status, link, body.to_string())
    };
    answer_each(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gitlab_says_how_the_builds_ended_and_which_job_a_pod_without_annotations_ran() {
    if !has_prometheus() {
        return;
    }
    let began = now();
    let (_prometheus, url) = prometheus().await;
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "glpat-1\n").unwrap();
    let token = token.display().to_string();
    let (address, requests) = gitlab(began);
    let run = |gitlab: &str| {
        let of_prometheus = ["--prometheus", &url, "--since", "6h", "--prometheus-selector", "cluster=\"a\""];
        let of_gitlab = ["--gitlab-url", gitlab, "--gitlab-token-file", &token, "--host", "gitlab.example"];
        import(dir.path(), &[&of_prometheus[..], &of_gitlab].concat())
    };
    let (code, printed, wrong) = run(&format!("http://{address}"));
    assert_eq!(code, 0, "{printed}{wrong}");
    let lines = [
        "job known               6  100.0 %",
        "of them                 1  found by time among GitLab's jobs",
        "5 attempts added, 0 already there",
    ];
    assert_has(&printed, lines);
    assert!(wrong.contains("does not show the jobs of 1 project (number 2): the token needs"), "{wrong}");
    let all = exported(dir.path());
    let end = |id: u64| {
        let attempt = &all[&format!("gitlab.example:{id}")];
        (attempt["outcome"].as_str().unwrap(), attempt["cause"].as_str().unwrap_or_default())
    };
    assert_eq!(end(101), ("failed", "timeout"));
    assert_eq!(end(102), ("failed", "oom"));
    assert_eq!((end(103), end(201)), (("succeeded", ""), ("succeeded", "")));
    let found = &all["gitlab.example:301"];
    assert_eq!((&found["key"]["package"], &found["key"]["project"]), (&"link".into(), &"group/three".into()));
    assert_eq!(found["opening"]["untrusted"], true, "a fork's merge request");
    let asked: Vec<String> = requests.try_iter().collect();
    assert!(!asked.iter().any(|path| path.contains("cursor=c")), "no page of before the range: {asked:?}");

    // away, or with a wrong token: nothing is stored
    let (code, _, wrong) = run("http://127.0.0.1:1");
    assert!(code == 1 && wrong.contains("http://127.0.0.1:1: does not answer"), "{wrong}");
}
