//! The life of the server: build (bind, open, read), run (serve until told to stop), drain. The only place that starts long
//! tasks.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::server::HealthReporter;

use crate::{
    clock::Clock,
    config::Config,
    domain::History,
    grpc, http,
    ingest::{self, Ingest, Worker},
    learned::Learned,
    metrics::Metrics,
    store::{Mode, Store, StoreSettings},
};

/// How often the state of the store goes into health and metrics.
const WATCH_STORE: Duration = Duration::from_secs(1);

/// A server that has its addresses and its history, and does not serve yet.
#[derive(Debug)]
pub struct App {
    config: Config,
    grpc: TcpListener,
    http: TcpListener,
    store: Store,
    learned: Learned,
    metrics: Arc<Metrics>,
    ingest: Ingest,
    worker: Worker,
}

impl App {
    /// Binds both listeners, opens the store and reads the history.
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
        let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache };
        let opened = tokio::task::spawn_blocking(move || Store::open(&settings)).await;
        let store = opened.context("data_dir: opening the store ended badly")?.context("data_dir")?;
        let learned = Learned::new(History::new(config.history_attempts));
        let metrics = Arc::new(Metrics::new());
        let (ingest, mut worker) = Ingest::new(ingest::Parts {
            store: store.clone(),
            learned: learned.clone(),
            metrics: Arc::clone(&metrics),
            clock: Clock,
            predict: Arc::new(config.predict.clone()),
            retry: config.retry.clone(),
            open_attempts: config.open_attempts,
            abandon_after: config.abandon_after,
        });
        worker.resume().await.context("data_dir: cannot read the history")?;
        Ok(Self { config, grpc, http, store, learned, metrics, ingest, worker })
    }

    /// The addresses that are really bound (port 0 becomes a number): gRPC, HTTP.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.grpc.local_addr()?, self.http.local_addr()?))
    }

    /// Serves until `stop`, then drains: streams are told to come back, queued requests are answered, the store is closed.
    ///
    /// # Errors
    /// A listener failed, or draining took longer than `drain_timeout`. Nothing acknowledged is lost in either case.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (tasks, streams) = (TaskTracker::new(), TaskTracker::new());
        let (ingesting, stopping) = (CancellationToken::new(), CancellationToken::new());
        let worker = tasks.spawn(self.worker.run(ingesting.clone()));
        let (health, health_service) = tonic_health::server::health_reporter();
        let grpc_parts = grpc::Parts {
            ingest: self.ingest,
            learned: self.learned,
            predict: Arc::new(self.config.predict),
            metrics: Arc::clone(&self.metrics),
            tasks: streams.clone(),
            stopping: stopping.clone(),
        };
        let http_parts = http::Parts {
            metrics: Arc::clone(&self.metrics),
            store: self.store.clone(),
            stopping: stopping.clone(),
        };
        let serve = async {
            tokio::try_join!(
                grpc::serve(self.grpc, grpc_parts, health_service),
                http::serve(self.http, http_parts),
                watch_store(&self.store, &self.metrics, &health, &stopping),
            )?;
            Ok(())
        };
        let end = async {
            stop.await;
            tracing::info!("stopping");
            grpc::set_health(&health, false, false).await;
            stopping.cancel();
        };
        let limit = self.config.drain_timeout;
        let served = serve_until(serve, end, limit, &stopping).await;
        streams.close();
        let drain = async {
            streams.wait().await;
            ingesting.cancel();
            worker.await.context("the ingest ended badly")
        };
        let drained = tokio::time::timeout(limit, drain).await;
        self.store.close().await.context("closing the store")?;
        served?;
        drained.context(
            "requests were still running at the end of drain_timeout; what was acknowledged is on disk",
        )?
    }
}

/// Serves until `end`, then gives running calls `limit` to finish. If serving fails by itself, everything is told to stop.
async fn serve_until(
    serve: impl Future<Output = anyhow::Result<()>>,
    end: impl Future<Output = ()>,
    limit: Duration,
    stopping: &CancellationToken,
) -> anyhow::Result<()> {
    let mut serve = std::pin::pin!(serve);
    tokio::select! {
        failed = &mut serve => {
            stopping.cancel();
            failed
        }
        () = end => {
            // clients that keep a call open longer than that are cut off; the caller reports it
            tokio::time::timeout(limit, serve).await.unwrap_or(Ok(()))
        }
    }
}

/// Carries the state of the store into health and metrics until `stopping`.
async fn watch_store(
    store: &Store,
    metrics: &Metrics,
    health: &HealthReporter,
    stopping: &CancellationToken,
) -> anyhow::Result<()> {
    let mut was_writable = None;
    let mut tick = tokio::time::interval(WATCH_STORE);
    while stopping.run_until_cancelled(tick.tick()).await.is_some() {
        let status = store.status();
        let writable = status.mode == Mode::Writable;
        metrics.store_bytes.set(status.bytes_on_disk);
        metrics.store_writable.set(i64::from(writable));
        if was_writable.replace(writable) == Some(writable) {
            continue;
        }
        grpc::set_health(health, true, writable).await;
        if let Mode::ReadOnly { reason } = status.mode {
            tracing::error!(reason, "the store takes no writes");
        }
    }
    Ok(())
}
