//! The table of all settings: name, how to set it from text, how to write it as text.

use std::{path::PathBuf, time::Duration};

use super::{Config, LogFormat, parse};
use crate::domain::Bytes;

/// One setting. `get` gives an empty text for one that is not set.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    pub(super) get: fn(&Config) -> String,
}

macro_rules! setting {
    ($name:literal, $($field:ident).+, $parse:expr, $show:expr) => {
        Setting {
            name: $name,
            set: |config, text| {
                config.$($field).+ = $parse(text)?;
                Ok(())
            },
            get: |config| $show(&config.$($field).+),
        }
    };
}

/// All settings, in the order of `--print-config`.
pub(super) const SETTINGS: &[Setting] = &[
    setting!("data_dir", data_dir, directory, |dir: &PathBuf| dir.display().to_string()),
    setting!("grpc_listen", grpc_listen, parse::address, ToString::to_string),
    setting!("http_listen", http_listen, parse::address, ToString::to_string),
    setting!("log", log, log_filter, String::clone),
    setting!("log_format", log_format, log_format, |format: &LogFormat| show_log_format(*format)),
    setting!("store_cache", store_cache, |t| parse::size(t).map(|b| b.0), |b: &u64| size(Bytes(*b))),
    setting!(
        "history_attempts",
        history_attempts,
        |t| parse::number(t, &(1..=10_000_000)),
        ToString::to_string
    ),
    setting!("open_attempts", open_attempts, |t| parse::number(t, &(1..=1_000_000)), ToString::to_string),
    setting!("abandon_after", abandon_after, parse::time, |t: &Duration| humantime::format_duration(*t)
        .to_string()),
    setting!("series_full_for", retain.full_for, parse::time, |t: &Duration| humantime::format_duration(*t)
        .to_string()),
    setting!("series_keep_for", retain.keep_for, parse::time, |t: &Duration| humantime::format_duration(*t)
        .to_string()),
    setting!("series_max_bytes", retain.max_bytes, |t| parse::size(t).map(Some), |max: &Option<Bytes>| {
        max.map(size).unwrap_or_default()
    }),
    setting!("drain_timeout", drain_timeout, parse::time, |t: &Duration| humantime::format_duration(*t)
        .to_string()),
    setting!("default_memory_request", predict.memory_request, parse::size, |b: &Bytes| size(*b)),
    setting!("default_memory_limit", predict.memory_limit, parse::size, |b: &Bytes| size(*b)),
    setting!("memory_cap", predict.memory_cap, |t| parse::size(t).map(Some), |cap: &Option<Bytes>| {
        cap.map(size).unwrap_or_default()
    }),
    setting!(
        "failure_price",
        predict.failure_price,
        |t| parse::number(t, &(0.001..=10_000.0)),
        ToString::to_string
    ),
    setting!("max_failures", predict.failure_ceiling, parse::share, ToString::to_string),
    setting!("max_attempts", retry.max_attempts, |t| parse::number(t, &(1..=20)), ToString::to_string),
];

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; name a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn log_filter(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::EnvFilter>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            Err(format!("{text:?} is not a log filter ({error}); write it as info or plimsoll_server=debug"))
        }
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is not a format; write text or json")),
    }
}

fn show_log_format(format: LogFormat) -> String {
    match format {
        LogFormat::Text => "text".to_owned(),
        LogFormat::Json => "json".to_owned(),
    }
}

/// Exact, so that what is printed can be read back.
fn size(bytes: Bytes) -> String {
    match bytes {
        Bytes(n) if n.is_multiple_of(1 << 30) => format!("{}GiB", n >> 30),
        Bytes(n) if n.is_multiple_of(1 << 20) => format!("{}MiB", n >> 20),
        Bytes(n) => format!("{n}B"),
    }
}
