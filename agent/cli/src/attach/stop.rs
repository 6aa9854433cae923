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
    term: Option<Signal>,
    int: Option<Signal>,
    hup: Option<Signal>,
}

impl StopSignals {
    pub(super) fn listen() -> Self {
        let listen = |kind| {
            signal(kind).inspect_err(|error| tracing::warn!(%error, ?kind, "cannot listen for a signal")).ok()
        };
        Self {
            term: listen(SignalKind::terminate()),
            int: listen(SignalKind::interrupt()),
            hup: listen(SignalKind::hangup()),
        }
    }

    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        select! {
            () = arrival(&mut self.term) => "SIGTERM",
            () = arrival(&mut self.int) => "SIGINT",
            () = arrival(&mut self.hup) => "SIGHUP",
        }
    }
}

async fn arrival(signal: &mut Option<Signal>) {
    let arrived = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if arrived.is_none() {
        pending::<()>().await;
    }
}
