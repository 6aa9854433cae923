//! The life of the server: build (bind, open, read), run (serve until told to stop), drain. The only place that starts long
//! tasks.

mod drain;
#[cfg(test)]
mod tests;

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::serve::Listener;
use drain::{Drain, Long, done};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::server::{HealthReporter, HealthService};

use crate::{
    clock::Clock,
    config::Config,
    domain::History,
    files,
    grpc::{self, Calls},
    http,
    ingest::{self, Ingest, Worker},
    judging::{Judging, Sources},
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    store::{Mode, Store, StoreSettings},
};

/// How often the state of the store goes into health and metrics.
const WATCH_STORE: Duration = Duration::from_secs(1);

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
    admission: Option<http::TlsListener>,
    store: Store,
    learned: Learned,
    metrics: Arc<Metrics>,
    ingest: Ingest,
    worker: Worker,
    judging: Judging,
    placing: Placing,
    token: Option<http::Token>,
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
        let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache };
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let learned = Learned::new(History::new(config.history_attempts));
        let metrics = Arc::new(Metrics::new());
        let sources = Sources {
            rules_dir: config.rules_dir.clone(),
            policy_file: config.retry_policy.clone(),
            policy: config.retry.clone(),
        };
        let judging = Judging::open(sources, Arc::clone(&metrics))?;
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
        })
    }

    /// The addresses that are really bound: port 0 becomes a number.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        let admission = self.admission.as_ref().map(Listener::local_addr).transpose()?;
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
        } = app;
        let (tasks, streams, calls) = (TaskTracker::new(), TaskTracker::new(), Calls::default());
        let [telling, stopping, ingesting] = std::array::from_fn(|_| CancellationToken::new());
        let health = HealthReporter::new();
        let predict = Arc::new(config.predict);
        let http_parts = http::Parts {
            metrics: Arc::clone(&metrics),
            store: store.clone(),
            ingest: ingest.clone(),
            learned: learned.clone(),
            predict: Arc::clone(&predict),
            gantry: Arc::new(config.gantry),
            admission: Arc::new(config.admission),
            placing: placing.clone(),
            token,
            calls: calls.clone(),
            stopping: stopping.clone(),
        };
        let grpc_parts = grpc::Parts {
            placing: placing.clone(),
            ingest,
            learned,
            predict,
            metrics: Arc::clone(&metrics),
            calls: calls.clone(),
            connections: files::connections(),
            tasks: streams.clone(),
            stopping: stopping.clone(),
        };
        let work = worker.run(ingesting.clone());
        let worker = tasks.spawn(async {
            work.await;
            Ok(())
        });
        let health_service = HealthService::from_health_reporter(health.clone());
        let watch = watch_store(store.clone(), metrics, health.clone(), telling.clone());
        let files = watch_files(judging, placing, telling.clone());
        let watch = async { tokio::try_join!(watch, files).map(|_both| ()) };
        Self {
            grpc: Long::new("gRPC listener", tasks.spawn(grpc::serve(grpc, grpc_parts, health_service))),
            http: Long::new("HTTP listener", tasks.spawn(serve_http(http, admission, http_parts))),
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

/// The listener of the webhook, if there shall be one.
async fn admission(config: &Config) -> anyhow::Result<Option<http::TlsListener>> {
    let settings = &config.admission;
    let (Some(address), Some(certificate), Some(key)) =
        (settings.listen, settings.certificate.clone(), settings.key.clone())
    else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("admit_listen: cannot listen on {address}"))?;
    let certificate = http::Certificate { chain: certificate, key };
    http::TlsListener::new(listener, certificate).map(Some).context("admit_cert_file, admit_key_file")
}

/// Both HTTP listeners: one that ends early ends both.
async fn serve_http(
    plain: TcpListener,
    admission: Option<http::TlsListener>,
    parts: http::Parts,
) -> anyhow::Result<()> {
    let webhook = async {
        match admission {
            Some(listener) => http::serve_admission(listener, parts.clone()).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(http::serve(plain, parts.clone()), webhook).map(|_both| ())
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

/// Takes over what changes in the operator's files until `end`.
async fn watch_files(judging: Judging, placing: Placing, end: CancellationToken) -> anyhow::Result<()> {
    tokio::try_join!(judging.watch(end.clone()), placing.watch(end)).map(|_both| ())
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
