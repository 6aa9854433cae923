//! How long agents wait when the server that writes is killed.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use plimsoll_client::{
    delivery::{Delivery, Settings},
    trust::Trust,
};
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{
    Programs, QUIET, Server, eventually,
    figures::{Times, metric},
    finish, hello, sample,
};
use tokio::{
    task::{JoinSet, block_in_place},
    time::sleep,
};

use crate::ROUNDS;

/// Agents with a connection each: they run in this process, on the same two cores as servers and database.
const AGENTS: u32 = 3000;
/// Agents that begin at once.
const AT_ONCE: u32 = 200;
/// Longest wait for the server that takes over.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of an agent's spool.
const SPOOL: u64 = 1 << 20;

/// Kills the server that writes again and again, while agents stream.
pub(super) async fn under_agents(
    programs: &Programs,
    database: &PostgresServer,
    dir: &Path,
) -> anyhow::Result<()> {
    let url = database.url(&database.new_database());
    let options = ["--log", QUIET, "--store-url", &url];
    let folder = |name: String| dir.join(name);
    let mut writer = Server::start_with(programs, &folder("writer-first".to_owned()), &options)?;
    let (mut agents_wait, mut taken) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        let standby = Server::start_standby(programs, &folder(format!("writer-{round}")), &options)?;
        let servers = format!("{},{}", writer.url(), standby.url());
        let agents = start(&servers, &folder(format!("spools-{round}")), round, &writer).await?;
        let killed = Instant::now();
        writer.kill()?;
        let mut delivering = JoinSet::new();
        for (attempt, agent) in agents {
            delivering.spawn(deliver(agent, attempt, killed));
        }
        taken.add(until_ready(&standby, killed).await?);
        while let Some(time) = delivering.join_next().await {
            agents_wait.add(time??);
        }
        writer = standby;
    }
    println!("a new writer serves after SIGKILL of the old one: {taken}; goal 8 s");
    println!("  {AGENTS} agents, until all that they have is acknowledged: {agents_wait}; goal of p99 12 s");
    let (standby, begun) =
        (Server::start_standby(programs, &folder("writer-last".to_owned()), &options)?, Instant::now());
    block_in_place(|| writer.stop())?;
    let time = until_ready(&standby, begun).await?;
    println!("  a new writer serves after a clean stop of the old one: {:.1} s", time.as_secs_f64());
    Ok(())
}

/// Starts agents, and waits until each has had a sample acknowledged.
async fn start(
    servers: &str,
    spools: &Path,
    round: usize,
    writer: &Server,
) -> anyhow::Result<Vec<(String, Delivery)>> {
    const SAMPLES: &str = "plimsoll_ingest_samples_total";
    let acknowledged = || anyhow::Ok(metric(&writer.get("/metrics")?.1, SAMPLES).unwrap_or_default());
    let (mut agents, before) = (Vec::new(), acknowledged()?);
    for agent in 0..AGENTS {
        let attempt = format!("agent-{round}-{agent}");
        let hello = hello(&attempt, "bench");
        let settings = settings(servers, spools.join(&attempt));
        let mut delivery = Delivery::start(&settings, hello);
        delivery.push(sample(1));
        agents.push((attempt, delivery));
        if (agent + 1) % AT_ONCE == 0 {
            let reached = async || acknowledged().unwrap_or_default();
            eventually("the agents stream", reached, |now| *now > before + f64::from(agent)).await;
        }
    }
    Ok(agents)
}

fn settings(servers: &str, spool_dir: PathBuf) -> Settings {
    Settings { server: Some(servers.to_owned()), trust: Trust::default(), spool_dir, spool_bytes: SPOOL }
}

/// Ends an attempt whose server is gone; returns the time from then until another has all of it.
async fn deliver(mut agent: Delivery, attempt: String, killed: Instant) -> anyhow::Result<Duration> {
    agent.push(sample(2));
    let finish = finish(&attempt, 2, Some(0));
    let report = agent.finish_with(finish, PATIENCE).await;
    ensure!(report.delivered, "{attempt}: {report:?}");
    Ok(killed.elapsed())
}

/// Waits until the server writes; returns the time since `begun`.
pub(super) async fn until_ready(server: &Server, begun: Instant) -> anyhow::Result<Duration> {
    while server.get("/readyz").is_ok_and(|(status, _)| status != 200) {
        ensure!(begun.elapsed() < PATIENCE, "the standby does not take over");
        sleep(LOOK).await;
    }
    server.get("/readyz").context("the standby is gone")?;
    Ok(begun.elapsed())
}
