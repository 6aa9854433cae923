//! What the listeners answer while the server waits for the store, which another server has, and while it reads it.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Addresses, listeners::Listeners};
use crate::{
    access::guard::Guard,
    door::{calls::Calls, grpc, http},
    runtime::{metrics::Metrics, open_files, settings::Config, tls},
};

/// How long connections of the standby may take to close before the server serves.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Does not say which server that is: every caller gets this text.
const STANDBY: &str = "this server is a standby: another one has the store and serves; ask that one";

const OPENING: &str = "this server opens the store and does not serve yet; try again, or ask another server";

/// Answers probes with "not ready", metrics, and everything else with "not available". Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Standby {
    addresses: Addresses,
    reason: Arc<watch::Sender<String>>,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Standby {
    /// Begins to answer on copies of the listeners, if servers may share the store.
    /// Errors: the system gives no further file.
    pub(super) fn begin_if_shared(
        listeners: &Listeners,
        config: &Config,
        metrics: &Arc<Metrics>,
        guard: &Guard,
    ) -> anyhow::Result<Option<Self>> {
        if config.store_url.is_none() {
            return Ok(None);
        }
        let (stopping, tasks, (reason, reasons)) =
            (CancellationToken::new(), TaskTracker::new(), watch::channel(OPENING.to_owned()));
        let connections = open_files::connection_limits(config.http_connections);
        let (grpc, http) = (listeners.grpc.share()?, listeners.http.share()?);
        let parts = http::StandbyParts {
            reason: reasons.clone(),
            metrics: Arc::clone(metrics),
            guard: guard.clone(),
            hosts: config.http_hosts.clone().into(),
            calls: Calls::default(),
            grpc_port: grpc.tcp.local_addr().ok().map(|address| address.port()),
            stopping: stopping.clone(),
        };
        if let Some(webhook) = &listeners.admission {
            let bounds = http::bounds(connections.webhook);
            drop(tasks.spawn(http::serve_standby(webhook.share()?, parts.clone(), bounds)));
        }
        drop(tasks.spawn(http::serve_standby(http, parts, http::bounds(connections.http))));
        drop(tasks.spawn(guard.clone().watch(stopping.clone())));
        let certificates = tls::watch(listeners.certificates(), Arc::clone(metrics), stopping.clone());
        drop(tasks.spawn(certificates));
        let policy = grpc::policy(connections.grpc, Handle::current(), metrics);
        drop(tasks.spawn(grpc::serve_standby(grpc, policy, reasons, stopping.clone())));
        Ok(Some(Self {
            addresses: listeners.addresses()?,
            reason: Arc::new(reason),
            metrics: Arc::clone(metrics),
            stopping,
            tasks,
        }))
    }

    /// A function that notes which server has the store.
    pub(super) fn holder_note(&self) -> impl Fn(&str) + Send + 'static {
        let (reason, metrics) = (Arc::clone(&self.reason), Arc::clone(&self.metrics));
        let Addresses { grpc, http, .. } = self.addresses;
        move |holder| {
            tracing::info!(holder, grpc_listen = %grpc, http_listen = %http, "standby: another server has the store, and this one waits");
            metrics.standby.set(1);
            reason.send_replace(STANDBY.to_owned());
        }
    }

    /// Notes that this server has the store and reads it.
    pub(super) fn note_taken(&self) {
        if self.metrics.standby.set(0) == 1 {
            tracing::info!("this server takes over");
        }
        self.reason.send_replace(OPENING.to_owned());
    }

    /// Ends the answers. Who connects then waits until the server serves.
    pub(super) async fn end(standby: Option<Self>) {
        let Some(standby) = standby else { return };
        standby.stopping.cancel();
        standby.tasks.close();
        // connections that are still open then are closed by their clients, or with the process
        let _late = timeout(CLOSE_WITHIN, standby.tasks.wait()).await;
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}
