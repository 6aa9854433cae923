//! Signals that end the agent. They come from the kubelet, when the pod's other containers have ended, or from
//! a person.

use std::future::pending;

use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
};

/// The signals that end the agent. Process 1 of a container gets only signals that it handles.
#[derive(Debug)]
pub(super) struct StopSignals {
    sigterm: Option<Signal>,
    sigint: Option<Signal>,
    sighup: Option<Signal>,
}

impl StopSignals {
    pub(super) fn listen() -> Self {
        let listen = |kind| {
            signal(kind).inspect_err(|error| tracing::warn!(%error, ?kind, "cannot listen for a signal")).ok()
        };
        Self {
            sigterm: listen(SignalKind::terminate()),
            sigint: listen(SignalKind::interrupt()),
            sighup: listen(SignalKind::hangup()),
        }
    }

    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        select! {
            () = next_arrival(&mut self.sigterm) => "SIGTERM",
            () = next_arrival(&mut self.sigint) => "SIGINT",
            () = next_arrival(&mut self.sighup) => "SIGHUP",
        }
    }
}

async fn next_arrival(signal: &mut Option<Signal>) {
    let arrived = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if arrived.is_none() {
        pending::<()>().await;
    }
}
