//! Every odd shape of GitLab's job hook, on a real server: each gets 200, because GitLab turns a hook off that fails, and each is counted
//! once by what became of it.

use std::collections::BTreeMap;

use plimsoll_tests::{Server, eventually};
use serde_json::{Value, json};

use crate::gantry::{post_event, post_hook};

/// A whole job hook, with all that GitLab 18 sends.
fn whole(job: u64) -> Value {
    json!({
        "object_kind": "build", "ref": "pr1234_branch", "tag": false,
        "before_sha": "0000000000000000000000000000000000000000", "sha": "95d49d1efbd941908580e79d65e4b5ecaf4a8305",
        "retries_count": 1, "build_id": job, "build_name": "curl@8.15.0 /abcdefghijklmnopqrstuvwxyz234567 E4S",
        "build_stage": "stage-3", "build_status": "failed",
        "build_created_at": "2026-02-23 02:41:37 UTC", "build_started_at": "2026-02-23 02:42:00 UTC",
        "build_finished_at": "2026-02-23 02:51:00 UTC", "build_created_at_iso": "2026-02-23T02:41:37Z",
        "build_started_at_iso": "2026-02-23T02:42:00Z", "build_finished_at_iso": "2026-02-23T02:51:00Z",
        "build_duration": 540.75, "build_queued_duration": 23.1, "build_allow_failure": false,
        "build_failure_reason": "script_failure", "pipeline_id": 2366,
        "runner": {
            "active": true, "runner_type": "project_type", "is_shared": false, "id": 380_987, "description": "uo-1",
            "tags": ["linux", "x86_64_v3"],
        },
        "project_id": 380, "project_name": "spack / spack-packages",
        "user": {"id": 3, "name": "Bot", "username": "bot", "avatar_url": null, "email": "[REDACTED]"},
        "commit": {
            "id": 2366, "name": null, "sha": "95d49d1efbd941908580e79d65e4b5ecaf4a8305", "message": "curl: new version\n",
            "author_name": "User", "author_email": "user@gitlab.example", "status": "failed", "duration": null,
            "started_at": "2026-02-23 02:40:00 UTC", "finished_at": null,
        },
        "repository": {
            "name": "spack-packages", "description": "", "homepage": "https://gitlab.example/spack/spack-packages",
            "visibility_level": 20,
        },
        "project": {
            "id": 380, "name": "spack-packages", "web_url": "https://gitlab.example/spack/spack-packages",
            "namespace": "spack", "path_with_namespace": "spack/spack-packages", "default_branch": "develop",
        },
        "environment": null, "source_pipeline": {"project": {"id": 380}, "pipeline_id": 2365, "job_id": 41},
    })
}

/// Sends hooks, and holds what became of them against what should.
struct Teller {
    server: Server,
    jobs: u64,
    expected: BTreeMap<&'static str, usize>,
}

impl Teller {
    /// A hook of a new job with this change to it, which becomes of this kind.
    fn says(&mut self, kind: &'static str, change: impl FnOnce(&mut Value)) {
        self.jobs += 1;
        let mut body = whole(self.jobs);
        change(&mut body);
        self.sends(kind, "", &body.to_string());
    }

    fn sends(&mut self, kind: &'static str, headers: &str, body: &str) {
        let (status, answer) = post_hook(&self.server, headers, body);
        assert_eq!(status, 200, "{body}: {answer}");
        assert_eq!(answer.contains("error"), kind == "odd", "{body}: {answer}");
        *self.expected.entry(kind).or_default() += 1;
    }

    async fn is_right(&self) {
        let metrics = async || self.server.get("/metrics").unwrap().1;
        for (kind, number) in &self.expected {
            let line = format!("plimsoll_hooks_total{{kind=\"{kind}\"}} {number}\n");
            eventually(&line, metrics, |text| text.contains(&line)).await;
        }
        let text = metrics().await;
        let of = |line: &&str| line.starts_with("plimsoll_hooks_total{");
        let counts = text.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap());
        let all: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
        assert_eq!(all, self.expected.values().sum::<usize>(), "nothing else became of any: {text}");
    }
}

fn teller() -> (tempfile::TempDir, Teller) {
    let (dir, server) = Server::fresh(&[]).unwrap();
    (dir, Teller { server, jobs: 0, expected: BTreeMap::new() })
}

/// Fields without which a hook does not say which job ended, and how.
const NEEDED: [&str; 3] = ["object_kind", "build_id", "build_status"];

#[tokio::test(flavor = "multi_thread")]
async fn every_hook_shape_is_counted_once() {
    let (_dir, mut teller) = teller();
    let names: Vec<String> = whole(0).as_object().unwrap().keys().cloned().collect();
    // each field missing, and each of them null
    for name in names.iter().filter(|name| !NEEDED.contains(&name.as_str())) {
        teller.says("remembered", |body| drop(body.as_object_mut().unwrap().remove(name)));
        teller.says("remembered", |body| body[name] = Value::Null);
    }
    for name in NEEDED {
        teller.says("odd", |body| drop(body.as_object_mut().unwrap().remove(name)));
        teller.says("odd", |body| body[name] = Value::Null);
    }
    let iso = |body: &mut Value| {
        for name in ["build_created_at", "build_started_at", "build_finished_at"] {
            body[name] = json!("2026-02-23T02:41:37.886Z");
        }
    };
    teller.says("remembered", iso);
    // it ended before it began
    teller.says("remembered", |body| body["build_finished_at"] = json!("2020-02-23 02:41:37 UTC"));
    teller.says("remembered", |body| body["build_started_at"] = json!(5));
    for reason in ["unknown_failure", "of_2030", "", "job_execution_timeout"] {
        teller.says("remembered", |body| body["build_failure_reason"] = json!(reason));
    }
    for status in ["success", "canceled"] {
        teller.says("remembered", |body| body["build_status"] = json!(status));
    }
    for status in ["created", "pending", "running", "skipped", "manual", "of_2030"] {
        teller.says("other", |body| body["build_status"] = json!(status));
    }
    // of a project that is deleted meanwhile
    let deleted = |body: &mut Value| {
        for name in ["project", "project_id", "project_name", "repository", "user", "runner", "commit"] {
            body[name] = Value::Null;
        }
    };
    teller.says("remembered", deleted);
    for (name, odd) in [
        ("build_id", json!("7")),
        ("build_id", json!(-1)),
        ("build_id", json!(0)),
        ("build_status", json!(7)),
        ("build_failure_reason", json!([])),
        ("build_failure_reason", json!("x".repeat(300))),
    ] {
        teller.says("odd", |body| body[name] = odd);
    }
    teller.says("other", |body| body["object_kind"] = json!("pipeline"));
    teller.says("remembered", |body| body["commit"]["message"] = json!("x".repeat(500_000)));
    teller.says("remembered", |body| body["build_name"] = json!("\u{1f4a3}".repeat(10_000)));
    teller.is_right().await;
}

/// A pipeline of so many jobs, as GitLab sends it.
fn pipeline(jobs: u64) -> String {
    let builds: Vec<Value> = (0..jobs)
        .map(|id| {
            json!({
                "id": id, "stage": "stage-3", "name": format!("package-{id}@8.15.0 /abcdefghijklmnopqrstuvwxyz234567 E4S"),
                "status": "created", "created_at": "2026-02-23 02:41:37 UTC", "started_at": null, "finished_at": null,
                "duration": null, "queued_duration": null, "failure_reason": null, "when": "on_success", "manual": false,
                "allow_failure": false,
                "user": {"id": 3, "name": "Bot", "username": "bot", "avatar_url": null, "email": "[REDACTED]"},
                "runner": {"id": 380_987, "description": "uo-1", "runner_type": "group_type", "active": true, "is_shared": false},
                "artifacts_file": {"filename": null, "size": null}, "environment": null,
            })
        })
        .collect();
    json!({"object_kind": "pipeline", "object_attributes": {"id": 2366}, "builds": builds}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn non_job_hooks_get_200_and_are_counted() {
    let (_dir, mut teller) = teller();
    let large = pipeline(3000);
    assert!(large.len() > 1_500_000, "{}", large.len());
    // larger than all that GitLab sends, and drained all the same
    let largest = format!("{{\"builds\": \"{}\"}}", "x".repeat(26 << 20));
    let member = r#"{"event_name":"user_add_to_group","group_id":100,"user_username":"bot"}"#;
    for (kind, name, body) in [
        ("member", "Member Hook", member),
        ("subgroup", "Subgroup Hook", r#"{"event_name":"subgroup_create","group_id":10}"#),
        ("project", "Project Hook", r#"{"event_name":"project_create","project_id":1}"#),
        ("system", "System Hook", r#"{"event_name":"user_create","user_id":41}"#),
        ("push", "System Hook", r#"{"object_kind":"push","event_name":"push"}"#),
        ("access_token", "Resource Access Token Hook", r#"{"object_kind":"access_token"}"#),
        ("pipeline", "Pipeline Hook", large.as_str()),
        ("pipeline", "Pipeline Hook", largest.as_str()),
        ("unknown", "Hook of 2030", "[]"),
        ("merge_request", "Merge Request Hook", "no JSON"),
    ] {
        assert_eq!(post_event(&teller.server, name, "", body), (200, "{}".to_owned()), "{kind}");
        *teller.expected.entry("other").or_default() += 1;
    }
    // a job's own hook that is too large says so, with 200
    let long = json!({"object_kind": "build", "commit": {"message": "x".repeat(2 << 20)}}).to_string();
    teller.sends("odd", "", &long);
    let body = whole(1).to_string();
    assert_eq!(post_event(&teller.server, "System Hook", "", &body).0, 200);
    *teller.expected.entry("remembered").or_default() += 1;
    teller.is_right().await;
    let (_, metrics) = teller.server.get("/metrics").unwrap();
    for (kind, number) in [("member", 1), ("pipeline", 2), ("system", 1), ("push", 1), ("unknown", 1)] {
        let line = format!("plimsoll_hooks_ignored_total{{kind=\"{kind}\"}} {number}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}
