//! Delivery and questions over TLS, against a real server with a certificate made for the test.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
    thread,
};

use plimsoll_proto::v1::{Hello, Key, PredictRequest, Sample};
use plimsoll_support::collector::{CollectorFaults, FakeCollector};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::delivery::{Delivery, DeliveryReport, Settings, Trust};
use crate::questions::Client;

/// A server behind TLS whose certificate is for `name`, and the CA that signed it.
async fn start(dir: &TempDir, name: &str) -> (FakeCollector, PathBuf) {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.distinguished_name.push(DnType::CommonName, format!("CA of {name}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let ca = dir.path().join(format!("{name}.pem"));
    fs::write(&ca, authority.pem()).unwrap();
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(leaf.pem(), key.serialize_pem()));
    let server = Server::builder().tls_config(tls).unwrap();
    (FakeCollector::start_on(server, CollectorFaults::default()).await, ca)
}

/// The server's address with another scheme and host.
fn at(fake: &FakeCollector, origin: &str) -> String {
    let port = fake.url.rsplit_once(':').unwrap().1;
    format!("{origin}:{port}")
}

fn trusting(ca: Option<PathBuf>) -> Trust {
    Trust { ca, ..Trust::default() }
}

async fn deliver(dir: &TempDir, server: String, trust: Trust) -> DeliveryReport {
    let settings =
        Settings { server: Some(server), trust, spool_dir: dir.path().join("spool"), spool_bytes: 1 << 20 };
    let hello = Hello { attempt: "a".to_owned(), ..Hello::default() };
    let mut delivery = Delivery::start(&settings, hello);
    delivery.push(Sample { elapsed_ms: 1, ..Sample::default() });
    delivery.finish_with(crate::delivery::tests::ended(1, None), crate::delivery::tests::LONG).await
}

/// Neither an attempt nor a question reaches the server, and both say why in these words. What a broken connection is called
/// depends on who notices first.
async fn assert_problem(dir: &TempDir, server: String, ca: Option<PathBuf>, words: &[&str]) {
    let asked = match Client::connect(&server, &trusting(ca.clone())).await {
        Ok(client) => {
            let question = PredictRequest { key: Some(Key::default()), ..PredictRequest::default() };
            client.predict(question).await
        }
        Err(failure) => Err(failure),
    };
    let report = deliver(dir, server, trusting(ca)).await;
    assert!(!report.delivered && report.kept.is_some(), "{report:?}");
    for problem in [asked.unwrap_err().to_string(), report.problem.unwrap()] {
        assert!(words.iter().all(|word| problem.contains(word)), "{words:?}: {problem}");
    }
}

#[tokio::test]
async fn delivery_and_queries_use_tls_with_given_ca() {
    let dir = TempDir::new().unwrap();
    let (fake, ca) = start(&dir, "localhost").await;
    let server = at(&fake, "https://localhost");
    Client::connect(&server, &trusting(Some(ca.clone()))).await.unwrap();
    let report = deliver(&dir, server, trusting(Some(ca))).await;
    assert_eq!(report, DeliveryReport { delivered: true, ..DeliveryReport::default() });
    assert_eq!(fake.attempt("a").samples.len(), 1);
}

#[tokio::test]
async fn the_agent_presents_its_client_certificate() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: String| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(own.pem(), key.serialize_pem()));
    let tls = tls.client_ca_root(Certificate::from_pem(own.pem()));
    let fake =
        FakeCollector::start_on(Server::builder().tls_config(tls).unwrap(), CollectorFaults::default()).await;
    let server = at(&fake, "https://localhost");
    let pem = file("own.pem", own.pem());
    let known = Trust {
        certificate: Some(pem.clone()),
        key: Some(file("own.key", key.serialize_pem())),
        ..trusting(Some(pem.clone()))
    };
    assert_problem(&dir, server.clone(), Some(pem), &[]).await;
    assert!(deliver(&dir, server, known).await.delivered);
}

#[tokio::test]
async fn tls_mismatches_are_refused_with_a_remedy() {
    let dir = TempDir::new().unwrap();
    let (tls, own) = start(&dir, "localhost").await;
    let (example, of_example) = start(&dir, "plimsoll.example").await;
    let plain = FakeCollector::start(CollectorFaults::default()).await;
    for (server, ca, words) in [
        (at(&tls, "https://localhost"), Some(&of_example), ["no trusted CA has signed", "PLIMSOLL_CA"]),
        (at(&example, "https://localhost"), Some(&of_example), ["plimsoll.example", "not for localhost"]),
        (at(&plain, "https://localhost"), Some(&own), ["speaks no TLS", "http://"]),
        (at(&tls, "http://localhost"), None, ["https://", "localhost"]),
    ] {
        assert_problem(&TempDir::new().unwrap(), server, ca.cloned(), &words).await;
    }
}

#[tokio::test]
async fn plain_http_1_servers_are_named_as_such() {
    let dir = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut request = [0; 512];
            let _read = connection.read(&mut request).unwrap();
            connection.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    });
    assert_problem(&dir, server, None, &["HTTP/1 is no gRPC"]).await;
}
