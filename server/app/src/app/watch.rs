//! Periodic tasks that run as long as the server.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::bail;
use plimsoll_core::{domain::History, shared_history::SharedHistory};
use plimsoll_store::{Store, StoreMode, disk::disk};
use tokio_util::sync::CancellationToken;
use tonic_health::server::HealthReporter;

use super::App;
use crate::{
    ci::gitlab::Follower,
    door::grpc,
    ingest,
    runtime::{clock::Clock, clock_check, metrics::Metrics, settings::Config, tls},
};

/// How often the state of the store is read for health and metrics.
const STORE_INTERVAL: Duration = Duration::from_secs(1);

/// How often the free space on the disk is read for metrics.
const DISK_INTERVAL: Duration = Duration::from_secs(10);

/// Starts all periodic tasks. They run until `end`: the state of the store and its disk, reloading
/// of rules, retry terms, pools, shadow mode, access and certificates, metrics of demand, and requests to GitLab
/// about jobs.
pub(super) fn start_all(
    app: &mut App,
    health: HealthReporter,
    end: &CancellationToken,
) -> impl Future<Output = anyhow::Result<()>> + use<> {
    report_bounds(&app.metrics, &app.config);
    let store = watch_store(app.store.clone(), Arc::clone(&app.metrics), health, end.clone());
    let history = watch_history(app.history.clone(), Arc::clone(&app.metrics), end.clone());
    let disk = watch_disk(app.config.data_dir.clone(), Arc::clone(&app.metrics), end.clone());
    let rules = app.classifier.clone().watch(end.clone());
    let silenced = app.classifier.clone().report_silenced(end.clone());
    let pools = app.pools.clone().watch(end.clone());
    let shadow = app.shadow.clone().watch(end.clone());
    let demand = app.demands.clone().report_metrics(Arc::clone(&app.metrics), end.clone());
    let access = app.guard.clone().watch(end.clone());
    let certificates = tls::watch(app.listeners.certificates(), Arc::clone(&app.metrics), end.clone());
    let ranges = app.limit_ranges.clone().watch(app.config.admission.clone(), end.clone());
    let jobs = follow_hooks(app.follower.take(), end.clone());
    async {
        tokio::try_join!(
            store,
            history,
            disk,
            rules,
            silenced,
            pools,
            shadow,
            demand,
            access,
            certificates,
            ranges,
            jobs
        )
        .map(|_all| ())
    }
}

/// Processes job hooks, and asks GitLab about ended jobs if it is configured.
async fn follow_hooks(follower: Option<Follower>, end: CancellationToken) -> anyhow::Result<()> {
    match follower {
        Some(follower) => follower.run(end).await,
        None => Ok(()),
    }
}

/// Sets metrics with the configured bounds, for comparison with their use.
fn report_bounds(metrics: &Metrics, config: &Config) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    metrics.open_attempts_max.set(number(config.open_attempts));
    metrics.history_attempts_max.set(number(config.history_attempts));
    metrics.history_bytes_max.set(config.history_room().bytes as u64);
    metrics.queue_max.set(number(ingest::QUEUE_CAPACITY));
    metrics.series_max_bytes.set(config.retain.max_bytes.map_or(0, |most| most.0));
}

/// Updates the metrics of the history's memory until `end`.
async fn watch_history(
    history: SharedHistory,
    metrics: Arc<Metrics>,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(STORE_INTERVAL);
    while end.run_until_cancelled(tick.tick()).await.is_some() {
        metrics.history_bytes.set(history.read(History::bytes) as u64);
    }
    Ok(())
}

/// Updates the metrics of the free space on the store's disk until `end`.
async fn watch_disk(data_dir: PathBuf, metrics: Arc<Metrics>, end: CancellationToken) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(DISK_INTERVAL);
    while end.run_until_cancelled(tick.tick()).await.is_some() {
        let dir = data_dir.clone();
        // on a thread of its own, because a network file system that hangs must not block the
        // server
        let looking = tokio::task::spawn_blocking(move || disk(&dir));
        match end.run_until_cancelled(looking).await {
            Some(Ok(Ok(disk))) => {
                metrics.disk_free_bytes.set(disk.free);
                metrics.disk_bytes.set(disk.size);
            }
            Some(Ok(Err(error))) => tracing::debug!(%error, "the room on the disk is not known"),
            Some(Err(error)) => tracing::error!(%error, "the check of the disk stopped unexpectedly"),
            None => {}
        }
    }
    Ok(())
}

/// Updates health and metrics with the state of the store until `end`.
/// Errors: another server has taken the store.
async fn watch_store(
    store: Store,
    metrics: Arc<Metrics>,
    health: HealthReporter,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let mut was_writable = None;
    let mut tick = tokio::time::interval(STORE_INTERVAL);
    while end.run_until_cancelled(tick.tick()).await.is_some() {
        let status = store.status();
        let writable = status.mode == StoreMode::Writable;
        metrics.store_bytes.set(status.bytes_on_disk);
        metrics.store_writable.set(i64::from(writable));
        metrics.lease_epoch.set(i64::try_from(status.lease_epoch).unwrap_or(i64::MAX));
        metrics.unknown_fates.set(status.unknown_fates.cast_signed());
        metrics.commits_lost.set(status.commits_lost.cast_signed());
        metrics.damaged_places.set(i64::try_from(store.found_damage().places()).unwrap_or(i64::MAX));
        if let Some((database_ms, read)) = status.database_clock {
            let database_ms =
                database_ms.saturating_add_unsigned(u64::try_from(read.elapsed().as_millis()).unwrap_or(0));
            let ahead_ms = Clock.now_unix_ms().cast_signed().saturating_sub(database_ms);
            clock_check::note(&metrics, clock_check::DATABASE, ahead_ms);
        }
        if let StoreMode::Taken { reason } = status.mode {
            // what this server knows is no longer true: one that starts anew waits for its turn
            bail!(reason);
        }
        if was_writable.replace(writable) == Some(writable) {
            continue;
        }
        grpc::set_health(&health, true, writable).await;
        if let StoreMode::ReadOnly { reason } = status.mode {
            tracing::error!(reason, "the store takes no writes");
        }
    }
    Ok(())
}
