//! A crowd at the gRPC port: jobs that watch their tickets on connections of their own shut out neither agents nor those that close.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient};
use plimsoll_tests::{
    AccessFile, Issuer, Programs, Sender, Server, allow_open_files, eventually,
    figures::metric,
    hello,
    http::{self, bearer},
    with_token,
};
use serde_json::json;
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::foreign_facts::GRANTS;

/// Each job watches so many times.
const WATCHES: (u64, usize) = (13, 64);
/// Jobs get a quarter of the 784 connections of a server that may open 1,024 files.
const WAITS_OF_JOBS: f64 = 196.0;
const ROUNDS: usize = 20;
const POOLS: &str = "[[pool]]\nname = \"p\"\nat_once = 1\n[tickets]\neach_owner = 100\n";

/// The server's program with at most 1,024 open files.
fn with_few_files(dir: &Path) -> Programs {
    let usual = Programs::for_tests();
    let script = dir.join("server");
    let text = format!("#!/bin/sh\nulimit -n 1024 && exec {} \"$@\"\n", usual.server.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Programs { server: script, agent: usual.agent.clone() }
}

/// A connection of its own.
async fn connect(server: &Server) -> Channel {
    Endpoint::new(server.url()).unwrap().connect().await.unwrap()
}

async fn open(server: &Server, token: &str, ticket: &str) -> Result<pb::OpenTicketResponse, Status> {
    let key = pb::Key { project: "spack/packages".into(), package: "zlib".into(), ..pb::Key::default() };
    let asked = pb::OpenTicketRequest { ticket: ticket.to_owned(), key: Some(key), ..Default::default() };
    let mut placement = PlacementClient::new(connect(server).await);
    Ok(placement.open_ticket(with_token(token, asked)).await?.into_inner())
}

/// A client that watches, or that was refused and stays connected.
type Watcher = (PlacementClient<Channel>, Result<Streaming<pb::WatchTicketResponse>, Status>);

async fn watch(server: &Server, token: &str, ticket: &str) -> Watcher {
    let mut placement = PlacementClient::new(connect(server).await);
    let asked = pb::WatchTicketRequest { ticket: ticket.to_owned(), hold: false };
    let answers = placement.watch_ticket(with_token(token, asked)).await;
    (placement, answers.map(tonic::Response::into_inner))
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_jobs_shut_out_no_agent_or_close() {
    allow_open_files().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (access, pools) = (dir.path().join("access.toml"), dir.path().join("pools.toml"));
    let issuer = Issuer::start().unwrap();
    let text =
        AccessFile::default().issuer(&issuer.url, GRANTS).token("all", &["caller", "agent", "reader"], "");
    fs::write(&access, text.text()).unwrap();
    fs::write(&pools, POOLS).unwrap();
    let files = ["--access-file", access.to_str().unwrap(), "--pools-file", pools.to_str().unwrap()];
    let server = Server::start_with(&with_few_files(dir.path()), &dir.path().join("data"), &files).unwrap();
    let mut owners = Vec::new();
    for round in 0..ROUNDS {
        let opened = open(&server, "all", &format!("round-{round}")).await.unwrap();
        owners.push(opened.ticket.unwrap().owner);
    }
    let (mut crowd, mut refused) = (Vec::new(), 0);
    for job in 0..WATCHES.0 {
        let (token, ticket) = (issuer.token(1000 + job, json!({})), format!("job-{job}"));
        // the keys of the issuer may be on their way
        let opening = async || open(&server, &token, &ticket).await;
        let is_open =
            |opened: &Result<_, Status>| opened.as_ref().map_err(Status::code) != Err(Code::Unavailable);
        eventually("the job's ticket is open", opening, is_open).await.unwrap();
        for _ in 0..WATCHES.1 {
            let (client, answers) = watch(&server, &token, &ticket).await;
            refused += usize::from(answers.as_ref().is_err_and(|why| why.code() == Code::ResourceExhausted));
            crowd.push((client, answers));
        }
    }
    for (round, owner) in owners.into_iter().enumerate() {
        let ticket = format!("round-{round}");
        let mut placement = PlacementClient::new(connect(&server).await);
        let asked = pb::CloseTicketRequest { ticket, owner, ..Default::default() };
        placement.close_ticket(with_token("all", asked)).await.unwrap();
        let mut agent = Sender::open_as(connect(&server).await, "all").await.unwrap();
        agent.build(hello(&format!("attempt-{round}"), "zlib"), 1, Some(0)).await.unwrap();
    }
    let metrics = http::request(server.http, "GET", "/metrics", &bearer("all"), "").unwrap().body;
    let waits = metric(&metrics, "plimsoll_ticket_waits{kind=\"job\"}").unwrap();
    assert!(
        waits > 0.0 && waits <= WAITS_OF_JOBS && refused > 0,
        "{waits} of {}, {refused} refused",
        crowd.len()
    );
}
