//! A fleet of agents at one sample a second each, over a bounded number of connections and for a bounded time, on loopback:
//! what the server acknowledges, how long it takes, how long its queue gets, and what Predict takes beside it. In the same
//! run the same fleet streams to a bare server that only answers, and the standard health check stands for an empty call.
//!
//! `cargo run --release --locked --bin fleet -- [AGENTS] [CONNECTIONS] [SECONDS]`; 3600 seconds are a soak: attempts end and
//! begin all the time, and the figures of each minute are printed.

#![expect(clippy::print_stdout, reason = "figures go to stdout")]

mod agents;
mod asking;
mod bare;
mod figures;

use std::{env, time::Duration};

use anyhow::Context as _;
use plimsoll_tests::{Profile, Programs, Server};
use tokio::sync::watch;

use crate::{
    agents::Fleet,
    figures::{Times, process},
};

const AGENTS: u64 = 10_000;
const CONNECTIONS: u64 = 100;
const SECONDS: u64 = 30;
/// Calls of each kind a second, at a fixed rate.
const CALLS: u64 = 200;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let mut number = |default| words.next().map_or(Ok(default), |word| word.parse::<u64>());
    let (agents, connections, seconds) = (number(AGENTS)?, number(CONNECTIONS)?, number(SECONDS)?);
    let fleet = Fleet { agents, connections, time: Duration::from_secs(seconds) };

    let bare = bare::start().await?;
    tell("a bare stream", &fleet, fleet.run(&format!("http://{bare}")).await?);

    let dir = tempfile::tempdir()?;
    let server = Server::start(&Programs::build(Profile::Release)?, &dir.path().join("data"))?;
    let (url, (stop, stops)) = (server.url(), watch::channel(false));
    let watching = async {
        let asked = asking::ask(&url, CALLS, stops.clone());
        let looked = look(&server, stops.clone());
        tokio::try_join!(asked, looked)
    };
    let (_, cpu_before) = process(server.pid())?;
    let running = async {
        let run = fleet.run(&url).await;
        stop.send_replace(true);
        run
    };
    let (run, ((predict, health), (queue, memory))) = tokio::try_join!(running, watching)?;
    let (_, cpu) = process(server.pid())?;
    tell("plimsoll-server", &fleet, run);
    println!(
        "  queue at most {queue} requests, {memory} MiB resident at most, {} ms of CPU",
        cpu - cpu_before
    );
    println!("  Predict at {CALLS}/s: {predict}");
    println!("  health check at {CALLS}/s: {health}");
    Ok(())
}

fn tell(what: &str, fleet: &Fleet, (acknowledged, refused, times): (u64, u64, Times)) {
    let seconds = fleet.time.as_secs().max(1);
    println!(
        "{what}: {} agents on {} connections for {seconds} s: {} samples acknowledged a second, {refused} streams broken",
        fleet.agents,
        fleet.connections,
        acknowledged / seconds
    );
    println!("  from sending to acknowledgement: {times}");
}

/// Looks at the server every second until `stop`; gives the longest queue and the most memory, MiB.
async fn look(server: &Server, mut stop: watch::Receiver<bool>) -> anyhow::Result<(u64, u64)> {
    let (mut queue, mut memory, mut looks) = (0, 0, 0_u64);
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stop.changed() => return Ok((queue, memory)),
        }
        let (_, metrics) = tokio::task::block_in_place(|| server.get("/metrics"))?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("plimsoll_ingest_queue_requests "));
        let now: u64 = line.context("no metric of the queue")?.parse()?;
        let (resident, cpu) = process(server.pid())?;
        (queue, memory) = (queue.max(now), memory.max(resident));
        looks += 1;
        if looks.is_multiple_of(60) {
            println!("  after {looks} s: queue {now}, {resident} MiB resident, {cpu} ms of CPU");
        }
    }
}
