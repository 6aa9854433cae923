//! The webhook as the API server of Kubernetes calls it: through TLS, with reviews of pods that GitLab's runner makes.

mod webhook;

use std::sync::Arc;

use plimsoll_tests::assert_has;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _},
    },
};

pub(crate) use webhook::{Webhook, memory_limit, pod, review, start, start_with};
use webhook::{certificate, start_in};

#[tokio::test]
async fn an_oom_retry_becomes_a_bigger_pod() {
    let agent =
        ["--admit-agent-image", "registry.example/plimsoll-agent:1", "--admit-agent-audience", "plimsoll"];
    let webhook = start(&[&["--admit-mode", "on"][..], &agent].concat());
    for number in 0..8 {
        webhook.attempt(&format!("before-{number}"), "1", 900 + number, false).await;
    }
    let (first, _) = webhook.admit(&pod()).await;
    let chosen = memory_limit(&first);
    assert!((900..20_000).contains(&chosen), "{first}");
    assert_eq!(first["spec"]["initContainers"][1]["name"], "plimsoll");
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let mut named = first.clone();
    named["metadata"]["name"] = json!("runner-abcdefg");
    std::fs::write(file.path(), named.to_string()).unwrap();
    let complaints = crate::deploy::complaints(&[file.path().to_owned()]).unwrap_or_default();
    assert_eq!(complaints, Vec::<String>::new());
    // GitLab tries again by itself: the same job of the same pipeline, in a new pod, with the same variables
    webhook.attempt("killed", "777", chosen, true).await;
    let (again, _) = webhook.admit(&pod()).await;
    assert!(memory_limit(&again) > chosen, "{again}");
    let why = again["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
    assert!(why.contains("the last attempt ran out of memory"), "{why}");
    // and a second look at the pod that is there already changes nothing
    let (same, response) = webhook.admit(&again).await;
    assert!(same == again && response["patch"].is_null(), "{response}");
}

#[tokio::test]
async fn the_review_of_the_guide_is_answered() {
    let webhook = start(&["--admit-mode", "on"]);
    let all = crate::guide_blocks::all_blocks();
    let review = all.iter().find(|block| block.language == "json" && block.text.contains("AdmissionReview"));
    let (status, body) = webhook.post(&webhook.path, &review.unwrap().text).await;
    assert!(status == 200 && body.contains("\"allowed\":true"), "{status} {body}");
}

#[tokio::test]
async fn the_log_names_each_admitted_pods_job() {
    let webhook = start(&["--admit-mode", "on", "--admit-agent-image", "agent:1"]);
    let mut left = pod();
    left["metadata"]["annotations"]["plimsoll/admit"] = json!("off");
    for pod in [pod(), left] {
        webhook.admit(&pod).await;
    }
    let log = webhook.server.log().unwrap();
    for what in ["changed a pod", "left a pod as it is"] {
        let line = log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in {log}"));
        assert_has(line, ["ci-builds", "runner-abcdefg-project-23-concurrent-0-*", "12345"]);
    }
}

#[tokio::test]
async fn invalid_admission_reviews_are_refused_with_the_reason() {
    let webhook = start(&["--admit-mode", "on"]);
    let old = review(&pod()).to_string().replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    for (path, body, status, words) in [
        ("/admit", "", 400, "is not an AdmissionReview"),
        ("/admit", "{\"request\":", 400, "is not an AdmissionReview"),
        ("/admit", "[]", 400, "is not an AdmissionReview"),
        (
            "/admit",
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            400,
            "request: is missing",
        ),
        ("/admit", &old, 400, "apiVersion: is"),
        ("/metrics", "", 404, "path: "),
        ("/admit", &"x".repeat(9 << 20), 413, "at most"),
    ] {
        let (seen, answer) = webhook.post(path, body).await;
        assert_eq!(seen, status, "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
}

#[tokio::test]
async fn with_a_client_ca_other_callers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = certificate(dir.path());
    let made = rcgen::generate_simple_self_signed(["kube-apiserver".to_owned()]).unwrap();
    std::fs::write(dir.path().join("client.crt"), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let roots = {
        let server = std::fs::read(dir.path().join("tls.crt")).unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&server) {
            roots.add(certificate.unwrap()).unwrap();
        }
        roots
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let file = dir.path().join("client.crt").display().to_string();
    let known = TlsConnector::from(Arc::new(config));
    let mut webhook = start_in(dir, known, Vec::new(), &["--admit-client-ca-file", &file]);
    let review = review(&pod()).to_string();
    assert_eq!(webhook.post("/admit", &review).await.0, 200);
    webhook.tls = unknown;
    let stream = TcpStream::connect(webhook.server.admission.unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let received = async {
        let mut stream = webhook.tls.connect(name, stream).await?;
        stream.write_all(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.map(|_| received)
    };
    // an alert, or what is left of one when the connection is closed behind it
    let received = received.await.unwrap_or_default();
    assert!(received.is_empty(), "{}", String::from_utf8_lossy(&received));
}
