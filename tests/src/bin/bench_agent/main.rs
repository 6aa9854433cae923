//! What the agent costs, beside what people use today: our agent with a server connected, `node_exporter` scraped every
//! second, and a `psutil` loop ten times and once a second. All watch the same build at the same time, one that needs 64 MiB
//! for 0.3 s again and again; then the time that `plimsoll run` adds to a command. About a minute after compiling. A peer that
//! is not installed is left out, and the table says so.
//!
//! `cargo run --release --locked --bin bench_agent [-- PATH/TO/plimsoll]`; without a path it is the agent with the features of the whole
//! workspace, which is larger than the one that `cargo build --release --locked -p plimsoll-agent` makes.

#![expect(clippy::print_stdout, reason = "figures go to stdout")]
#![expect(clippy::cast_precision_loss, reason = "figures are printed with three digits")]

mod peers;
mod process;
mod spikes;

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use peers::Seen;
use plimsoll_proto::v1::{GetAttemptRequest, stats_client::StatsClient};
use plimsoll_tests::{Agent, Profile, Programs, Server};
use process::Cost;

/// Executions of the short command, each way.
const RUNS: usize = 300;
/// Between the start of the spikes' program and the first look at costs: starting is not what a long build pays.
const WARM_UP: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == "spikes") {
        return spikes::make();
    }
    let mut programs = Programs::build(Profile::Release)?;
    programs.agent = first.map_or(programs.agent, PathBuf::from);
    let dir = tempfile::tempdir()?;
    let server = Server::start(&programs, &dir.path().join("data"))?;
    let agent = Agent::new(&programs, server.url(), &dir.path().join("spool"));
    println!("the agent: {}, {} bytes", programs.agent.display(), programs.agent.metadata()?.len());
    watch(&agent, &server).await?;
    latency(&agent)
}

/// All of them watch the same program.
async fn watch(agent: &Agent, server: &Server) -> anyhow::Result<()> {
    let own = env::current_exe()?;
    let own = own.to_str().context("a path without a name")?;
    let arguments = ["run", "--quiet", "--attempt", "bench-agent", "--", own, "spikes"];
    let mut ours = agent.command(&arguments).stdout(Stdio::null()).spawn()?;
    let build = process::child_of(ours.id())?;
    let (peers, absent) = peers::start(build)?;
    thread::sleep(WARM_UP);
    let begin = Instant::now();
    let before = Cost::of(ours.id())?;
    let mut peers_before = Vec::new();
    for peer in &peers {
        peers_before.push(Cost::of(peer.pid())?);
    }
    thread::sleep((spikes::lasts() + spikes::BEFORE).saturating_sub(WARM_UP + Duration::from_secs(2)));
    let seconds = begin.elapsed().as_secs_f64();
    let after = Cost::of(ours.id())?;
    let mut rows = Vec::new();
    for (peer, before) in peers.into_iter().zip(peers_before) {
        let after = Cost::of(peer.pid())?;
        rows.push((peer.name(), before, after, peer.stop()?));
    }
    ensure!(ours.wait()?.success(), "the agent failed");
    let seen = seen_by_agent(server).await?;
    println!(
        "\n{:<28} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "over the same build", "CPU", "RSS", "private", "written", "spikes"
    );
    row("plimsoll, server connected", &before, &after, seconds, &seen);
    for (name, before, after, seen) in rows {
        row(name, &before, &after, seconds, &seen);
    }
    for why in absent {
        println!("{why}");
    }
    Ok(())
}

fn row(name: &str, before: &Cost, after: &Cost, seconds: f64, seen: &Seen) {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let cpu = format!("{:.3} %", after.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds * 100.0);
    let (rss, private, dirty) = (mib(after.rss), mib(after.private), mib(after.dirty));
    let spikes = format!("{}/{}", seen.rises(spikes::BYTES / 2), spikes::COUNT);
    println!("{name:<28} {cpu:>9} {rss:>9} {private:>9} {dirty:>9} {spikes:>7}");
}

/// What the server has of the build, row by row.
async fn seen_by_agent(server: &Server) -> anyhow::Result<Seen> {
    let mut stats = StatsClient::connect(server.url()).await?;
    let question =
        GetAttemptRequest { attempt: "bench-agent".to_owned(), with_series: true, ..Default::default() };
    let answer = stats.get_attempt(question).await?.into_inner();
    let needs = answer.series.iter().map(|row| row.need_max_bytes.unwrap_or(row.need_bytes));
    Ok(Seen(needs.collect()))
}

/// The time that the agent adds to a short command: medians, turn about, so that noise hits all.
fn latency(agent: &Agent) -> anyhow::Result<()> {
    let command = ["sleep", "0.02"];
    let without = [&["run", "--quiet", "--server", "none", "--"], &command[..]].concat();
    let with = [&["run", "--quiet", "--"], &command[..]].concat();
    let (mut bare, mut alone, mut connected) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        bare.push(time(Command::new("sleep").arg("0.02"))?);
        alone.push(time(&mut agent.command(&without))?);
        connected.push(time(&mut agent.command(&with))?);
    }
    let (bare, alone, connected) = (median(&mut bare), median(&mut alone), median(&mut connected));
    println!("\n`sleep 0.02`, medians of {RUNS}: bare {bare:.2?}");
    println!("plimsoll run without a server: {alone:.2?}, adds {:.2?}", alone.saturating_sub(bare));
    println!("plimsoll run, delivered:       {connected:.2?}, adds {:.2?}", connected.saturating_sub(bare));
    Ok(())
}

fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    ensure!(command.status()?.success(), "a command failed");
    Ok(begin.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
