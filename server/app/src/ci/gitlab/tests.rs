//! A GitLab that plays recorded answers, and all that may go wrong with one.

use std::{
    collections::{HashMap, VecDeque},
    sync::Mutex,
    time::Duration,
};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

mod durable;
mod project;
mod speaking;

use plimsoll_core::domain::{AttemptId, Cause, Outcome, Reporter, Summary, test_summary};
use plimsoll_store::{self as store, Store};

use super::{client::RequestFailure, hooks::HookResult, request_rate::PaceTerms, *};
use crate::{
    fake_http::FakeServer,
    ingest::{Worker, fixture},
    patience::eventually,
    runtime::{
        metrics::{KindLabel, Metrics},
        outgoing::KeptPart,
    },
};
use std::sync::Arc;

const TOKEN: &str = "glpat-secret";
/// As the runner of a job ends it whose container was killed.
const KILLED: &str = "make: Entering directory\ng++ -c big.cpp\n\
    ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'\n";

/// What GitLab says to one request.
#[derive(Debug, Clone)]
enum Say {
    /// Status, headers, body.
    Says(u16, &'static str, String),
    /// Half of an answer, and then nothing more.
    Cut,
    /// Nothing at all.
    Nothing,
}

fn ok(body: &str) -> Say {
    Say::Says(200, "", body.to_owned())
}

/// Answers by the path up to its query: in turn, the last one for ever. What is not there is 404.
type Script = HashMap<&'static str, VecDeque<Say>>;

struct Fake(FakeServer);

impl Fake {
    async fn start<const N: usize>(script: [(&'static str, Vec<Say>); N]) -> Self {
        let script: Script = script.map(|(path, says)| (path, says.into())).into();
        let script = Mutex::new(script);
        Self(FakeServer::start(move |head| respond(head, &script)).await)
    }

    /// The part of each request's target that is behind the address of the API.
    fn asked(&self) -> Vec<String> {
        self.0.heads().iter().map(|head| target(head).to_owned()).collect()
    }

    fn client(&self, metrics: &Arc<Metrics>) -> (GitlabClient, tempfile::NamedTempFile) {
        self.client_with(FAST, metrics)
    }

    fn client_with(
        &self,
        pace: PaceTerms,
        metrics: &Arc<Metrics>,
    ) -> (GitlabClient, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TOKEN).unwrap();
        let settings = Settings {
            url: Some(BaseUrl::parse(&self.0.url("")).unwrap()),
            token_file: Some(file.path().to_owned()),
            ca_file: None,
        };
        (GitlabClient::open(&settings, pace, Arc::clone(metrics)).unwrap().unwrap(), file)
    }
}

/// So that no test waits.
const FAST: PaceTerms = PaceTerms {
    spacing: Duration::ZERO,
    backoff: Duration::from_millis(1),
    answer_within: Duration::from_secs(30),
    patience: Duration::from_secs(90),
    pause: Duration::from_hours(1),
};

fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap().strip_prefix("/api/v4/").unwrap()
}

fn respond(head: &str, script: &Mutex<Script>) -> Option<String> {
    let path = target(head).split('?').next().unwrap();
    let is_ours = head.to_ascii_lowercase().contains(&format!("private-token: {TOKEN}"));
    let mut script = script.lock().unwrap();
    let next = script
        .get_mut(path)
        .and_then(|says| if says.len() > 1 { says.pop_front() } else { says.front().cloned() });
    let none = Say::Says(404, "", r#"{"message":"404 Not found"}"#.to_owned());
    match if is_ours { next.unwrap_or(none) } else { Say::Says(401, "", String::new()) } {
        Say::Says(status, headers, body) => Some(format!(
            "HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )),
        Say::Cut => Some("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf".to_owned()),
        Say::Nothing => None,
    }
}

fn count(metrics: &Metrics, kind: &'static str) -> u64 {
    metrics.gitlab_requests.get_or_create(&KindLabel::of(kind)).get()
}

#[tokio::test]
async fn transient_failures_are_retried_and_then_requests_pause() {
    let limited = Say::Says(429, "Retry-After: 0\r\nRateLimit-Remaining: 0\r\n", "later".to_owned());
    let failed = Say::Says(502, "", "<html>".to_owned());
    let fake = Fake::start([
        ("a", vec![limited, failed, Say::Cut, ok("at last")]),
        ("b", vec![Say::Nothing, ok("in time")]),
        ("c", vec![Say::Cut]),
    ])
    .await;
    let metrics = Arc::new(Metrics::new());
    let hasty = PaceTerms { answer_within: Duration::from_secs(3), ..FAST };
    let (client, _file) = fake.client_with(hasty, &metrics);
    assert_eq!(client.get("a", KeptPart::All(100)).await.unwrap().body, b"at last");
    assert_eq!(client.get("b", KeptPart::All(100)).await.unwrap().body, b"in time");
    assert_eq!(client.get("c", KeptPart::All(100)).await.unwrap_err(), RequestFailure::Away);
    let before = fake.asked().len();
    assert_eq!(client.get("a", KeptPart::All(100)).await.unwrap_err(), RequestFailure::Away);
    assert_eq!((before, fake.asked().len()), (10, 10), "left alone");
    let counted = ["limited", "failed", "slow", "ok", "no_turn"].map(|kind| count(&metrics, kind));
    assert_eq!((counted, count(&metrics, "cut")), ([1, 1, 1, 2, 1], 5));
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let elsewhere = Say::Says(302, "Location: http://127.0.0.1:1/\r\n", String::new());
    let fake = Fake::start([
        ("moved", vec![elsewhere]),
        ("forbidden", vec![Say::Says(403, "", "{}".to_owned())]),
        ("huge", vec![ok(&"x".repeat(200_000))]),
    ])
    .await;
    let metrics = Arc::new(Metrics::new());
    let (client, file) = fake.client(&metrics);
    let get = async |path, keep| client.get(path, keep).await.map(|answer| answer.body.len());
    assert_eq!(get("deleted", KeptPart::All(100)).await, Err(RequestFailure::Gone));
    assert_eq!(get("moved", KeptPart::All(100)).await, Err(RequestFailure::Refused));
    assert_eq!(get("forbidden", KeptPart::All(100)).await, Err(RequestFailure::Refused));
    assert_eq!(get("huge", KeptPart::All(1000)).await, Err(RequestFailure::TooLarge));
    assert!(get("huge", KeptPart::Excerpt(40_000)).await.unwrap() <= 40_000);
    assert_eq!(fake.asked().len(), 5);
    // a token that was replaced
    std::fs::write(file.path(), "old").unwrap();
    let settings = Settings {
        url: Some(BaseUrl::parse(&fake.0.url("")).unwrap()),
        token_file: Some(file.path().to_owned()),
        ca_file: None,
    };
    let client = GitlabClient::open(&settings, FAST, Arc::clone(&metrics)).unwrap().unwrap();
    assert_eq!(client.get("huge", KeptPart::Excerpt(1 << 20)).await.unwrap_err(), RequestFailure::Refused);
    std::fs::write(file.path(), TOKEN).unwrap();
    // an empty line, and all of it
    assert_eq!(client.get("huge", KeptPart::Excerpt(1 << 20)).await.unwrap().body.len(), 1 + 200_000);
    assert!(!format!("{client:?}").contains(TOKEN));
}

fn ended(job: u64, status: &str, name: &str) -> Box<EndedJob> {
    ended_at("127.0.0.1", job, status, name)
}

fn ended_at(host: &str, job: u64, status: &str, name: &str) -> Box<EndedJob> {
    let body = serde_json::json!({
        "object_kind": "build", "build_id": job, "build_name": name, "build_status": status, "build_stage": "stage-1",
        "build_failure_reason": "runner_system_failure", "pipeline_id": 3, "project_id": 2, "ref": "develop",
        "project": {"web_url": format!("http://{host}/a/b"), "path_with_namespace": "a/b"},
    });
    match read_hook(body.to_string().as_bytes(), None) {
        Ok(ParsedHook::Ended(mut ended)) => (ended.reported.by = Reporter::server(), ended).1,
        other => panic!("{other:?}"),
    }
}

struct House {
    ingest: crate::ingest::Ingest,
    store: Store,
    hooks: Hooks,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    working: JoinHandle<()>,
    following: JoinHandle<anyhow::Result<()>>,
    _file: tempfile::NamedTempFile,
}

impl House {
    async fn of(fake: &Fake) -> Self {
        Self::over(fake, Store::memory()).await
    }

    /// As a start does it, with the attempts and hooks that are in the store.
    async fn over(fake: &Fake, store: Store) -> Self {
        let (ingest, mut worker): (_, Worker) = fixture::ingest(&store, 10);
        worker.resume().await.unwrap();
        let found = StoredHook::read_all(&store).await.unwrap();
        // as in a server: what the writer does with a hook is counted in the same place
        let metrics = fixture::metrics(&ingest);
        let (client, file) = fake.client(&metrics);
        let (hooks, follower) = Hooks::new(
            (store.clone(), Arc::clone(&metrics)),
            ingest.clone(),
            fixture::verdicts(&ingest),
            Some(client),
            found,
        );
        let stop = CancellationToken::new();
        let working = TaskTracker::new().spawn(worker.run(stop.clone()));
        let following = TaskTracker::new().spawn(follower.run(stop.clone()));
        Self { ingest, store, hooks, metrics, stop, working, following, _file: file }
    }

    async fn until(&self, kind: &'static str, number: u64) {
        let now = async || self.metrics.hooks.get_or_create(&KindLabel::of(kind)).get();
        eventually(&format!("{number} hooks are {kind}"), now, |now| *now >= number).await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.following.await.unwrap().unwrap();
        self.working.await.unwrap();
    }
}

#[tokio::test]
async fn jobs_under_gitlabs_other_name_are_judged() {
    let fake = Fake::start([
        ("projects/a%2Fb", vec![ok(r#"{"web_url":"https://GitLab.example/a/b"}"#)]),
        ("projects/a%2Fb/jobs/1/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/jobs/2/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("[]")]),
    ])
    .await;
    let house = House::of(&fake).await;
    for job in [1, 2] {
        let hook = ended_at("gitlab.example", job, "failed", "x");
        assert_eq!(house.hooks.accept(hook, None).await, HookResult::Later);
        house.until("judged", job).await;
    }
    for job in [3, 4] {
        let foreign = ended_at("gitlab.elsewhere", job, "failed", "x");
        assert_eq!(house.hooks.accept(foreign, None).await, HookResult::Later);
        house.until("other_host", job - 2).await;
    }
    house.end().await;
    assert_eq!(fake.asked().len(), 6, "each name is looked up once: {:?}", fake.asked());
}

#[tokio::test]
async fn a_hook_suffices_without_usable_gitlab_answers() {
    let fake = Fake::start([
        ("projects/a%2Fb/jobs/2/trace", vec![ok("a\n")]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("<html>")]),
    ])
    .await;
    let house = House::of(&fake).await;
    // of a project that is gone; with a list that is none
    for job in [1, 2] {
        assert_eq!(house.hooks.accept(ended(job, "failed", "x"), None).await, HookResult::Later);
    }
    house.until("not_asked", 2).await;
    for id in ["127.0.0.1:1", "127.0.0.1:2"] {
        let verdicts = store::read_verdicts(&house.store, &AttemptId::parse(id).unwrap()).await.unwrap();
        assert_eq!(verdicts, []);
    }
    assert_eq!(house.hooks.accept(ended(3, "canceled", "x"), None).await, HookResult::Later);
    house.end().await;
    assert_eq!(fake.asked().len(), 3, "a canceled job needs no asking: {:?}", fake.asked());
}
