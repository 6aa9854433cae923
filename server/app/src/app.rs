//! The life of the server: build (bind listeners, open the store, read the history), run (serve
//! until stopped), drain. Long-running tasks are started only here.

mod drain;
mod listeners;
mod opening;
pub(crate) mod program;
mod running;
mod services;
mod standby;
#[cfg(test)]
mod tests;
mod watch;

use std::{fs::File, future::Future, net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};
use drain::Drain;
use listeners::Listeners;
use plimsoll_core::{domain::History, shared_history::SharedHistory, stats::Stats};
use plimsoll_store::Store;
use running::RunningServer;
use standby::Standby;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{
        guard::Guard,
        shared_secret::{SharedTokens, SigningKeys},
    },
    causes::{FailureClassifier, RuleSources},
    ci::{
        gitlab::{self, Follower, Hooks, StoredHook},
        kubernetes::KnownLimitRanges,
    },
    ingest::{Ingest, IngestParts, Worker, job_pods::JobPods},
    pools::PoolRegistry,
    runtime::{clock::Clock, metrics::Metrics, settings::Config, tls::certificates},
    sizing::shadow_mode::ShadowMode,
    tickets::{Demands, Keeper, TicketRegistry},
    verdicts::{VerdictParts, Verdicts},
};

/// Largest file of CA certificates for agents, bytes. It is put into an annotation of the pod, and
/// all annotations together may have 256 KiB.
const CA_BYTES: usize = 64 * 1024;

/// A server that has bound its addresses and read its history, but does not serve yet.
#[derive(Debug)]
pub struct App {
    config: Config,
    listeners: Listeners,
    store: Store,
    history: SharedHistory,
    metrics: Arc<Metrics>,
    ingest: Ingest,
    worker: Worker,
    verdicts: Verdicts,
    classifier: FailureClassifier,
    pools: PoolRegistry,
    shadow: ShadowMode,
    tickets: TicketRegistry,
    keeper: Keeper,
    demands: Demands,
    secrets: Secrets,
    hooks: Hooks,
    limit_ranges: KnownLimitRanges,
    follower: Option<Follower>,
    guard: Guard,
    /// Keeps other servers out of the data directory if the store is in a database.
    dir_lock: Option<File>,
}

/// Secrets that the access file does not contain. They are read once, when the server starts.
#[derive(Debug)]
struct Secrets {
    /// Secret token that GitLab's hooks must send.
    hook: Option<SharedTokens>,
    /// Keys with which GitLab's hooks must be signed.
    signing: Option<SigningKeys>,
    /// Secret in the path of Kubernetes' webhook.
    admission: Option<SharedTokens>,
    /// CA certificates for agents that are added to pods.
    agent_ca: Option<String>,
}

impl Secrets {
    fn read(config: &Config) -> anyhow::Result<Self> {
        let (hook, signing) = (config.gantry.token_file.as_deref(), config.gantry.signing_file.as_deref());
        let admission = config.admission.secret_file.as_deref();
        let agent_ca = config.admission.agent_ca_file.as_deref();
        Ok(Self {
            hook: hook.map(SharedTokens::read).transpose().context("collect_token_file")?,
            signing: signing.map(SigningKeys::read).transpose().context("collect_signing_file")?,
            admission: admission.map(SharedTokens::read_for_path).transpose().context("admit_secret_file")?,
            agent_ca: agent_ca.map(trusted_text).transpose().context("admit_agent_ca_file")?,
        })
    }
}

/// The text of a PEM file with certificates. It must fit into an annotation of a pod.
fn trusted_text(file: &Path) -> anyhow::Result<String> {
    certificates(file)?;
    let text = std::fs::read_to_string(file)?;
    ensure!(
        text.len() <= CA_BYTES,
        "{} has {} bytes, and may have {CA_BYTES}: name a file with the CA of this server alone",
        file.display(),
        text.len()
    );
    Ok(text)
}

/// The bound addresses of the listeners.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Address of the gRPC listener.
    pub grpc: SocketAddr,
    /// Address of the HTTP listener.
    pub http: SocketAddr,
    /// Address of the listener for Kubernetes' webhook, if it is configured.
    pub admission: Option<SocketAddr>,
}

fn shadow_mode(config: &Config, metrics: &Arc<Metrics>) -> anyhow::Result<ShadowMode> {
    ShadowMode::open(config.shadow_file.clone(), config.shadow.clone(), Arc::clone(metrics))
}

fn empty_history(config: &Config) -> SharedHistory {
    SharedHistory::with_stats(History::with_room(config.history_room()), Stats::new(config.stats.clone()))
}

/// What the writer works with, beside what verdicts are decided from.
fn ingest_parts(judged_by: VerdictParts, tickets: &TicketRegistry, config: &Config) -> IngestParts {
    let VerdictParts { store, history, metrics, clock, predict, classifier, job_pods, pools } = judged_by;
    IngestParts {
        store,
        history,
        metrics,
        clock,
        predict,
        classifier,
        job_pods,
        pools,
        tickets: tickets.clone(),
        open_attempts: config.open_attempts,
        retain: config.retain,
        abandon_after: config.abandon_after,
    }
}

impl App {
    /// Binds all listeners, opens the store and reads the history. `None` once `stop` is cancelled: the store is closed then, so that a
    /// standby has it at once.
    /// Errors: an address is in use, or the data directory or the database cannot be used. The text names it and how to fix that.
    pub async fn build(config: Config, stop: &CancellationToken) -> anyhow::Result<Option<Self>> {
        // first, so that an address in use is reported before any slow work
        let listeners = Listeners::bind(&config).await?;
        let secrets = Secrets::read(&config)?;
        let metrics = Arc::new(Metrics::new());
        let gitlab =
            gitlab::GitlabClient::open(&config.gitlab, gitlab::PaceTerms::default(), Arc::clone(&metrics))?;
        let guard = Guard::open(config.access_file.clone(), Arc::clone(&metrics))?;
        let history = empty_history(&config);
        // before the store: a server that waits for it must not find at its turn that a file is wrong
        let classifier = FailureClassifier::open(rule_sources(&config), &history, Arc::clone(&metrics))?;
        let pools = PoolRegistry::open(config.pools_file.clone(), Arc::clone(&metrics))?;
        let shadow = shadow_mode(&config, &metrics)?;
        let standby = Standby::begin_if_shared(&listeners, &config, &metrics, &guard)?;
        let opened = Box::pin(opening::open_store(&config, standby.as_ref(), stop)).await?;
        let Some((store, dir_lock)) = opened else { return Ok(None) };
        let (tickets, keeper) =
            TicketRegistry::new(store.clone(), pools.clone(), Arc::clone(&metrics), Clock);
        let (predict, job_pods, clock) = (Arc::new(config.predict.clone()), JobPods::default(), Clock);
        let judged_by = VerdictParts { store, history, metrics, clock, predict, classifier, job_pods, pools };
        let (ingest, mut worker) = Ingest::new(ingest_parts(judged_by.clone(), &tickets, &config));
        let VerdictParts { store, history, metrics, classifier, pools, .. } = judged_by.clone();
        match stop.run_until_cancelled(Box::pin(read_store(&mut worker, &tickets))).await {
            Some(read) => read?,
            None => return store.close().await.context("closing the store").map(|()| None),
        }
        let found = StoredHook::read_all(&store).await.context("the store: cannot read the job hooks")?;
        let verdicts = Verdicts::new(ingest.clone(), judged_by, Arc::new(config.private.clone()));
        let (hooks, follower) = Hooks::new(
            (store.clone(), Arc::clone(&metrics)),
            ingest.clone(),
            verdicts.clone(),
            gitlab,
            found,
        );
        // now, and not when it serves: a client that connects once its addresses are logged must not meet the standby
        Standby::end(standby).await;
        Ok(Some(Self {
            config,
            listeners,
            store,
            history,
            metrics,
            ingest,
            worker,
            verdicts,
            classifier,
            demands: Demands::new(pools.clone()),
            pools,
            shadow,
            tickets,
            keeper,
            secrets,
            hooks,
            limit_ranges: KnownLimitRanges::default(),
            follower: Some(follower),
            guard,
            dir_lock,
        }))
    }

    /// The bound addresses. A port configured as 0 is replaced by the actual port.
    /// Errors: the system call fails.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        self.listeners.addresses()
    }

    /// Serves until `stop`; the streams of agents run on the threads `agents`
    /// ([`crate::agent_threads`]). Then drains: agents are asked to reconnect, running calls and
    /// queued requests are answered, the store is closed. This takes `drain_timeout` at most, and
    /// two more seconds for closing the store.
    /// Errors: A task failed or ended by itself, or a step of the drain did not finish in time; the text names it. Nothing that was
    /// acknowledged is lost.
    pub async fn run(self, agents: Handle, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let limit = self.config.drain_timeout;
        let mut running = RunningServer::start(self, agents);
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

fn rule_sources(config: &Config) -> RuleSources {
    RuleSources {
        rules_dir: config.rules_dir.clone(),
        policy_file: config.retry_policy.clone(),
        policy: config.retry.clone(),
    }
}

/// Reads what the store has of attempts, failures and tickets.
async fn read_store(worker: &mut Worker, tickets: &TicketRegistry) -> anyhow::Result<()> {
    worker.resume().await.context("the store: cannot read the history")?;
    tickets.resume(worker.open()).await.context("the store: cannot read the tickets")
}
