//! A serving server: its parts, and how they are shut down.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use plimsoll_core::stats::Stats;
use plimsoll_store::Store;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::server::HealthReporter;

use super::{
    App,
    drain::{Drain, Long, done},
    listeners::Listeners,
    services, watch,
};
use crate::{
    runtime::net::{
        accept::Listener,
        files::{self, Connections},
        response_budget::ResponseBudget,
    },
    sessions::{Ingest, Rejudging, Worker},
    state::tickets::Keeper,
    transport::{
        calls::Calls,
        grpc, http,
        state::{HttpParts, HttpState},
    },
};

/// Time that open connections get to send their data when the server stops.
const FLUSH: Duration = Duration::from_secs(1);

/// Least time for closing the store, however long the steps before it took.
const CLOSE: Duration = Duration::from_secs(2);

/// A server that accepts requests: its parts and the tokens that stop them.
#[derive(Debug)]
pub(super) struct Running {
    store: Store,
    health: HealthReporter,
    calls: Calls,
    streams: TaskTracker,
    /// Stops all periodic tasks that [`watch::all`] starts.
    telling: CancellationToken,
    stopping: CancellationToken,
    ingesting: CancellationToken,
    grpc: Long,
    http: Long,
    watch: Long,
    pub(super) worker: Long,
}

/// Prepares the statistics in the background. A request for statistics that arrives earlier waits
/// until they are ready.
fn warm(tasks: &TaskTracker, stats: Stats) {
    drop(tasks.spawn_blocking(move || stats.warm()));
}

impl Running {
    /// Starts every part.
    pub(super) fn start(mut app: App, agents: Handle) -> Self {
        let (tasks, streams, health) = <(TaskTracker, TaskTracker, HealthReporter)>::default();
        let calls = Calls::new(ResponseBudget::new(
            app.metrics.answers_unsent.clone(),
            app.metrics.answers_dropped.clone(),
        ));
        let [telling, stopping, ingesting] = std::array::from_fn(|_| CancellationToken::new());
        warm(&tasks, app.history.stats().clone());
        let watch = watch::all(&mut app, health.clone(), &telling);
        let services = services::services(&app);
        let pods = services::pod_reviewer(&app, &services);
        let App { config, listeners, store, worker, keeper, secrets, hooks, .. } = app;
        let Listeners { grpc, http, admission: webhook, agent_files } = listeners;
        let (connections, shown) = (files::connections(config.http_connections), Arc::new(config.in_force()));
        let grpc_parts = grpc::Parts {
            services: services.clone(),
            ingest: app.ingest.clone(),
            pools: app.pools,
            metrics: Arc::clone(&app.metrics),
            calls: calls.clone(),
            guard: app.guard.clone(),
            connections: connections.grpc,
            agents,
            tasks: streams.clone(),
            stopping: stopping.clone(),
        };
        let http_parts = HttpParts {
            services,
            agent_files: Arc::new(agent_files),
            shown,
            store: store.clone(),
            backup_remote: config.backup_remote,
            hosts: config.http_hosts.into(),
            gantry: Arc::new(config.gantry),
            pods,
            token: secrets.hook,
            signing: secrets.signing,
            admission_secret: secrets.admission,
            hooks,
            metrics: app.metrics,
            calls: calls.clone(),
            guard: app.guard,
            grpc_port: grpc.tcp.local_addr().ok().map(|address| address.port()),
            stopping: stopping.clone(),
        };
        let serving_http = serve_http(http, webhook, Arc::new(http_parts), connections);
        Self {
            worker: Long::new("ingest", tasks.spawn(work(worker, app.ingest, keeper, ingesting.clone()))),
            grpc: Long::new("gRPC listener", tasks.spawn(grpc::serve(grpc, grpc_parts, health.clone()))),
            http: Long::new("HTTP listener", tasks.spawn(serving_http)),
            watch: Long::new("watch over the store", tasks.spawn(watch)),
            store,
            health,
            calls,
            streams,
            telling,
            stopping,
            ingesting,
        }
    }

    /// Waits until a part of the server ends by itself.
    pub(super) async fn ended_early(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.worker.ended_early() => error,
            error = self.grpc.ended_early() => error,
            error = self.http.ended_early() => error,
            error = self.watch.ended_early() => error,
        }
    }

    /// Shuts down in an order such that callers get their answers first, and the store is closed
    /// last.
    pub(super) async fn drain(mut self, mut drain: Drain) -> anyhow::Result<()> {
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

/// Runs the sessions and the tickets. At shutdown the tickets end last, because attempts that end
/// also end their tickets.
async fn work(
    mut worker: Worker,
    ingest: Ingest,
    keeper: Keeper,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let rejudging = Rejudging::new(ingest, &mut worker);
    let ended = CancellationToken::new();
    let ingesting = async {
        worker.run(end.clone()).await;
        ended.cancel();
    };
    tokio::join!(ingesting, rejudging.run(end.clone()), keeper.run(ended.clone()));
    Ok(())
}

/// Serves both HTTP listeners until the server stops.
async fn serve_http(
    listener: Listener,
    admission: Option<Listener>,
    parts: HttpState,
    connections: Connections,
) -> anyhow::Result<()> {
    let webhook = async {
        if let Some(listener) = admission {
            http::serve_admission(listener, Arc::clone(&parts), http::bounds(connections.webhook)).await;
        }
    };
    tokio::join!(http::serve(listener, Arc::clone(&parts), http::bounds(connections.http)), webhook);
    Ok(())
}

/// Waits until the connections have ended, and then closes the rest: they are idle, so nothing is
/// lost.
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
