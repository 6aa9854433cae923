//! Sends log lines to standard error, and spans to a collector if one is configured.

use std::{
    io::{self, IsTerminal as _, Write},
    str,
};

use plimsoll_base::log_filter::for_all_crates;
use plimsoll_proto::shown;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::runtime::{
    settings::{CRATES, Config, LogFormat, SERVER},
    traces::Traces,
};

/// Writes log lines and escapes control characters in them: lines contain names of builds, which
/// any caller can choose.
struct ShownLines<W> {
    target: W,
    is_json: bool,
}

impl<W: Write> Write for ShownLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // the library writes one whole line at a time
        let Ok(text) = str::from_utf8(bytes) else { return self.target.write(bytes) };
        let text = if self.is_json { shown::escaped_json(text) } else { shown::in_coloured_log(text) };
        self.target.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Keeps logging and tracing running until the program ends.
#[derive(Debug)]
pub struct Log {
    trace_export: Option<Traces>,
}

impl Log {
    /// Starts logging and tracing as configured. Call it once in a program, within a runtime.
    /// Errors: the address of the trace collector is invalid, or the program was built without traces.
    pub fn begin(config: &Config) -> anyhow::Result<Self> {
        // log lines have a filter of their own, because spans are more detailed
        let filter = EnvFilter::new(for_all_crates(&config.log, SERVER, &CRATES));
        let is_json = matches!(config.log_format, LogFormat::Json);
        let writer = move || ShownLines { target: io::stderr(), is_json };
        let lines = tracing_subscriber::fmt::layer().with_writer(writer);
        // without this the library would print its own errors, and panic if standard error is
        // closed
        let lines = lines.log_internal_errors(false);
        // no colours in files and pipes; on terminals the library uses them unless NO_COLOR is set
        let lines = if io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log_format {
            LogFormat::Text => lines.with_filter(filter).boxed(),
            LogFormat::Json => lines.json().with_filter(filter).boxed(),
        };
        let traces = config.otlp_endpoint.as_deref().map(Traces::start).transpose()?;
        let spans = traces.as_ref().map(Traces::layer);
        tracing_subscriber::registry().with(lines).with(spans).init();
        Ok(Self { trace_export: traces })
    }

    /// Sends the spans that have not been sent yet.
    pub async fn end(self) {
        if let Some(traces) = self.trace_export {
            traces.end().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bidirectional_control_characters_are_escaped_in_logs() {
        for (is_json, expected) in [(false, "name=a\\u{202e}b\n"), (true, "name=a\\u202eb\n")] {
            let mut lines = ShownLines { target: Vec::new(), is_json };
            lines.write_all("name=a\u{202e}b\n".as_bytes()).unwrap();
            assert_eq!(String::from_utf8(lines.target).unwrap(), expected);
        }
    }
}
