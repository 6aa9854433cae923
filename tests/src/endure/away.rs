//! A database that goes away again and again while agents stream, builds run, and callers ask.

use std::{path::Path, process::Child, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use plimsoll_support::postgres::PostgresServer;
use tokio::{sync::watch, task::spawn_blocking};

use super::{
    Dice, Killed,
    agents::{self, World},
    kill::{DEATH_MS, live},
};
use crate::{Agent, Programs, Server, key};

/// One of so many times the standby takes the place of the primary. Otherwise the primary starts again.
const PROMOTION_EVERY: u64 = 3;
/// The primary waits for its standby with each commit, and the standby looks for it often.
const SETTINGS: [&str; 2] = ["synchronous_standby_names=ANY 1 (*)", "wal_retrieve_retry_interval=100ms"];

/// How often, by whom, and after how much.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseCrashes {
    /// Crashes of the primary; after every third one the standby is promoted.
    pub rounds: u64,
    /// Agents that stream.
    pub agents: u64,
    /// Most samples that are acknowledged before the next crash; half of it on average.
    pub work: u64,
    /// Of the dice.
    pub seed: u64,
}

impl DatabaseCrashes {
    /// Crashes the database again and again; then delivers the rest and checks everything. `None` without PostgreSQL on the machine.
    pub async fn run(&self, programs: &Programs) -> anyhow::Result<Option<Killed>> {
        let settings = |_: &Path| SETTINGS.map(str::to_owned).to_vec();
        let Some(first) = PostgresServer::start(settings) else { return Ok(None) };
        let (mut primary, dir) = (Arc::new(first), tempfile::tempdir()?);
        let mut standby = Arc::new(primary.new_standby());
        let url =
            format!("postgres://plimsoll@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port, standby.port);
        let server = Server::start_with(programs, &dir.path().join("data"), &["--store-url", &url])?;
        let mut dice = Dice::new(self.seed);
        let (_place, places) = watch::channel(Some(server.url()));
        let (stop, stops) = watch::channel(false);
        let world = World::new(places, stops);
        let mut agents = agents::start(self.agents, self.seed, &world);
        let mut killed = Killed { least: u64::MAX, ..Killed::default() };
        for round in 1..=self.rounds {
            let before = world.acknowledged();
            live(&world, dice.below(self.work)).await;
            killed.least = killed.least.min(world.acknowledged() - before);
            let build = start_build(programs, &server, dir.path(), round)?;
            tokio::time::sleep(Duration::from_millis(dice.below(DEATH_MS))).await;
            let crashed = Arc::clone(&primary);
            spawn_blocking(move || crashed.crash()).await?;
            // the answer comes from memory
            server.predict(key("zlib")).await.context("while the database was away")?;
            if round.is_multiple_of(PROMOTION_EVERY) {
                (primary, standby) = (standby, primary);
            }
            let (up, down) = (Arc::clone(&primary), Arc::clone(&standby));
            let is_promoted = round.is_multiple_of(PROMOTION_EVERY);
            spawn_blocking(move || bring_back(&up, &down, is_promoted)).await?;
            end_build(build).await?;
            if let Some(ended) = agents.try_join_next() {
                ended??;
            }
        }
        stop.send_replace(true);
        let mut ledger = agents::ended(agents).await?;
        server.wait_until_ready().await;
        killed.checked = agents::complete(&server.url(), &mut ledger).await?;
        (killed.acknowledged, killed.attempts) = (world.acknowledged(), ledger.len() as u64);
        Ok(Some(killed))
    }
}

/// Starts the primary again; or promotes the standby `up`, and makes the old primary its standby.
fn bring_back(up: &PostgresServer, down: &PostgresServer, is_promoted: bool) {
    if is_promoted {
        up.promote();
        down.follow(up);
    } else {
        up.start_again();
    }
}

/// Starts a build beside an agent that ends while the database is away, or soon after.
fn start_build(programs: &Programs, server: &Server, dir: &Path, round: u64) -> anyhow::Result<Child> {
    let agent = Agent::new(programs, server.url(), &dir.join(format!("spool-{round}")));
    let attempt = format!("build-{round}");
    Ok(agent
        .command(&["run", "--quiet", "--attempt", &attempt, "--", "sh", "-c", "sleep 0.3; exit 7"])
        .spawn()?)
}

async fn end_build(mut build: Child) -> anyhow::Result<()> {
    let status = spawn_blocking(move || build.wait()).await??;
    ensure!(status.code() == Some(7), "a build ended with {status}, and its command with 7");
    Ok(())
}
