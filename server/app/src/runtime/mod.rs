//! Infrastructure of the program: settings, clock, logs, metrics, reloaded files, and connections.

pub(crate) mod agent_files;
pub(crate) mod answer_memory;
pub(crate) mod audit;
pub(crate) mod clock;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod net;
pub(crate) mod reload;
pub(crate) mod settings;
pub(crate) mod skipped_facts;
#[cfg(not(feature = "otlp"))]
#[path = "no_traces.rs"]
pub(crate) mod traces;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
