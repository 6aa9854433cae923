//! What it costs: Predict beside an almost empty call of the same server, samples acknowledged a second, bytes on the wire
//! and on disk, and the agent beside an idle command. Medians of several rounds; loopback only; ends by itself.
//!
//! `cargo run --release --locked --bin bench`

#![expect(clippy::print_stdout, reason = "figures go to stdout")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are printed with three digits"
)]

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plimsoll_proto::v1::{self as pb, agent_message::Message as Sent, predictor_client::PredictorClient};
use plimsoll_tests::{Agent, Profile, Programs, Sender, Server, hello, sample};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const ROUNDS: usize = 5;
const CALLS: usize = 10_000;
const STREAMS: u64 = 32;
const BATCHES: u64 = 100;
const BATCH: u64 = 100;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let programs = Programs::build(Profile::Release)?;
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let server = Server::start(&programs, &data)?;

    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        rates.push(ingest(&server, round).await?);
    }
    let sent = STREAMS * BATCHES * BATCH * ROUNDS as u64;
    println!(
        "samples acknowledged a second, {STREAMS} streams, batches of {BATCH}: {:.0}",
        median(&mut rates)
    );
    println!("disk: {:.1} bytes a sample of seven values, sealed", disk(&data)? / sent as f64);
    println!("wire: {} bytes a sample in a batch of {BATCH}", wire_bytes() / BATCH as usize);

    let channel = Endpoint::new(server.url())?.connect().await?;
    for in_flight in [1, 64] {
        let (mut asked, mut empty) = (Vec::new(), Vec::new());
        let (mut asked_p99, mut empty_p99) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // turn about, so that noise hits both
            let (rate, p99) = calls(&channel, in_flight, true).await?;
            asked.push(rate);
            asked_p99.push(p99);
            let (rate, p99) = calls(&channel, in_flight, false).await?;
            empty.push(rate);
            empty_p99.push(p99);
        }
        println!(
            "{in_flight} in flight: Predict {:.0}/s, p99 {:.0} us; health check {:.0}/s, p99 {:.0} us",
            median(&mut asked),
            median(&mut asked_p99),
            median(&mut empty),
            median(&mut empty_p99)
        );
    }
    agent(&programs, &server, dir.path())
}

async fn ingest(server: &Server, round: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut streams = JoinSet::new();
    for n in 0..STREAMS {
        let (url, attempt) = (server.url(), format!("bench-{round}-{n}"));
        streams.spawn(async move { send(&url, &attempt).await });
    }
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    Ok((STREAMS * BATCHES * BATCH) as f64 / began.elapsed().as_secs_f64())
}

async fn send(url: &str, attempt: &str) -> Result<(), tonic::Status> {
    let mut stream = Sender::connect(url).await?;
    stream.exchange(hello(attempt, "bench")).await?;
    for n in 0..BATCHES {
        let first_sequence = n * BATCH + 1;
        let samples = (first_sequence..first_sequence + BATCH).map(sample).collect();
        stream
            .exchange(Sent::Batch(pb::Batch { attempt: attempt.into(), first_sequence, lost: 0, samples }))
            .await?;
    }
    let last_sequence = BATCHES * BATCH;
    let exit = Some(pb::Exit { code: Some(0), signal: None });
    let wall_ms = last_sequence * 1000;
    let finish =
        pb::Finish { attempt: attempt.into(), last_sequence, wall_ms, exit, ..pb::Finish::default() };
    stream.exchange(Sent::Finish(finish)).await.map(drop)
}

/// Calls a second, and the 99th percentile in microseconds.
async fn calls(channel: &Channel, in_flight: usize, predict: bool) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        callers.spawn(call(channel.clone(), CALLS / in_flight, predict));
    }
    let mut times = Vec::new();
    while let Some(ended) = callers.join_next().await {
        times.extend(ended??);
    }
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Ok((rate, times.get(times.len() * 99 / 100).copied().unwrap_or_default()))
}

/// One caller's calls, one after the other; gives the time of each in microseconds.
async fn call(channel: Channel, count: usize, predict: bool) -> Result<Vec<f64>, tonic::Status> {
    let (mut predictor, mut health) = (PredictorClient::new(channel.clone()), HealthClient::new(channel));
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let asked = Instant::now();
        if predict {
            let key = Some(pb::Key { package: "bench".into(), ..pb::Key::default() });
            predictor.predict(pb::PredictRequest { key }).await?;
        } else {
            health.check(HealthCheckRequest { service: String::new() }).await?;
        }
        times.push(asked.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// The agent beside a command that does nothing, for ten seconds after its fast start.
fn agent(programs: &Programs, server: &Server, dir: &Path) -> anyhow::Result<()> {
    let agent = Agent::new(programs, server.url(), &dir.join("spool"));
    let mut running = agent.command(&["run", "--", "sleep", "22"]).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(11));
    let before = cpu_ticks(running.id())?;
    std::thread::sleep(Duration::from_secs(10));
    // a tick is 10 ms: a hundredth of a second of CPU on every Linux that people use
    let used_us = (cpu_ticks(running.id())? - before) * 10_000;
    let status = fs::read_to_string(format!("/proc/{}/status", running.id()))?;
    let memory =
        |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    println!(
        "agent: about {} us of CPU a sample at 1 Hz; {}; {}",
        used_us / 10,
        memory("VmRSS"),
        memory("RssAnon")
    );
    running.wait()?;
    Ok(())
}

fn cpu_ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no command in stat")?;
    let mut fields = fields.split(' ').skip(11);
    let mut next = || fields.next().context("stat is short")?.parse::<u64>().context("no number");
    Ok(next()? + next()?)
}

fn wire_bytes() -> usize {
    let samples = (1..=BATCH).map(sample).collect();
    prost::Message::encoded_len(&pb::Batch {
        attempt: "bench-0-1".into(),
        first_sequence: 1,
        lost: 0,
        samples,
    })
}

fn disk(dir: &Path) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { disk(&entry.path())? as u64 } else { meta.len() };
    }
    Ok(bytes as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
