//! Servers that serve, wait as standbys, refuse connections or are frozen, in every order.

use std::net::{SocketAddr, TcpListener};

use plimsoll_support::collector::{CollectorFaults, FakeCollector};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tonic::transport::Server;
use tonic_health::server::HealthReporter;

use super::*;

/// A server that says of itself whether it serves.
struct FakeServer {
    url: String,
    health: HealthReporter,
    _running: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
}

async fn start(serves: bool) -> FakeServer {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (health, service) = tonic_health::server::health_reporter();
    let server = Server::builder().add_service(service);
    let running = TaskTracker::new().spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let fake = FakeServer { url, health, _running: AbortOnDropHandle::new(running) };
    fake.set(serves).await;
    fake
}

impl FakeServer {
    async fn set(&self, serves: bool) {
        let status = if serves {
            tonic_health::ServingStatus::Serving
        } else {
            tonic_health::ServingStatus::NotServing
        };
        self.health.set_service_status("", status).await;
    }
}

/// A listener that accepts connections and never answers, and its address.
fn frozen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// An address at which no program listens.
fn refusing() -> String {
    frozen().1
}

async fn parsed(addresses: &[&str]) -> Servers {
    Servers::parse(&addresses.join(", "), &Trust::default(), TCP).await.unwrap()
}

#[tokio::test]
async fn the_serving_server_is_found_among_failing_addresses() {
    let (serving, standby) = (start(true).await, start(false).await);
    let ((_listener, frozen), refusing) = (frozen(), refusing());
    let mut addresses = [&*serving.url, &*standby.url, &*frozen, &*refusing];
    for _turn in 0..addresses.len() {
        addresses.rotate_right(1);
        let servers = parsed(&addresses).await;
        assert_eq!(servers.name(), "any of 4 addresses");
        servers.connect().await.unwrap();
        assert_eq!(servers.name(), serving.url, "{addresses:?}");
    }
}

#[tokio::test]
async fn a_server_is_kept_until_a_failover() {
    let (first, second) = (start(false).await, start(true).await);
    let servers = parsed(&[&first.url, &second.url]).await;
    servers.connect().await.unwrap();
    let tried: Vec<String> = servers.round(false).await.into_iter().map(|tried| tried.label).collect();
    assert_eq!(tried, [&*second.url], "no other address is tried");
    first.set(true).await;
    drop(second);
    servers.connect().await.unwrap();
    assert_eq!(servers.name(), first.url);
}

#[tokio::test]
async fn a_server_refusing_its_role_is_tried_last() {
    let (first, second) = (start(true).await, start(true).await);
    let servers = parsed(&[&first.url, &second.url]).await;
    for found in [&first, &second, &first] {
        servers.connect().await.unwrap();
        assert_eq!(servers.name(), found.url);
        servers.doubt();
    }
    drop(second);
    servers.connect().await.unwrap();
    assert_eq!(servers.name(), first.url, "where no other serves, it is tried again");
}

#[tokio::test]
async fn addresses_beyond_the_limit_are_reported() {
    let everywhere = Network {
        resolve: |_host, _port| {
            let found = (1..=99).map(|last| SocketAddr::from(([127, 0, 0, last], 1))).collect();
            Box::pin(async move { Ok(found) })
        },
        ..TCP
    };
    let servers = Servers::parse("http://everywhere:1", &Trust::default(), everywhere).await.unwrap();
    let tried = servers.survey().await;
    assert_eq!(tried.len(), MAX_ADDRESSES + 1);
    let failures =
        tried.iter().filter_map(|tried| Some((&*tried.label, &*tried.outcome.as_ref().err()?.text)));
    let reported: Vec<_> = failures.filter(|(_, text)| text.starts_with("not tried")).collect();
    assert_eq!(reported, [("http://everywhere:1 at 127.0.0.17:1", "not tried, as all beyond 16 addresses")]);
}

#[tokio::test]
async fn each_address_gives_its_reason_when_none_serves() {
    let (standby, refusing) = (start(false).await, refusing());
    let servers = parsed(&[&refusing, &standby.url]).await;
    let reason = servers.connect().await.unwrap_err();
    let expected = format!(
        "{refusing}: connection refused; {}: it waits for the store, or is about to stop",
        standby.url
    );
    assert_eq!((reason.text, reason.is_standby, reason.is_of_network), (expected, true, false));
    let reason = parsed(&[&refusing, &refusing]).await.connect().await.unwrap_err();
    assert_eq!(reason.text, "connection refused", "an address that is named twice is tried once");
    assert!(reason.is_of_network && !reason.is_standby);
    drop(standby);
    assert!(!servers.connect().await.unwrap_err().is_standby);
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let (serving, standby) = (start(true).await, start(false).await);
    let port = |url: &str| url.rsplit_once(':').unwrap().1.to_owned();
    // a name service in which `with-1-2` has the ports 1 and 2 of this machine
    let by_ports = Network {
        resolve: |host, _port| {
            let ports = host.split('-').filter_map(|part| part.parse().ok());
            let found = ports.map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))).collect();
            Box::pin(async move { Ok(found) })
        },
        ..TCP
    };
    let name = format!("http://with-{}-{}", port(&standby.url), port(&serving.url));
    let servers = Servers::parse(&name, &Trust::default(), by_ports).await.unwrap();
    servers.connect().await.unwrap();
    assert_eq!(servers.last().found.unwrap().address.port().to_string(), port(&serving.url));
    let nowhere = Servers::parse("http://nowhere:1", &Trust::default(), by_ports).await.unwrap();
    assert_eq!(nowhere.connect().await.unwrap_err().text, "the name has no address");
}

#[tokio::test]
async fn another_program_is_no_server_that_serves() {
    let serving = start(true).await;
    let other = FakeCollector::start(CollectorFaults::default()).await;
    let servers = parsed(&[&other.url, &serving.url]).await;
    servers.connect().await.unwrap();
    assert_eq!(servers.name(), serving.url);
    drop(serving);
    let reason = servers.connect().await.unwrap_err().text;
    assert!(reason.contains("does not say that it serves"), "{reason}");
    // the only one is not asked
    parsed(&[&other.url]).await.connect().await.unwrap();
}

#[tokio::test]
async fn a_survey_lists_each_address_in_order() {
    let (serving, standby, refusing) = (start(true).await, start(false).await, refusing());
    let tried = parsed(&[&refusing, &standby.url, &serving.url]).await.survey().await;
    let found: Vec<_> = tried
        .iter()
        .map(|tried| (&*tried.label, tried.outcome.as_ref().map_or_else(|why| &*why.text, |_| "serves")))
        .collect();
    let expected = [
        (&*refusing, "connection refused"),
        (&*standby.url, "it waits for the store, or is about to stop"),
        (&*serving.url, "serves"),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn invalid_address_lists_are_refused_naming_the_option() {
    let many = vec!["a"; MAX_ADDRESSES + 1].join(",");
    for (list, words) in [
        ("http://a,https://b", "http://a and https://b differ in http and https"),
        ("a,https://b", "http://a and https://b differ"),
        ("http://a,,http://b", r#""" is not an address"#),
        ("http://a,", r#""" is not an address"#),
        ("http://a,ftp://b", r#""ftp://b" is not an address"#),
        (many.as_str(), "17 addresses; at most 16"),
    ] {
        let error = Servers::parse(list, &Trust::default(), TCP).await.unwrap_err();
        assert!(error.starts_with("--server: ") && error.contains(words), "{list}: {error}");
    }
}
