//! The life of the server: build (bind, open, read), run (serve until told to stop), drain. The only place that starts long
//! tasks.

mod drain;
#[cfg(test)]
mod tests;

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use drain::{Drain, Long, done};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::server::{HealthReporter, HealthService};

use crate::{
    admission,
    clock::Clock,
    config,
    config::Config,
    domain::History,
    files, gantry,
    gitlab::{self, Follower, Hooks},
    grpc::{self, Calls},
    guard::Guard,
    http,
    ingest::{self, Ingest, Worker},
    judging::{Judging, Sources},
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    stats::Stats,
    store::{Mode, Store, StoreSettings},
};

/// How often the state of the store goes into health and metrics.
const WATCH_STORE: Duration = Duration::from_secs(1);

/// How often the room on the disk goes into metrics.
const WATCH_DISK: Duration = Duration::from_secs(10);

/// How long connections without a call may take to end when the server stops: time to send what they hold.
const FLUSH: Duration = Duration::from_secs(1);

/// What closing the store may take at least, however much of the time the calls before it used up.
const CLOSE: Duration = Duration::from_secs(2);

/// A server that has its addresses and its history, and does not serve yet.
#[derive(Debug)]
pub struct App {
    config: Config,
    grpc: TcpListener,
    http: TcpListener,
    admission: Option<(TcpListener, http::Tls)>,
    store: Store,
    learned: Learned,
    metrics: Arc<Metrics>,
    ingest: Ingest,
    worker: Worker,
    judging: Judging,
    placing: Placing,
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
        let bind = async |name, address| {
            TcpListener::bind(address).await.with_context(|| format!("{name}: cannot listen on {address}"))
        };
        // before any heavy work: an address that is taken is known at once
        let grpc = bind("grpc_listen", config.grpc_listen).await?;
        let http = bind("http_listen", config.http_listen).await?;
        let admission = admission(&config).await?;
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
        let learned = Learned::with_stats(History::new(config.history_attempts), stats);
        let sources = Sources {
            rules_dir: config.rules_dir.clone(),
            policy_file: config.retry_policy.clone(),
            policy: config.retry.clone(),
        };
        let judging = Judging::open(sources, Arc::clone(&metrics))?;
        let guard = Guard::open(config.access_file.clone(), Arc::clone(&metrics))?;
        let placing = Placing::open(config.pools_file.clone(), Arc::clone(&metrics))?;
        let (ingest, mut worker) = Ingest::new(ingest::Parts {
            store: store.clone(),
            learned: learned.clone(),
            metrics: Arc::clone(&metrics),
            clock: Clock,
            predict: Arc::new(config.predict.clone()),
            judging: judging.clone(),
            placing: placing.clone(),
            open_attempts: config.open_attempts,
            retain: config.retain,
            abandon_after: config.abandon_after,
        });
        worker.resume().await.context("data_dir: cannot read the history")?;
        let (hooks, follower) = Hooks::new(ingest.clone(), gitlab, Arc::clone(&metrics));
        Ok(Self {
            config,
            grpc,
            http,
            admission,
            store,
            learned,
            metrics,
            ingest,
            worker,
            judging,
            placing,
            token,
            signing,
            hooks,
            follower,
            guard,
        })
    }

    /// The addresses that are really bound: port 0 becomes a number.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        let admission = self.admission.as_ref().map(|(listener, _)| listener.local_addr()).transpose()?;
        Ok(Addresses { grpc: self.grpc.local_addr()?, http: self.http.local_addr()?, admission })
    }

    /// Serves until `stop`, then drains: streams are told to come back, running calls and queued requests are answered, the
    /// store is closed. All of it takes `drain_timeout` at most, and the two seconds that the store has in any case.
    ///
    /// # Errors
    /// The name of the task that failed or ended by itself, or of the first thing that was not done in time. Nothing
    /// acknowledged is lost in any case.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let limit = self.config.drain_timeout;
        let mut running = Running::start(self);
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

/// A server that serves.
#[derive(Debug)]
struct Running {
    store: Store,
    health: HealthReporter,
    calls: Calls,
    streams: TaskTracker,
    /// Ends the watch over the store, which tells the health.
    telling: CancellationToken,
    stopping: CancellationToken,
    ingesting: CancellationToken,
    grpc: Long,
    http: Long,
    watch: Long,
    worker: Long,
}

impl Running {
    fn start(app: App) -> Self {
        let App {
            config,
            grpc,
            http,
            admission,
            store,
            learned,
            metrics,
            ingest,
            worker,
            judging,
            placing,
            token,
            signing,
            hooks,
            follower,
            guard,
        } = app;
        let (tasks, streams, calls) = (TaskTracker::new(), TaskTracker::new(), Calls::default());
        let [telling, stopping, ingesting] = std::array::from_fn(|_| CancellationToken::new());
        let health = HealthReporter::new();
        let connections = files::connections();
        let http_bounds = http::Bounds::of(connections.http);
        let (bounds, shown) = (config.clone(), config.in_force());
        let stats = learned.stats().clone();
        // nobody waits for it: who asks meanwhile waits for what is left
        drop(tasks.spawn_blocking(move || stats.warm()));
        let grpc_parts = grpc::Parts {
            ingest,
            learned,
            predict: Arc::new(config.predict),
            shadow: Arc::new(config.shadow),
            placing: placing.clone(),
            metrics: Arc::clone(&metrics),
            calls: calls.clone(),
            guard: guard.clone(),
            connections: connections.grpc,
            tasks: streams.clone(),
            stopping: stopping.clone(),
        };
        let settings = (Arc::new(config.gantry), Arc::new(config.admission));
        let http_parts = http_parts(&grpc_parts, store.clone(), settings, (token, signing, hooks), shown);
        let worker = tasks.spawn(work(worker, ingesting.clone()));
        tell_bounds(&metrics, &bounds);
        let health_service = HealthService::from_health_reporter(health.clone());
        let disk = watch_disk(bounds.data_dir, Arc::clone(&metrics), telling.clone());
        let watch = watches((store.clone(), metrics, health.clone()), judging, guard, telling.clone());
        let pools = placing.watch(telling.clone());
        let following = follow(follower, telling.clone());
        let watch = async { tokio::try_join!(watch, disk, pools, following).map(|_all| ()) };
        Self {
            grpc: Long::new("gRPC listener", tasks.spawn(grpc::serve(grpc, grpc_parts, health_service))),
            http: Long::new(
                "HTTP listener",
                tasks.spawn(serve_http(http, admission, http_parts, http_bounds)),
            ),
            watch: Long::new("watch over the store", tasks.spawn(watch)),
            worker: Long::new("ingest", worker),
            store,
            health,
            calls,
            streams,
            telling,
            stopping,
            ingesting,
        }
    }

    /// Waits until a part ends although nobody asked it to.
    async fn ended_early(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.worker.ended_early() => error,
            error = self.grpc.ended_early() => error,
            error = self.http.ended_early() => error,
            error = self.watch.ended_early() => error,
        }
    }

    /// From the outside in: who asks is told first, and the store goes last.
    async fn drain(mut self, mut drain: Drain) -> anyhow::Result<()> {
        self.telling.cancel();
        drain.step(self.watch.ended(), || "the state of the store was still told".to_owned()).await;
        grpc::set_health(&self.health, false, false).await;
        self.stopping.cancel();
        self.streams.close();
        let open = || format!("streams were still open ({})", self.streams.len());
        drain.step(done(self.streams.wait()), open).await;
        self.calls.cut();
        let unanswered = || format!("calls were still running ({})", self.calls.running());
        drain.step(done(self.calls.ended()), unanswered).await;
        drain.step(flush(&mut self.grpc, &mut self.http), || "connections were still open".to_owned()).await;
        self.ingesting.cancel();
        drain.step(self.worker.ended(), || "the ingest was still writing".to_owned()).await;
        drain.at_least(CLOSE);
        let closed = async { self.store.close().await.context("closing the store") };
        drain.step(closed, || "the store was still closing".to_owned()).await;
        drain.end()
    }
}

/// What the HTTP listener looks at: what the gRPC one does, and more.
fn http_parts(
    shared: &grpc::Parts,
    store: Store,
    (gantry, admission): (Arc<gantry::Settings>, Arc<admission::Settings>),
    (token, signing, hooks): (Option<http::Token>, Option<http::Signing>, Hooks),
    shown: Vec<config::InForce>,
) -> http::Parts {
    http::Parts {
        inside: grpc::Inside::new(shared),
        shown: Arc::new(shown),
        store,
        gantry,
        admission,
        token,
        signing,
        hooks,
        ingest: shared.ingest.clone(),
        learned: shared.learned.clone(),
        predict: Arc::clone(&shared.predict),
        shadow: Arc::clone(&shared.shadow),
        placing: shared.placing.clone(),
        metrics: Arc::clone(&shared.metrics),
        calls: shared.calls.clone(),
        guard: shared.guard.clone(),
        stopping: shared.stopping.clone(),
    }
}

/// Asks GitLab about ended jobs, where it may be asked.
async fn follow(follower: Option<Follower>, end: CancellationToken) -> anyhow::Result<()> {
    match follower {
        Some(follower) => follower.run(end).await,
        None => Ok(()),
    }
}

async fn work(worker: Worker, end: CancellationToken) -> anyhow::Result<()> {
    worker.run(end).await;
    Ok(())
}

/// All that is looked at again and again until `end`: the state of the store, rules and terms, who may call.
async fn watches(
    (store, metrics, health): (Store, Arc<Metrics>, HealthReporter),
    judging: Judging,
    guard: Guard,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let store = watch_store(store, metrics, health, end.clone());
    tokio::try_join!(store, judging.watch(end.clone()), guard.watch(end)).map(|_all| ())
}

/// The listener of the webhook, if there shall be one.
async fn admission(config: &Config) -> anyhow::Result<Option<(TcpListener, http::Tls)>> {
    let settings = &config.admission;
    let (Some(address), Some(certificate), Some(key)) =
        (settings.listen, settings.certificate.clone(), settings.key.clone())
    else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("admit_listen: cannot listen on {address}"))?;
    let certificate = http::Certificate { chain: certificate, key, client_ca: settings.client_ca.clone() };
    let tls = http::Tls::new(certificate).context("admit_cert_file, admit_key_file, admit_client_ca_file")?;
    Ok(Some((listener, tls)))
}

/// Both HTTP listeners, until the server stops.
async fn serve_http(
    plain: TcpListener,
    admission: Option<(TcpListener, http::Tls)>,
    parts: http::Parts,
    bounds: http::Bounds,
) -> anyhow::Result<()> {
    let webhook = async {
        if let Some(listener) = admission {
            http::serve_admission(listener, parts.clone(), bounds).await;
        }
    };
    tokio::join!(http::serve(plain, parts.clone(), bounds), webhook);
    Ok(())
}

/// Lets connections end. Those that only stay open without a call are cut off, which nobody misses.
async fn flush(grpc: &mut Long, http: &mut Long) -> anyhow::Result<()> {
    let ended = async { tokio::try_join!(grpc.ended(), http.ended()) };
    match tokio::time::timeout(FLUSH, ended).await {
        Ok(ended) => ended.map(|_both| ()),
        Err(_open) => {
            tracing::debug!("cut off connections without a call");
            Ok(())
        }
    }
}

/// Says which bounds are in force, beside the numbers that they bound.
fn tell_bounds(metrics: &Metrics, config: &Config) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    metrics.open_attempts_max.set(number(config.open_attempts));
    metrics.history_attempts_max.set(number(config.history_attempts));
    metrics.shadow.set(i64::from(config.shadow.on));
    metrics.queue_max.set(number(ingest::QUEUE));
    metrics.series_max_bytes.set(config.retain.max_bytes.map_or(0, |most| most.0));
}

/// Carries the room on the disk of the store into the metrics until `end`.
async fn watch_disk(data_dir: PathBuf, metrics: Arc<Metrics>, end: CancellationToken) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(WATCH_DISK);
    while end.run_until_cancelled(tick.tick()).await.is_some() {
        let dir = data_dir.clone();
        // a disk on a network that hangs must not hold up the server
        let looking = tokio::task::spawn_blocking(move || files::disk(&dir));
        match end.run_until_cancelled(looking).await {
            Some(Ok(Ok(disk))) => {
                metrics.disk_free_bytes.set(disk.free);
                metrics.disk_bytes.set(disk.size);
            }
            Some(Ok(Err(error))) => tracing::debug!(%error, "the room on the disk is not known"),
            Some(Err(error)) => tracing::error!(%error, "looking at the disk ended badly"),
            None => {}
        }
    }
    Ok(())
}

/// Carries the state of the store into health and metrics until `end`.
async fn watch_store(
    store: Store,
    metrics: Arc<Metrics>,
    health: HealthReporter,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let mut was_writable = None;
    let mut tick = tokio::time::interval(WATCH_STORE);
    while end.run_until_cancelled(tick.tick()).await.is_some() {
        let status = store.status();
        let writable = status.mode == Mode::Writable;
        metrics.store_bytes.set(status.bytes_on_disk);
        metrics.store_writable.set(i64::from(writable));
        if was_writable.replace(writable) == Some(writable) {
            continue;
        }
        grpc::set_health(&health, true, writable).await;
        if let Mode::ReadOnly { reason } = status.mode {
            tracing::error!(reason, "the store takes no writes");
        }
    }
    Ok(())
}
