//! Hooks that are not what they seem: each is refused or known again, and nothing comes of it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{AccessFile, Sender, Site, eventually, hello, http, unix_now, with_token};
use ring::hmac;
use serde_json::json;
use tonic::transport::Channel;

const SIGNING: &[u8] = b"a signing key of thirty-two byte";
const SECRET: &str = "hook-secret";
const JSON: &str = "Content-Type: application/json\r\n";

/// The tokens are `agent`, `reader`, `ours` and `theirs`; the last two tell of the jobs of one project each.
fn access() -> AccessFile {
    AccessFile::default()
        .token("agent", &["agent"], "")
        .token("reader", &["reader"], "")
        .token("ours", &["hook"], "projects = [\"our/one\"]")
        .token("theirs", &["hook"], "projects = [\"their/one\"]")
}

/// A server with an attempt of `our/one`, whose end was not reported.
struct Hooked {
    site: Site,
    channel: Channel,
}

const JOB: u64 = 7;

impl Hooked {
    async fn start(secrets: bool) -> Self {
        let (access, signing) = (access(), format!("whsec_{}", BASE64_STANDARD.encode(SIGNING)));
        let files = [
            ("--access-file", access.text()),
            ("--collect-token-file", SECRET),
            ("--collect-signing-file", &signing),
        ];
        let site = Site::start_with(files.get(..if secrets { 3 } else { 1 }).unwrap(), &[]).unwrap();
        let channel = site.connect().await.unwrap();
        let mut stream = Sender::open_as(channel.clone(), "agent").await.unwrap();
        let attempt = format!("gitlab.example:{JOB}");
        let opening = hello(&attempt, "zlib");
        let key = pb::Key { project: "our/one".into(), ..opening.key.clone().unwrap() };
        let opening = pb::Hello { key: Some(key), ..opening };
        stream.build(opening, 3, None).await.unwrap();
        Self { site, channel }
    }

    fn post(&self, headers: &str, body: &str) -> (u16, String) {
        let answer = self.site.server.send("POST", "/v1/collect", headers, body).unwrap();
        (answer.status, answer.text())
    }

    async fn cause(&self) -> pb::Cause {
        self.shown().await.cause()
    }

    async fn shown(&self) -> pb::Summary {
        let asked = pb::GetAttemptRequest { attempt: format!("gitlab.example:{JOB}"), ..Default::default() };
        let mut stats = StatsClient::new(self.channel.clone());
        let answer = stats.get_attempt(with_token("reader", asked)).await.unwrap();
        answer.into_inner().summary.unwrap()
    }

    fn hooks(&self, kind: &str) -> u32 {
        let text = self.site.server.send("GET", "/metrics", &http::bearer("reader"), "").unwrap().body;
        let line = format!("plimsoll_hooks_total{{kind=\"{kind}\"}} ");
        text.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
    }

    /// The right hook comes after all, and counts.
    async fn is_reported(&self, headers: &str, body: &str) {
        assert_eq!(self.post(headers, body).0, 200);
        let cause = async || self.cause().await;
        eventually("the job is known to have been canceled", cause, |now| *now == pb::Cause::Canceled).await;
    }
}

fn canceled(job: u64, project: &str) -> String {
    json!({
        "object_kind": "build", "build_id": job, "build_name": "build", "build_status": "canceled", "pipeline_id": 1,
        "project": {"web_url": format!("https://gitlab.example/{project}"), "path_with_namespace": project},
    })
    .to_string()
}

/// Headers with this secret, of a body that was signed so many seconds ago.
fn signed(secret: &str, key: &[u8], body: &str, ago: u64) -> String {
    let time = unix_now() - ago;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, format!("one.{time}.{body}").as_bytes()));
    format!(
        "{JSON}X-Gitlab-Token: {secret}\r\nwebhook-id: one\r\nwebhook-timestamp: {time}\r\nwebhook-signature: v1,{signature}\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_old_and_invalid_hooks_are_refused() {
    let site = Hooked::start(true).await;
    let before = site.cause().await;
    assert_ne!(before, pb::Cause::Canceled);
    let body = canceled(JOB, "our/one");
    let (deep, huge) = ("[".repeat(100_000), format!("{}{}", " ".repeat(2 << 20), body));
    let (body, deep, huge) = (body.as_str(), deep.as_str(), huge.as_str());
    let right = |body: &str| signed(SECRET, SIGNING, body, 0);
    let cases: Vec<(&str, String, &str, u16)> = vec![
        ("nothing proves it", JSON.to_owned(), body, 401),
        ("a wrong secret", signed("hook-secret!", SIGNING, body, 0), body, 401),
        ("no secret", signed("", SIGNING, body, 0), body, 401),
        ("its beginning", signed("hook-secre", SIGNING, body, 0), body, 401),
        (
            "a token of a caller",
            format!("{JSON}X-Gitlab-Token: {SECRET}\r\nAuthorization: Bearer agent\r\n"),
            body,
            401,
        ),
        ("the secret without a signature", format!("{JSON}X-Gitlab-Token: {SECRET}\r\n"), body, 401),
        ("another key", signed(SECRET, b"another key of thirty-two bytes!", body, 0), body, 401),
        ("signed for another body", right(&canceled(8, "our/one")), body, 401),
        ("copied ten minutes ago", signed(SECRET, SIGNING, body, 600), body, 401),
        ("a form", right(body).replace("application/json", "application/x-www-form-urlencoded"), body, 415),
        ("a text", right(body).replace("application/json", "text/plain; a=application/json"), body, 415),
        ("no type, as a page can send it", right(body).replace("Content-Type", "X-Type"), body, 415),
        ("deep", right(deep), deep, 400),
        ("huge", right(huge), huge, 413),
        ("no object", right("7"), "7", 400),
    ];
    for (what, headers, body, status) in &cases {
        let (code, answer) = site.post(headers, body);
        assert_eq!(code, *status, "{what}: {answer}");
        assert!(!answer.contains(SECRET), "{what}: {answer}");
    }
    assert_eq!(site.hooks("refused"), u32::try_from(cases.len()).unwrap());
    for page in ["Sec-Fetch-Site: cross-site\r\n", "Origin: https://evil.example\r\n", "Origin: null\r\n"] {
        assert_eq!(site.post(&(right(body) + page), body).0, 403, "{page}");
    }
    assert_eq!(site.cause().await, before);

    site.is_reported(&right(body), body).await;
    assert_eq!(site.post(&right(body), body).0, 200, "the same again");
    assert_eq!(site.hooks("repeated"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_tokens_are_limited_to_their_project() {
    let site = Hooked::start(false).await;
    let before = site.cause().await;
    let bearer = |token: &str| format!("{JSON}Authorization: Bearer {token}\r\n");
    for (token, project, status) in [
        ("reader", "our/one", 403),
        ("agent", "our/one", 403),
        // ignored, and no error: GitLab switches a hook off that fails four times
        ("theirs", "our/one", 200),
        ("theirs", "", 200),
        ("made-up", "our/one", 401),
    ] {
        let (code, answer) = site.post(&bearer(token), &canceled(JOB, project));
        assert_eq!(code, status, "{token} of {project:?}: {answer}");
        assert_eq!(answer.contains("{\"ignored\":"), code == 200, "{token} of {project:?}: {answer}");
    }
    // as GitLab sends the secret of a project's hook: what it tells of others gets one answer, whether they are known or not
    let secret = |secret: &str| format!("{JSON}X-Gitlab-Token: {secret}\r\n");
    let ignored = |job, project: &str| {
        let (code, answer) = site.post(&secret("theirs"), &canceled(job, project));
        assert!(code == 200 && answer.contains("{\"ignored\":"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let answer = ignored(JOB, "our/one");
    for (job, project) in [(9, "our/one"), (9, "no/such"), (9, "")] {
        assert_eq!(ignored(job, project), answer, "{job} of {project:?}");
    }
    assert_eq!(site.post(&secret("made-up"), &canceled(JOB, "our/one")).0, 401);
    assert_eq!(site.post(&secret("reader"), &canceled(JOB, "our/one")).0, 403);
    // the job is measured, and another's: taken as any other of its own project, and nothing comes of it
    let (code, answer) = site.post(&bearer("theirs"), &canceled(JOB, "their/one"));
    assert!(code == 200 && !answer.contains("ignored"), "{answer}");
    let both = format!("{}Authorization: Bearer theirs\r\n", secret("ours"));
    let (code, answer) = site.post(&both, &canceled(JOB, "our/one"));
    assert!(code == 200 && answer.contains("ignored"), "the usual header counts first: {answer}");
    assert_eq!(site.hooks("foreign"), 7);
    let log = site.site.server.log().unwrap();
    assert!(log.contains("a caller reported on a project that it has no grant for"), "{log}");
    assert_eq!(site.cause().await, before);
    assert_eq!(site.post(&bearer("theirs"), &canceled(8, "their/one")).0, 200, "its own");
    assert_eq!(site.post(&secret("theirs"), &canceled(10, "their/one")).0, 200, "its own");
    site.is_reported(&secret("ours"), &canceled(JOB, "our/one")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_hook_only_logs_the_command() {
    let site = Hooked::start(false).await;
    let moved = r#"{"event_name": "group_rename", "old_full_path": "our", "full_path": "new"}"#;
    let headers = format!("{JSON}X-Gitlab-Token: theirs\r\nX-Gitlab-Event: System Hook\r\n");
    assert_eq!(site.post(&headers, moved).0, 200);
    let log = site.site.server.log().unwrap();
    assert!(log.contains("plimsoll-server projects rename our new"), "{log}");
    assert_eq!(site.shown().await.key.unwrap().project, "our/one");
}
