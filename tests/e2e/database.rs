//! A server with its store in a real PostgreSQL.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_proto::v1::{self as pb, TicketState, placement_client::PlacementClient};
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, Sender, Server, assert_has, assert_lacks, batch, eventually, hello};
use tonic::{Code, Status, transport::Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

const POOLS: &str = "[[pool]]\nname = \"big\"\nat_once = 1\n";

async fn open_ticket(server: &Server, ticket: &str) -> TicketState {
    let key = Some(pb::Key { package: "zlib".into(), ..pb::Key::default() });
    let ask = pb::OpenTicketRequest { ticket: ticket.into(), owner: "o".into(), key, ..Default::default() };
    let mut client = PlacementClient::connect(server.url()).await.unwrap();
    client.open_ticket(ask).await.unwrap().into_inner().ticket.unwrap().state()
}

/// Attempts behind the memory of a prediction.
async fn learnt_from(server: &Server) -> u32 {
    let key = pb::Key { package: "zlib".into(), ..pb::Key::default() };
    let prediction = server.predict(key).await.unwrap();
    prediction.memory_request_bytes.unwrap().basis.unwrap().attempts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_server_keeps_everything_after_a_kill() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (data, pools) = (dir.path().join("data"), dir.path().join("pools.toml"));
    fs::write(&pools, POOLS).unwrap();
    let options = ["--store-url", &url, "--pools-file", pools.to_str().unwrap()];
    let start = || Server::start_with(Programs::for_tests(), &data, &options).unwrap();
    let server = start();
    Sender::delivered(&server.url(), ("ended", "zlib"), 50, Some(0)).await.unwrap();
    let mut stream = Sender::opened(&server.url(), "running", "zlib").await.unwrap();
    stream.exchange(batch("running", 1, 30)).await.unwrap();
    assert_eq!(open_ticket(&server, "a").await, TicketState::Granted);
    assert_eq!(open_ticket(&server, "b").await, TicketState::Queued);
    let before = server.shown("ended").await.unwrap();
    server.kill().unwrap();

    let server = start();
    assert_eq!(server.shown("ended").await.unwrap(), before);
    assert_eq!(learnt_from(&server).await, 1);
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("running", "zlib")).await.unwrap(), 30);
    assert_eq!(open_ticket(&server, "b").await, TicketState::Queued);
    assert_eq!(server.get("/readyz").unwrap().0, 200);
    assert!(!data.join("plimsoll.json").is_file(), "no store in files");

    let archive = dir.path().join("archive");
    let http = server.http.to_string();
    let archive = archive.to_str().unwrap();
    Server::call_on(&data, &["--store-url", &url, "--http-listen", &http, "backup", archive]).done();
    let restored = dir.path().join("restored");
    Server::call_on(&restored, &["restore", archive]).done();
    let verified = Server::call_on(&restored, &["verify"]).done();
    assert_has(&verified, ["1 attempt that ended and 1 open, 0 verdicts, 2 tickets, 80 samples"]);
}

/// What a server answers to probes and to a question: the statuses of `/livez` and `/readyz`, and whether it predicts.
async fn answers(server: &Server) -> (u16, u16, Result<(), Status>) {
    let probe = |path: &str| server.get(path).unwrap().0;
    let predicted = server.predict(pb::Key::default()).await.map(drop);
    (probe("/livez"), probe("/readyz"), predicted)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_frozen_servers() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = ["--store-url", &url];
    let first = Server::start_with(Programs::for_tests(), &dir.path().join("a"), &options).unwrap();
    Sender::delivered(&first.url(), ("ended", "zlib"), 50, Some(0)).await.unwrap();
    let start = |name: &str| Server::start_standby(Programs::for_tests(), &dir.path().join(name), &options);
    let mut second = start("b").unwrap();
    let (live, ready, predicted) = answers(&second).await;
    let refusal = predicted.unwrap_err();
    assert_eq!((live, ready, refusal.code()), (200, 503, Code::Unavailable), "{refusal}");
    assert!(refusal.message().contains("this server is a standby"), "{refusal}");
    let mut health = HealthClient::new(Endpoint::new(second.url()).unwrap().connect().await.unwrap());
    for service in ["", "plimsoll.v1.Collector"] {
        let answer = health.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap();
        assert_eq!(answer.get_ref().status(), ServingStatus::NotServing, "{service}");
    }
    let metrics = second.get("/metrics").unwrap();
    assert!(metrics.1.contains("plimsoll_standby 1"), "{metrics:?}");
    assert_eq!(second.get("/v1/allocation?spec=zlib").unwrap().0, 503);
    assert_eq!(second.get("/readyz/reads").unwrap().0, 503);
    assert_eq!(first.get("/readyz/reads").unwrap().0, 200);
    assert_eq!(answers(&first).await.1, 200);

    assert!(first.stop().unwrap().success());
    // a connection that is taken over from the standby may be closed without an answer
    let ready = async |server: &Server| server.get("/readyz").map_or(0, |answer| answer.0);
    eventually("the standby serves", || ready(&second), |status| *status == 200).await;
    assert_eq!(learnt_from(&second).await, 1, "it knows what the first one learnt");

    let third = start("c").unwrap();
    let frozen = Pid::from_raw(second.pid().cast_signed());
    kill(frozen, Signal::SIGSTOP).unwrap();
    eventually("the next standby serves", || ready(&third), |status| *status == 200).await;
    kill(frozen, Signal::SIGCONT).unwrap();
    let (status, log) = second.ended().unwrap();
    assert!(!status.success() && log.contains("another server has taken the store"), "{status}: {log}");
    assert_eq!(learnt_from(&third).await, 1);
}

#[test]
fn file_commands_refuse_a_database_store() {
    let (_dir, data) = plimsoll_support::temporary::file_name("data");
    let url = ["--store-url", "postgres://u@127.0.0.1:1/p"];
    let compacted = Server::call_on(&data, &[&url[..], &["compact"]].concat());
    assert_ne!(compacted.code, Some(0));
    assert_has(&compacted.stderr, ["store_url is set"]);
    for (words, option) in [
        ("verify --in-place", "--in-place"),
        ("backup - --scratch x", "--scratch"),
        ("export - --scratch x", "--scratch"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let refused = Server::call_on(&data, &[&url[..], &words].concat()).printed();
        assert_has(&refused, [format!("{option} is for a store in files")]);
    }
    drop(Server::start(Programs::for_tests(), &data).unwrap());
    let both = Server::call_on(&data, &url);
    assert_has(&both.stderr, ["holds a store, which would not be read"]);
    let secret = ["--store-url", "postgres://u:s3cret@127.0.0.1:1/p", "--print-config"];
    let shown = Server::call_on(&data, &secret).printed();
    assert_has(&shown, ["store_password_file"]);
    assert_lacks(&shown, ["s3cret"]);
}
