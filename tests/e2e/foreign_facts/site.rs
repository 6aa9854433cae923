//! A server that authenticates callers, with projects of three groups: `a/*` attacks, `b/*` is attacked, `t/*` is left alone.

use std::net::SocketAddr;

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
pub(super) use plimsoll_tests::with_token as with;
use plimsoll_tests::{AccessFile, Issuer, Sender, Server, batch, eventually, finish, hello, http::request};
use serde_json::json;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use super::tokens::GRANTS;
use crate::admission::{self, Webhook};

/// Where the jobs are that hooks tell of.
pub(super) const HOST: &str = "127.0.0.1";

/// A static token is `GROUP-ROLE`; `all-reader` sees every project.
fn access(issuer: &Issuer) -> AccessFile {
    let mut access = AccessFile::default().token("all-reader", &["reader"], "");
    for group in ["a", "b", "t"] {
        let projects = format!("projects = [\"{group}/*\"]\n");
        let trusted = format!("{projects}trusted = true");
        for role in ["agent", "caller", "reader"] {
            access = access.token(&format!("{group}-{role}"), &[role], &trusted);
        }
        let every = ["agent", "caller", "reader", "hook"];
        access = access.token(&format!("{group}-hook"), &["hook"], &projects);
        access = access.token(&format!("{group}-every"), &every, &trusted);
    }
    access.issuer(&issuer.url, GRANTS)
}

/// The server with its webhook, an issuer of jobs' tokens, and a connection.
pub(super) struct Site {
    webhook: Webhook,
    issuer: Issuer,
    pub(super) channel: Channel,
}

impl Site {
    pub(super) async fn start() -> Self {
        let issuer = Issuer::start().unwrap();
        let access = access(&issuer);
        let files = [
            ("--access-file", access.text()),
            ("--pools-file", "[[pool]]\nname = \"big\"\nat_once = 1000\n"),
            ("--admit-secret-file", "0123456789abcdefghij\n"),
        ];
        let options = ["--admit-mode", "on", "--admit-namespaces", "ci-builds"];
        let webhook = admission::start_with(&files, &options);
        let channel = Endpoint::new(webhook.server.url()).unwrap().connect().await.unwrap();
        let site = Self { webhook, issuer, channel };
        // UNAVAILABLE: the issuer's keys are on their way
        let token = site.issuer.token(1, json!({"project_path": "a/one"}));
        let open = async || Sender::open_as(site.channel.clone(), &token).await.map(drop);
        eventually("the issuer's keys are there", open, Result::is_ok).await.unwrap();
        site
    }

    pub(super) fn server(&self) -> &Server {
        &self.webhook.server
    }

    pub(super) fn webhook(&self) -> &Webhook {
        &self.webhook
    }

    pub(super) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Delivers an attempt of this project whose end its agent did not see, with so much need.
    pub(super) async fn deliver(&self, token: &str, id: &str, project: &str, need: u64) {
        let mut stream = Sender::open_as(self.channel.clone(), token).await.unwrap();
        stream.exchange(opening(id, project)).await.unwrap();
        let mut samples = batch(id, 1, 30);
        for sample in &mut samples.samples {
            (sample.memory_bytes, sample.need_bytes, sample.memory_peak_bytes) = (need, need, Some(need));
        }
        stream.exchange(samples).await.unwrap();
        stream.exchange(finish(id, 30, None)).await.unwrap();
    }

    /// What is known of an attempt.
    pub(super) async fn shown(&self, id: &str) -> pb::GetAttemptResponse {
        let asked = pb::GetAttemptRequest { attempt: id.to_owned(), ..Default::default() };
        let mut stats = StatsClient::new(self.channel.clone());
        stats.get_attempt(with("all-reader", asked)).await.unwrap().into_inner()
    }

    pub(super) async fn ask(
        &self,
        token: &str,
        question: pb::ShouldRetryRequest,
    ) -> Result<pb::Verdict, Status> {
        let mut predictor = PredictorClient::new(self.channel.clone());
        Ok(predictor.should_retry(with(token, question)).await?.into_inner().verdict.unwrap())
    }

    /// The memory that a build of this project shall request.
    pub(super) async fn request(&self, project: &str) -> u64 {
        let asked = pb::PredictRequest { key: Some(key(project)), ..Default::default() };
        let token = format!("{}-caller", project.split('/').next().unwrap());
        let mut predictor = PredictorClient::new(self.channel.clone());
        let answer = predictor.predict(with(&token, asked)).await.unwrap().into_inner();
        answer.prediction.unwrap().memory_request_bytes.unwrap().value
    }

    /// Sends a job hook with a hook's token.
    pub(super) fn hook(&self, token: &str, job: u64, project: &str, status: &str) -> u16 {
        let head = format!("X-Gitlab-Token: {token}\r\nContent-Type: application/json\r\n");
        http(self.server().http, "POST", "/v1/collect", &head, &hook_body(job, project, status))
    }
}

/// A job of a project that ended.
pub(super) fn hook_body(job: u64, project: &str, status: &str) -> String {
    json!({
        "object_kind": "build", "build_id": job, "build_name": "build", "build_status": status, "pipeline_id": 1, "project_id": 2,
        "build_failure_reason": "script_failure",
        "project": {"web_url": format!("http://{HOST}/{project}"), "path_with_namespace": project},
    })
    .to_string()
}

/// The status of a request; `head` are further headers, each with its end.
pub(super) fn http(address: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> u16 {
    request(address, method, path, head, body).map_or(0, |answer| answer.status)
}

/// What the builds of a project are.
pub(super) fn key(project: &str) -> pb::Key {
    pb::Key {
        project: project.to_owned(),
        package: "zlib".to_owned(),
        version: "1".to_owned(),
        ..pb::Key::default()
    }
}

/// The opening of an attempt of this project.
pub(super) fn opening(id: &str, project: &str) -> pb::Hello {
    pb::Hello { key: Some(key(project)), ..hello(id, "zlib") }
}
