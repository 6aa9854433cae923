//! A server that holds every secret that one can hold, and a GitLab and an issuer that are asked with them.

use std::{fs, net::SocketAddr, path::Path, sync::mpsc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use plimsoll_tests::{AccessFile, Issuer, http::answer_each, unix_now};
use ring::hmac;
use serde_json::json;

use super::log;
use crate::admission::{Webhook, start_with};

/// Tokens of callers: of an agent, of a reader of all projects, of a caller, and one that is not known.
pub(super) const RUNNER: &str = "planted-runner-1f0a9c";
pub(super) const AUDITOR: &str = "planted-auditor-7b3de2";
pub(super) const SPACK: &str = "planted-spack-55aa01";
pub(super) const WRONG: &str = "planted-wrong-c0ffee";
/// The value of a label that is private.
pub(super) const CUSTOMER: &str = "planted_customer_inc";

/// What must not be shown anywhere.
pub(super) struct Secrets {
    pub(super) hook: String,
    pub(super) admission: String,
    signing: String,
    pub(super) gitlab: String,
    pub(super) bearer: String,
    /// A token that an issuer has signed.
    pub(super) signed: String,
    /// What a build printed: a token, a key of a cloud, passwords, a header's and a signed token, a private key.
    pub(super) in_logs: [String; 7],
    private_key: String,
}

impl Secrets {
    fn new(issuer: &Issuer) -> Self {
        let signed = issuer.token(77, json!({"project_path": "spack/packages"}));
        let in_logs = [
            "glpat-pL4nT3dT0k3nAbCdEfGh",
            "AKIAPLANTEDQWERTYUIO",
            "planted-password-90210",
            "planted-in-address-4711",
            "planted-bearer-in-log-0815",
            &issuer.token(78, json!({})),
            "MIIEvPlantedPrivateKeyBlockZzYyXxWwVvUuTtSsRr0123456789+/AbCdEfG",
        ];
        Self {
            hook: "planted-hook-2d2d2d".into(),
            admission: "planted-admission-77ab00".into(),
            signing: BASE64_STANDARD.encode("planted-signing-key-of-32-bytes!"),
            gitlab: "planted-gitlab-9e8f7a".into(),
            bearer: "planted-issuer-bearer-31337".into(),
            signed,
            in_logs: in_logs.map(ToOwned::to_owned),
            private_key: String::new(),
        }
    }

    /// Each with its name.
    pub(super) fn all(&self) -> Vec<(&'static str, &str)> {
        let mut all = vec![
            ("a runner's token", RUNNER),
            ("a reader's token", AUDITOR),
            ("a caller's token", SPACK),
            ("a wrong token", WRONG),
            ("the hook's secret", &self.hook),
            ("the webhook's secret", &self.admission),
            ("the hook's signing token", &self.signing),
            ("GitLab's token", &self.gitlab),
            ("the token for the issuer", &self.bearer),
            ("a signed token", &self.signed),
            ("the private key", &self.private_key),
        ];
        all.extend(self.in_logs.iter().map(|secret| ("what a build printed", secret.as_str())));
        all
    }
}

pub(super) struct PlantedServer {
    pub(super) webhook: Webhook,
    pub(super) secrets: Secrets,
    pub(super) options: Vec<String>,
    pub(super) gitlab: SocketAddr,
    /// Heads of the requests that GitLab and the second issuer got.
    pub(super) asked: mpsc::Receiver<String>,
    /// With the token that the second issuer is asked with.
    _bearer: tempfile::NamedTempFile,
}

impl PlantedServer {
    pub(super) fn start() -> Self {
        let issuer = Issuer::start().unwrap();
        let mut secrets = Secrets::new(&issuer);
        let (gitlab, asked) = others(log(&secrets));
        let bearer = tempfile::NamedTempFile::new().unwrap();
        fs::write(bearer.path(), &secrets.bearer).unwrap();
        let access = access(&issuer.url, gitlab, bearer.path());
        let signing = format!("whsec_{}\n", secrets.signing);
        let files = [
            ("--access-file", access.text()),
            ("--collect-token-file", &secrets.hook),
            ("--collect-signing-file", &signing),
            ("--gitlab-token-file", &secrets.gitlab),
            ("--admit-secret-file", &secrets.admission),
        ];
        let url = format!("http://{gitlab}");
        let options = ["--log", "debug", "--gitlab-url", &url, "--private-labels", "customer"];
        let webhook = start_with(&files, &options);
        let options = [&webhook.files[..], &options.map(ToOwned::to_owned)].concat();
        let key = fs::read_to_string(webhook.dir.path().join("tls.key")).unwrap();
        key.lines().nth(1).unwrap().clone_into(&mut secrets.private_key);
        Self { webhook, secrets, options, gitlab, asked, _bearer: bearer }
    }

    /// Headers of a hook with this secret, signed as it should be.
    pub(super) fn signed(&self, secret: &str, body: &str) -> String {
        let key = BASE64_STANDARD.decode(&self.secrets.signing).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let time = unix_now();
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, format!("one.{time}.{body}").as_bytes()));
        format!(
            "Content-Type: application/json\r\nX-Gitlab-Token: {secret}\r\nwebhook-id: one\r\nwebhook-timestamp: {time}\r\n\
             webhook-signature: v1,{signature}\r\n"
        )
    }

    /// The whole answer to a request.
    pub(super) fn http(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let headers = format!("Accept: text/html\r\n{headers}");
        self.webhook.server.send(method, path, &headers, body).unwrap().text()
    }
}

/// Three tokens, an issuer that answers, and one that refuses every request.
fn access(issuer: &str, refusing: SocketAddr, bearer: &Path) -> AccessFile {
    let grant = "kind = \"gitlab\"\naudience = \"plimsoll\"\n[[issuer.grant]]\nroles = [\"caller\"]\n\
                 projects = [\"spack/*\"]\n";
    // beside the server's directory, which has the access file
    let name = bearer.file_name().unwrap().to_str().unwrap();
    let asked_with = format!("bearer_file = \"../{name}\"\nkeys_url = \"http://{refusing}/keys\"\n");
    AccessFile::default()
        .named("runner", RUNNER, &["agent", "caller"], "")
        .named("auditor", AUDITOR, &["reader"], "")
        .named("spack", SPACK, &["caller"], "")
        .issuer(issuer, grant)
        .issuer(&format!("http://{refusing}"), &(asked_with + &grant.replace("gitlab", "kubernetes")))
}

/// A GitLab whose one failed job printed `log`, and which is no issuer of anything.
fn others(log: String) -> (SocketAddr, mpsc::Receiver<String>) {
    let answer = move |head: &str| {
        let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
            path if path.ends_with("/jobs/7/trace") => (200, log.clone()),
            path if path.contains("/pipelines/") => {
                let failed = json!([{"id": 7, "name": "zlib@1.3 /abcdefg", "status": "failed", "failure_reason": log}]);
                (200, failed.to_string())
            }
            // as one that says what it was asked with
            _ => (403, head.to_owned()),
        };
        (status, String::new(), body)
    };
    answer_each(answer).unwrap()
}
