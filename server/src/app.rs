//! The life of the server: build (bind, open, read), run (serve until told to stop), drain. The only place that starts long
//! tasks.

mod drain;
mod listeners;
mod running;
#[cfg(test)]
mod tests;
mod watch;

use std::{future::Future, net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context as _;
use drain::Drain;
use listeners::Listeners;
use running::Running;
use tokio::runtime::Handle;

use crate::{
    clock::Clock,
    config::Config,
    demand::Demands,
    domain::History,
    gitlab::{self, Follower, Found, Hooks, Spool},
    guard::Guard,
    http,
    ingest::{self, Ingest, JobPods, Worker},
    judging::{Judging, Sources},
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    stats::Stats,
    store::{Store, StoreSettings},
    ticketing::{Keeper, Ticketing},
};

/// A server that has its addresses and its history, and does not serve yet.
#[derive(Debug)]
pub struct App {
    config: Config,
    listeners: Listeners,
    store: Store,
    learned: Learned,
    metrics: Arc<Metrics>,
    ingest: Ingest,
    worker: Worker,
    judging: Judging,
    placing: Placing,
    ticketing: Ticketing,
    keeper: Keeper,
    demands: Demands,
    token: Option<http::Token>,
    signing: Option<http::Signing>,
    hooks: Hooks,
    follower: Option<Follower>,
    guard: Guard,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// gRPC.
    pub grpc: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// The webhook, if there is one.
    pub admission: Option<SocketAddr>,
}

impl App {
    /// Binds all listeners, opens the store and reads the history.
    ///
    /// # Errors
    /// An address is taken, or the data directory cannot be used; the text says which and what helps.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        // before any heavy work: an address that is taken is known at once
        let listeners = Listeners::bind(&config).await?;
        let file = config.gantry.token_file.as_deref();
        let token = file.map(http::Token::read).transpose().context("collect_token_file")?;
        let file = config.gantry.signing_file.as_deref();
        let signing = file.map(http::Signing::read).transpose().context("collect_signing_file")?;
        let metrics = Arc::new(Metrics::new());
        let gitlab = gitlab::Client::open(&config.gitlab, gitlab::Terms::default(), Arc::clone(&metrics))?;
        let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache };
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let stats = Stats::new(config.stats.clone());
        let learned = Learned::with_stats(History::with_room(config.history_room()), stats);
        let sources = Sources {
            rules_dir: config.rules_dir.clone(),
            policy_file: config.retry_policy.clone(),
            policy: config.retry.clone(),
        };
        let judging = Judging::open(sources, Arc::clone(&metrics))?;
        let guard = Guard::open(config.access_file.clone(), Arc::clone(&metrics))?;
        let placing = Placing::open(config.pools_file.clone(), Arc::clone(&metrics))?;
        let (ticketing, keeper) = Ticketing::new(store.clone(), placing.clone(), Arc::clone(&metrics), Clock);
        let (ingest, mut worker) = Ingest::new(ingest::Parts {
            store: store.clone(),
            learned: learned.clone(),
            metrics: Arc::clone(&metrics),
            clock: Clock,
            predict: Arc::new(config.predict.clone()),
            judging: judging.clone(),
            placing: placing.clone(),
            ticketing: ticketing.clone(),
            pods: JobPods::default(),
            open_attempts: config.open_attempts,
            retain: config.retain,
            abandon_after: config.abandon_after,
        });
        worker.resume().await.context("data_dir: cannot read the history")?;
        ticketing.resume(worker.open()).await.context("data_dir: cannot read the tickets")?;
        let kept = hooks_on_disk(&config.data_dir, &metrics).await;
        let (hooks, follower) = Hooks::new(ingest.clone(), gitlab, kept, Arc::clone(&metrics));
        Ok(Self {
            config,
            listeners,
            store,
            learned,
            metrics,
            ingest,
            worker,
            judging,
            demands: Demands::new(placing.clone()),
            placing,
            ticketing,
            keeper,
            token,
            signing,
            hooks,
            follower: Some(follower),
            guard,
        })
    }

    /// The addresses that are really bound: port 0 becomes a number.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        self.listeners.addresses()
    }

    /// Serves until `stop`, the streams of agents on `agents` ([`crate::agent_threads`]), then drains: streams are told to come back,
    /// running calls and queued requests are answered, the store is closed. All of it takes `drain_timeout` at most, and the two seconds that the store has in any case.
    ///
    /// # Errors
    /// The name of the task that failed or ended by itself, or of the first thing that was not done in time. Nothing
    /// acknowledged is lost in any case.
    pub async fn run(self, agents: Handle, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let limit = self.config.drain_timeout;
        let mut running = Running::start(self, agents);
        let trouble = tokio::select! {
            biased;
            error = running.ended_early() => Some(error),
            () = stop => None,
        };
        let why = trouble.as_ref().map_or_else(|| "asked to".to_owned(), |error| format!("{error:#}"));
        tracing::info!(why, "stopping");
        running.drain(Drain::begin(limit, trouble)).await
    }
}

/// Job hooks that wait on disk. Without them the server still takes hooks, and a kill loses those that wait.
async fn hooks_on_disk(data_dir: &Path, metrics: &Arc<Metrics>) -> Option<(Spool, Vec<Found>)> {
    let (dir, metrics) = (data_dir.to_owned(), Arc::clone(metrics));
    let opened = tokio::task::spawn_blocking(move || Spool::open(&dir, &metrics)).await;
    let opened = opened.context("it ended badly").and_then(|opened| Ok(opened?));
    opened
        .inspect_err(|error| {
            tracing::error!(
                error = format!("{error:#}"),
                "job hooks cannot be kept on disk: they wait in memory"
            );
        })
        .ok()
}
