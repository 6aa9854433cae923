//! What all rooms use: settings, clock, logs, metrics, reloaded files, TLS, the server's own requests to others.

pub(crate) mod answer_memory;
pub(crate) mod audit;
pub(crate) mod clock;
pub(crate) mod clock_check;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod open_files;
pub(crate) mod outgoing;
pub(crate) mod reload;
pub(crate) mod settings;
pub(crate) mod skipped_facts;
pub(crate) mod tls;
#[cfg(not(feature = "otlp"))]
#[path = "no_traces.rs"]
pub(crate) mod traces;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
pub(crate) mod xml;
