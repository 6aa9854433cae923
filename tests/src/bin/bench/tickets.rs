//! Tickets through gRPC and the durable store: 100,000 are opened, then changes come at a fixed rate, each timed from the moment at
//! which it was due.

use std::{fs, path::Path, sync::Arc, time::Duration};

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient};
use plimsoll_tests::{Programs, QUIET, Server, figures::Times};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

const OPEN: u64 = 100_000;
/// Changes a second: half of them open a ticket, half close one that holds its place.
const RATE: u64 = 1000;
const SECONDS: u64 = 20;
const IN_FLIGHT: usize = 1024;
const OWNERS: u64 = 200;
const POOLS: u64 = 8;

pub(crate) async fn through_grpc(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let pools: Vec<String> =
        (0..POOLS).map(|n| format!("[[pool]]\nname = \"pool-{n}\"\nat_once = 2000\n")).collect();
    let limits =
        "[tickets]\nat_once = 12000\nmost_open = 300000\nask_within = \"1h\"\nstart_within = \"1h\"\n";
    let file = dir.join("tickets.toml");
    fs::write(&file, pools.concat() + limits)?;
    let (data, file) = (dir.join("tickets"), file.display().to_string());
    let server = Server::start_with(programs, &data, &["--log", QUIET, "--pools-file", &file])?;
    let channel = Endpoint::new(server.url())?.connect().await?;
    let (places, mut calls) = (Arc::new(Semaphore::new(IN_FLIGHT)), JoinSet::new());
    let began = Instant::now();
    for n in 0..OPEN {
        let place = Arc::clone(&places).acquire_owned().await?;
        let channel = channel.clone();
        calls.spawn(async move {
            let opened = open(&channel, n).await;
            drop(place);
            opened.map(|_ticket| ())
        });
        while let Some(ended) = calls.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    println!("tickets: {OPEN} opened at {:.0}/s", OPEN as f64 / began.elapsed().as_secs_f64());
    let (times, took) = changes(&channel).await?;
    println!("  {} changes at {RATE}/s took {took:.1} s, on the disk when answered: {times}", RATE * SECONDS);
    println!("  the decision alone: {}", decisions(&server)?);
    let began = Instant::now();
    server.kill()?;
    let server = Server::start_with(programs, &data, &["--log", QUIET, "--pools-file", &file])?;
    println!("  after a kill they are there again within {:.1} s", began.elapsed().as_secs_f64());
    drop(server);
    Ok(())
}

/// Opens and closes in turns; the first tickets of all were granted, and are closed in their order.
async fn changes(channel: &Channel) -> anyhow::Result<(Times, f64)> {
    let mut due = interval(Duration::from_secs(1) / RATE as u32);
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut calls, mut times, began) = (JoinSet::new(), Times::default(), Instant::now());
    for n in 0..RATE * SECONDS {
        let moment = due.tick().await;
        let channel = channel.clone();
        calls.spawn(async move {
            if n % 2 == 0 {
                open(&channel, OPEN + n).await?;
            } else {
                close(&channel, n / 2).await?;
            }
            Ok::<Duration, Status>(moment.elapsed())
        });
        while let Some(ended) = calls.try_join_next() {
            times.add(ended??);
        }
    }
    while let Some(ended) = calls.join_next().await {
        times.add(ended??);
    }
    Ok((times, began.elapsed().as_secs_f64()))
}

async fn open(channel: &Channel, n: u64) -> Result<pb::OpenTicketResponse, Status> {
    let key = Some(pb::Key { package: crate::history::package(n), ..pb::Key::default() });
    let (owner, pool) = (format!("owner-{}", n % OWNERS), format!("pool-{}", n % POOLS));
    let asked = pb::OpenTicketRequest { ticket: n.to_string(), key, owner, pool, ..Default::default() };
    PlacementClient::new(channel.clone()).open_ticket(asked).await.map(tonic::Response::into_inner)
}

async fn close(channel: &Channel, n: u64) -> Result<(), Status> {
    let asked = pb::CloseTicketRequest {
        ticket: n.to_string(),
        owner: format!("owner-{}", n % OWNERS),
        ..Default::default()
    };
    PlacementClient::new(channel.clone()).close_ticket(asked).await.map(drop)
}

/// What the server's own histogram says of its decisions.
fn decisions(server: &Server) -> anyhow::Result<String> {
    let (_status, text) = server.get("/metrics")?;
    let buckets =
        text.lines().filter_map(|line| line.strip_prefix("plimsoll_ticket_decision_seconds_bucket{le=\""));
    let buckets: Vec<(String, f64)> = buckets
        .filter_map(|line| {
            let (bound, count) = line.split_once("\"} ")?;
            Some((bound.to_owned(), count.split(' ').next()?.parse().ok()?))
        })
        .collect();
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    let below = |share: f64| {
        let found = buckets.iter().find(|(_, count)| *count >= all * share);
        found.map_or_else(|| "?".to_owned(), |(bound, _)| bound.clone())
    };
    Ok(format!("half within {} s, 99 of 100 within {} s, {all:.0} of them", below(0.5), below(0.99)))
}
