//! Replaces `traces` in a program without the feature `otlp`: there are no traces, and a setting for them is an error.

use std::future::Ready;

use tracing_subscriber::layer::Identity;

/// Has no values, because tracing cannot be started.
#[derive(Debug)]
pub(crate) enum Traces {}

impl Traces {
    /// Returns an error that names the missing feature.
    /// Errors: always: the program was built without traces.
    pub(crate) fn start(_endpoint: &str) -> anyhow::Result<Self> {
        anyhow::bail!("otlp_endpoint: {}", crate::runtime::settings::NO_TRACES)
    }

    pub(crate) fn layer(&self) -> Identity {
        match *self {}
    }

    pub(crate) fn end(self) -> Ready<()> {
        match self {}
    }
}
