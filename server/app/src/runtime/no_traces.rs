//! In the place of `traces` in a program that is built without the feature `otlp`: there are no traces, and a setting that asks for some is an error.

use std::future::Ready;

use tracing_subscriber::layer::Identity;

/// Nothing is one.
#[derive(Debug)]
pub(crate) enum Traces {}

impl Traces {
    /// Says what is missing.
    ///
    /// # Errors
    /// Always.
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
