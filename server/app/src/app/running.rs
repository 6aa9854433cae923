//! A serving server: its parts, and how they are shut down.

use std::{fs::File, sync::Arc, time::Duration};

use anyhow::Context as _;
use plimsoll_core::stats::Stats;
use plimsoll_store::Store;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::server::HealthReporter;

use super::{
    App,
    drain::{Drain, LongTask, infallible_step},
    listeners::Listeners,
    services, watch,
};
use crate::{
    door::{
        calls::Calls,
        grpc, http,
        http_state::{HttpParts, HttpState},
        net::Listener,
    },
    ingest::Worker,
    runtime::open_files::{self, ConnectionLimits},
    tickets::{Keeper, WaitSlots},
    verdicts::{Rejudging, Verdicts},
};

/// Time that open connections get to send their data when the server stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Least time for closing the store, however long the steps before it took.
const MIN_CLOSE_TIME: Duration = Duration::from_secs(2);

/// A server that accepts requests: its parts and the tokens that stop them.
#[derive(Debug)]
pub(super) struct RunningServer {
    store: Store,
    health: HealthReporter,
    calls: Calls,
    stream_tasks: TaskTracker,
    /// Stops all periodic tasks that [`watch::start_all`] starts.
    store_watch_end: CancellationToken,
    stopping: CancellationToken,
    ingest_end: CancellationToken,
    grpc_task: LongTask,
    http_task: LongTask,
    store_watch: LongTask,
    pub(super) worker_task: LongTask,
}

/// Prepares the statistics in the background. A request for statistics that arrives earlier waits
/// until they are ready.
fn warm_statistics(tasks: &TaskTracker, stats: Stats) {
    drop(tasks.spawn_blocking(move || stats.warm()));
}

impl RunningServer {
    /// Starts every part.
    pub(super) fn start(mut app: App, agents: Handle) -> Self {
        let (tasks, streams, health) = <(TaskTracker, TaskTracker, HealthReporter)>::default();
        let calls = Calls::default();
        let [telling, stopping, ingesting] = std::array::from_fn(|_| CancellationToken::new());
        warm_statistics(&tasks, app.history.stats().clone());
        let watch = watch::start_all(&mut app, health.clone(), &telling);
        let services = services::services(&app);
        let pods = services::pod_reviewer(&app, &services);
        let App { config, listeners, store, worker, keeper, secrets, hooks, .. } = app;
        let certificates = listeners.certificates();
        let Listeners { grpc, http, admission: webhook, agent_files } = listeners;
        let connections = open_files::connection_limits(config.http_connections);
        let grpc_parts = grpc::GrpcParts {
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
            settings: Arc::new(config.in_force()),
            store: store.clone(),
            backup_remote: config.backup_remote,
            hosts: config.http_hosts.into(),
            gantry: Arc::new(config.gantry),
            pods,
            token: secrets.hook,
            signing: secrets.signing,
            admission_secret: secrets.admission,
            hooks,
            waits: WaitSlots::over_http(connections.http, Arc::clone(&app.metrics)),
            metrics: app.metrics,
            calls: calls.clone(),
            guard: app.guard,
            grpc_port: grpc.tcp.local_addr().ok().map(|address| address.port()),
            stopping: stopping.clone(),
            certificates,
        };
        let serving_http = serve_http(http, webhook, Arc::new(http_parts), connections);
        let writing = tasks.spawn(end_work(worker, app.verdicts, keeper, ingesting.clone(), app.dir_lock));
        let grpc_task = tasks.spawn(grpc::serve(grpc, grpc_parts, health.clone()));
        Self {
            worker_task: LongTask::new("ingest", writing),
            grpc_task: LongTask::new("gRPC listener", grpc_task),
            http_task: LongTask::new("HTTP listener", tasks.spawn(serving_http)),
            store_watch: LongTask::new("watch over the store", tasks.spawn(watch)),
            store,
            health,
            calls,
            stream_tasks: streams,
            store_watch_end: telling,
            stopping,
            ingest_end: ingesting,
        }
    }

    /// Waits until a part of the server ends by itself.
    pub(super) async fn ended_early(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.worker_task.ended_early() => error,
            error = self.grpc_task.ended_early() => error,
            error = self.http_task.ended_early() => error,
            error = self.store_watch.ended_early() => error,
        }
    }

    /// Shuts down in an order such that callers get their answers first, and the store is closed
    /// last.
    pub(super) async fn drain(mut self, mut drain: Drain) -> anyhow::Result<()> {
        self.store_watch_end.cancel();
        drain
            .step(self.store_watch.ended(), || "the state of the store was still being sent".to_owned())
            .await;
        grpc::set_health(&self.health, false, false).await;
        self.stopping.cancel();
        self.stream_tasks.close();
        let open = || format!("streams were still open ({})", self.stream_tasks.len());
        drain.step(infallible_step(self.stream_tasks.wait()), open).await;
        self.calls.end_idle();
        let unanswered = || format!("calls were still running ({})", self.calls.running());
        drain.step(infallible_step(self.calls.ended()), unanswered).await;
        drain
            .step(flush_connections(&mut self.grpc_task, &mut self.http_task), || {
                "connections were still open".to_owned()
            })
            .await;
        self.ingest_end.cancel();
        drain.step(self.worker_task.ended(), || "the ingest was still writing".to_owned()).await;
        drain.extend_to(MIN_CLOSE_TIME);
        let closed = async { self.store.close().await.context("closing the store") };
        drain.step(closed, || "the store was still closing".to_owned()).await;
        drain.end()
    }
}

/// Runs the writer and the tickets. At shutdown the tickets end last, because attempts that end
/// also end their tickets.
async fn end_work(
    mut worker: Worker,
    verdicts: Verdicts,
    keeper: Keeper,
    work_end: CancellationToken,
    dir_lock: Option<File>,
) -> anyhow::Result<()> {
    let (rejudging, ended) = Rejudging::new(verdicts);
    worker.judged_early = Some(ended);
    let ended = CancellationToken::new();
    let ingesting = async {
        worker.run(work_end.clone()).await;
        ended.cancel();
    };
    tokio::join!(ingesting, rejudging.run(work_end.clone()), keeper.run(ended.clone()));
    drop(dir_lock);
    Ok(())
}

/// Serves both HTTP listeners until the server stops.
async fn serve_http(
    listener: Listener,
    admission: Option<Listener>,
    http_state: HttpState,
    connections: ConnectionLimits,
) -> anyhow::Result<()> {
    let webhook = async {
        if let Some(listener) = admission {
            http::serve_admission(listener, Arc::clone(&http_state), http::bounds(connections.webhook)).await;
        }
    };
    tokio::join!(http::serve(listener, Arc::clone(&http_state), http::bounds(connections.http)), webhook);
    Ok(())
}

/// Waits until the connections have ended, and then closes the rest: they are idle, so nothing is
/// lost.
async fn flush_connections(grpc: &mut LongTask, http: &mut LongTask) -> anyhow::Result<()> {
    let ended = async { tokio::try_join!(grpc.ended(), http.ended()) };
    match tokio::time::timeout(FLUSH_TIMEOUT, ended).await {
        Ok(ended) => ended.map(|_both| ()),
        Err(_open) => {
            tracing::debug!("cut off connections without a call");
            Ok(())
        }
    }
}
