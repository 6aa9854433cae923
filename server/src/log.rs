//! Where log lines go, and spans.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    config::{Config, LogFormat},
    traces::Traces,
};

/// The target of log lines that tell who was refused, and what was done to the server.
pub(crate) const AUDIT: &str = "plimsoll_server::audit";

/// What takes log lines and spans until the program ends.
#[derive(Debug)]
pub struct Log {
    traces: Option<Traces>,
}

impl Log {
    /// Writes and sends from now on what the settings say. Once in a program, and in a runtime.
    ///
    /// # Errors
    /// Traces are wanted and cannot be sent.
    pub fn begin(config: &Config) -> anyhow::Result<Self> {
        // lines have a filter of their own: spans are more detailed than what people read
        let filter = EnvFilter::new(&config.log);
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        // a stderr that is gone must not end the server
        let lines = lines.log_internal_errors(false);
        // a file or a pipe gets no colours; a terminal does, unless NO_COLOR is set
        let lines = if io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log_format {
            LogFormat::Text => lines.with_filter(filter).boxed(),
            LogFormat::Json => lines.json().with_filter(filter).boxed(),
        };
        let traces = config.otlp_endpoint.as_deref().map(Traces::start).transpose()?;
        let spans = traces.as_ref().map(Traces::layer);
        tracing_subscriber::registry().with(lines).with(spans).init();
        Ok(Self { traces })
    }

    /// Sends the spans that wait.
    pub async fn end(self) {
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}
