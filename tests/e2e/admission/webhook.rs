//! A server with a webhook, and the API server's side of it.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Programs, Sender, Server, finish, hello, sample};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

const POD: &str = include_str!("../../../server/app/src/ci/kubernetes/testdata/gitlab_pod.json");

/// A server with a webhook, and what is needed to call it.
pub(crate) struct Webhook {
    pub(crate) server: Server,
    pub(super) tls: TlsConnector,
    pub(crate) dir: tempfile::TempDir,
    /// Where the API server asks.
    pub(crate) path: String,
    /// Options that name files.
    pub(crate) files: Vec<String>,
}

/// Writes a certificate for `localhost` and its key; gives what trusts it.
pub(super) fn certificate(dir: &Path) -> TlsConnector {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(dir.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

pub(crate) fn start(options: &[&str]) -> Webhook {
    start_with(&[], options)
}

/// As [`start`]; options of `files` name a file with this text, also after a kill.
pub(crate) fn start_with(files: &[(&str, &str)], options: &[&str]) -> Webhook {
    let dir = tempfile::tempdir().unwrap();
    let tls = certificate(dir.path());
    let mut named = Vec::new();
    for (option, text) in files {
        let path = dir.path().join(option.trim_start_matches('-'));
        std::fs::write(&path, text).unwrap();
        named.extend([(*option).to_owned(), path.display().to_string()]);
    }
    start_in(dir, tls, named, options)
}

pub(super) fn start_in(
    dir: tempfile::TempDir,
    tls: TlsConnector,
    files: Vec<String>,
    options: &[&str],
) -> Webhook {
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let listen = ["--admit-listen", "127.0.0.1:0", "--admit-cert-file", &cert, "--admit-key-file", &key];
    // a stalled machine must not make a test fail
    let patient = ["--admit-within", "10min"];
    let named: Vec<&str> = files.iter().map(String::as_str).collect();
    let options = [&listen[..], &patient, &named, options].concat();
    let server = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options).unwrap();
    let mut secrets = options.iter().skip_while(|option| **option != "--admit-secret-file").skip(1);
    let secret = secrets.next().map(|file| std::fs::read_to_string(file).unwrap());
    let path =
        secret.map_or_else(|| "/admit".to_owned(), |text| format!("/admit/{}", text.lines().next().unwrap()));
    Webhook { server, tls, dir, path, files }
}

impl Webhook {
    /// The same after a kill, over the same data.
    pub(crate) fn killed_and_started(self, options: &[&str]) -> Self {
        let Self { server, tls, dir, files, path: _ } = self;
        server.kill().unwrap();
        start_in(dir, tls, files, options)
    }

    /// Status and body of a POST.
    pub(crate) async fn post(&self, path: &str, body: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.server.admission.unwrap()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = self.tls.connect(name, stream).await.unwrap();
        let head = format!(
            "POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // a server that refuses may close before all is written
        let _refused = stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await;
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("no HTTP answer");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The pod as it becomes, and the response.
    pub(crate) async fn admit(&self, pod: &Value) -> (Value, Value) {
        let (status, body) = self.post(&self.path, &review(pod).to_string()).await;
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(answer["kind"], "AdmissionReview");
        let response = answer["response"].clone();
        assert_eq!(response["uid"], "705ab4f5", "{response}");
        assert_eq!(response["allowed"], true, "{response}");
        let mut after = pod.clone();
        if !response["patch"].is_null() {
            assert_eq!(response["patchType"], "JSONPatch");
            json_patch::patch(&mut after, &patch(&response)).unwrap();
        }
        (after, response)
    }

    /// An attempt of the pod's job: its key, the memory it needed, and whether it was killed for it.
    pub(crate) async fn attempt(&self, name: &str, pipeline: &str, need_mib: u64, killed: bool) {
        let mut stream = Sender::connect(&self.server.url()).await.unwrap();
        let labels = [("pipeline", pipeline), ("job", "curl@8.15.0 /abcdefg")];
        let key = pb::Key {
            project: "spack/spack-packages".into(),
            stack: "e4s".into(),
            package: "curl".into(),
            version: "8.15.0".into(),
            variants: "~gssapi+nghttp2 libs=shared,static tls=openssl".into(),
            compiler: "gcc".into(),
            compiler_version: "12.2.0".into(),
            arch: "linux-debian12-x86_64_v3".into(),
            build_system: "autotools".into(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            hints: Some(pb::Hints { build_jobs: Some(4), ..pb::Hints::default() }),
            ..pb::Key::default()
        };
        stream.exchange(pb::Hello { key: Some(key), ..hello(name, "curl") }).await.unwrap();
        let need = need_mib << 20;
        let samples = (1..=60)
            .map(|number| pb::Sample {
                memory_bytes: need,
                need_bytes: need,
                memory_peak_bytes: Some(need),
                oom_kill: Some(u64::from(killed && number == 60)),
                ..sample(number)
            })
            .collect();
        let batch = pb::Batch { attempt: name.into(), first_sequence: 1, lost: 0, samples };
        stream.exchange(batch).await.unwrap();
        let totals = Some(pb::Totals { oom_kill: Some(u64::from(killed)), ..pb::Totals::default() });
        let finish = pb::Finish { totals, ..finish(name, 60, Some(i32::from(killed))) };
        stream.exchange(finish).await.unwrap();
    }
}

pub(crate) fn pod() -> Value {
    serde_json::from_str(POD).unwrap()
}

pub(crate) fn review(pod: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "ci-builds", "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:ci-builds:runner", "groups": ["system:authenticated"]},
            "object": pod, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// The patch, which comes as base64.
fn patch(response: &Value) -> json_patch::Patch {
    let bytes = BASE64_STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

pub(crate) fn memory_limit(pod: &Value) -> u64 {
    let text = pod["spec"]["containers"][0]["resources"]["limits"]["memory"].as_str().unwrap();
    plimsoll_base::quantity::bytes(text).unwrap() >> 20
}
