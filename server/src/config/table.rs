//! The table of all settings: name, how to set it from text, how to write it as text.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{Config, LogFormat, parse};
use crate::{
    admission::{Mode, Size},
    domain::{Bytes, Cores},
    gantry::Extra,
    gitlab, retry,
    stats::{Prices, RefClasses},
};

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
    setting!("tls_cert_file", tls.certificate, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("tls_key_file", tls.key, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("tls_client_ca_file", tls.client_ca, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("tls_client_required", tls.client_required, parse::on_off, |on: &bool| show_on_off(*on)),
    setting!("plain_text", plain_text, parse::on_off, |on: &bool| show_on_off(*on)),
    setting!("access_file", access_file, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("private_labels", private.labels, labels, |names: &Vec<String>| names.join(",")),
    setting!("private_logs", private.logs, parse::on_off, |on: &bool| show_on_off(*on)),
    setting!("log", log, log_filter, String::clone),
    setting!("log_format", log_format, log_format, |format: &LogFormat| show_log_format(*format)),
    setting!("otlp_endpoint", otlp_endpoint, |t| collector(t).map(Some), |address: &Option<String>| {
        address.clone().unwrap_or_default()
    }),
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
    setting!("summaries_keep_for", retain.summaries_for, |t| parse::time(t).map(Some), |t: &Option<
        Duration,
    >| {
        t.map(|time| humantime::format_duration(time).to_string()).unwrap_or_default()
    }),
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
        |t| parse::number(t, &(0.0..=1_000_000.0)).map(Some),
        |price: &Option<f64>| price.map(|price| price.to_string()).unwrap_or_default()
    ),
    setting!("max_failures", predict.failure_ceiling, parse::share, ToString::to_string),
    setting!("shadow", shadow.on, parse::on_off, |on: &bool| show_on_off(*on)),
    setting!("shadow_apply", shadow.apply, parse::shares, |apply: &Vec<(String, f64)>| {
        let written = apply.iter().map(|(stack, share)| format!("{stack}={share}"));
        written.collect::<Vec<_>>().join(",")
    }),
    setting!("max_decrease", predict.max_decrease, |t| parse::up_to_all(t).map(Some), |most: &Option<
        f64,
    >| {
        most.map(|most| most.to_string()).unwrap_or_default()
    }),
    setting!("rules_dir", rules_dir, |t| directory(t).map(Some), |dir: &Option<PathBuf>| {
        dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default()
    }),
    Setting { name: "retry_policy", set: set_retry_policy, get: show_retry_policy },
    setting!("pools_file", pools_file, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("max_attempts", retry.max_attempts, |t| parse::number(t, &(1..=20)), ToString::to_string),
    setting!("allocation_project", gantry.project, |t| project(t).map(Some), |p: &Option<String>| p
        .clone()
        .unwrap_or_default()),
    setting!(
        "allocation_extras",
        gantry.extras,
        |t| parse::words(t, &Extra::ALL, Extra::as_str),
        |extras: &Vec<Extra>| { extras.iter().map(|extra| extra.as_str()).collect::<Vec<_>>().join(",") }
    ),
    setting!("allocation_max_memory_request", gantry.max_memory_request, some_size, |b: &Option<Bytes>| {
        show_size(*b)
    }),
    setting!("allocation_max_memory_limit", gantry.max_memory_limit, some_size, |b: &Option<Bytes>| {
        show_size(*b)
    }),
    setting!("allocation_max_cpu_request", gantry.max_cpu_request, some_cores, |c: &Option<Cores>| {
        show_cores(*c)
    }),
    setting!("allocation_max_cpu_limit", gantry.max_cpu_limit, some_cores, |c: &Option<Cores>| show_cores(
        *c
    )),
    setting!("allocation_ephemeral_storage", gantry.ephemeral_storage, parse::sizes, |sizes: &Vec<(
        String,
        Bytes,
    )>| {
        sizes.iter().map(|(stack, bytes)| format!("{stack}={}", size(*bytes))).collect::<Vec<_>>().join(",")
    }),
    setting!("allocation_max_ephemeral_storage", gantry.max_ephemeral_storage, some_size, |b: &Option<
        Bytes,
    >| show_size(
        *b
    )),
    setting!("allocation_retry_exit_codes", gantry.retry_exit_codes, exit_codes, |codes: &Vec<u8>| {
        codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }),
    setting!("allocation_within", gantry.answer_within, parse::time, |t: &Duration| {
        humantime::format_duration(*t).to_string()
    }),
    setting!("collect_token_file", gantry.token_file, file, |file: &Option<PathBuf>| file
        .as_ref()
        .map(|file| file.display().to_string())
        .unwrap_or_default()),
    setting!("collect_signing_file", gantry.signing_file, file, |file: &Option<PathBuf>| show_file(
        file.as_ref()
    )),
    setting!("gitlab_url", gitlab.url, |t| gitlab::Place::parse(t).map(Some), |url: &Option<
        gitlab::Place,
    >| {
        url.as_ref().map(ToString::to_string).unwrap_or_default()
    }),
    setting!("gitlab_token_file", gitlab.token_file, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("gitlab_ca_file", gitlab.ca_file, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("admit_listen", admission.listen, |t| parse::address(t).map(Some), |a: &Option<SocketAddr>| {
        a.map(|address| address.to_string()).unwrap_or_default()
    }),
    setting!("admit_cert_file", admission.certificate, file, |file: &Option<PathBuf>| show_file(
        file.as_ref()
    )),
    setting!("admit_key_file", admission.key, file, |file: &Option<PathBuf>| show_file(file.as_ref())),
    setting!("admit_client_ca_file", admission.client_ca, file, |file: &Option<PathBuf>| show_file(
        file.as_ref()
    )),
    setting!("admit_mode", admission.mode, |t| parse::word(t, &Mode::ALL, Mode::as_str), |mode: &Mode| {
        mode.as_str().to_owned()
    }),
    setting!("admit_namespaces", admission.namespaces, namespaces, |all: &Vec<String>| all.join(",")),
    setting!("admit_sizes", admission.sizes, |t| parse::words(t, &Size::ALL, Size::as_str), |sizes: &Vec<
        Size,
    >| {
        sizes.iter().map(|size| size.as_str()).collect::<Vec<_>>().join(",")
    }),
    setting!("admit_max_memory", admission.max_memory, some_size, |b: &Option<Bytes>| show_size(*b)),
    setting!("admit_max_cpu", admission.max_cpu, some_cores, |c: &Option<Cores>| show_cores(*c)),
    setting!("admit_confidence", admission.confidence, parse::up_to_all, ToString::to_string),
    setting!("admit_trust_variables", admission.trust_variables, parse::on_off, |on: &bool| show_on_off(*on)),
    setting!("admit_max_time", admission.max_time, factor, |f: &Option<f64>| {
        f.map(|factor| factor.to_string()).unwrap_or_default()
    }),
    setting!("admit_long_from", admission.long_from, |t| parse::time(t).map(Some), |t: &Option<Duration>| {
        t.map(|time| humantime::format_duration(time).to_string()).unwrap_or_default()
    }),
    setting!("admit_within", admission.answer_within, parse::time, |t: &Duration| {
        humantime::format_duration(*t).to_string()
    }),
    setting!("admit_agent_image", admission.agent_image, |t| plain(t).map(Some), |image: &Option<String>| {
        image.clone().unwrap_or_default()
    }),
    setting!("admit_agent_cpu", admission.agent_cpu, parse::cores, |c: &Cores| show_cores(Some(*c))),
    setting!("admit_agent_memory", admission.agent_memory, parse::size, |b: &Bytes| size(*b)),
    setting!("admit_agent_server", admission.agent_server, address, String::clone),
    setting!(
        "admit_agent_audience",
        admission.agent_audience,
        |t| plain(t).map(Some),
        |audience: &Option<String>| { audience.clone().unwrap_or_default() }
    ),
    setting!("prices", stats.prices, Prices::parse, ToString::to_string),
    setting!("currency", stats.currency, currency, String::clone),
    setting!("ref_classes", stats.ref_classes, RefClasses::parse, ToString::to_string),
];

/// The address of a collector. It is beside the server: there is no TLS.
fn collector(text: &str) -> Result<String, String> {
    let address =
        text.strip_prefix("http://").filter(|host| !host.is_empty()).and_then(|_host| plain(text).ok());
    address.ok_or_else(|| {
        format!("{text:?} is not the address of a collector; write it as http://127.0.0.1:4317")
    })
}

/// A word without spaces, as an image or an address is.
fn plain(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if fits { Ok(text.to_owned()) } else { Err(format!("{text:?} is empty or holds spaces")) }
}

/// An address that all may see who see a pod.
fn address(text: &str) -> Result<String, String> {
    if text.contains('@') {
        // what stands before it may be a password
        return Err("must be an address without a user or a password".to_owned());
    }
    plain(text)
}

fn currency(text: &str) -> Result<String, String> {
    let fits = text.chars().count() <= 8 && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if fits { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a currency; write it as EUR")) }
}

fn namespaces(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        name.len() <= 63 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let wrong = |name: &str| format!("{name:?} is not a namespace; write it as ci-builds");
    parse::list(text).map(|name| is_name(name).then(|| name.to_owned()).ok_or_else(|| wrong(name))).collect()
}

fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    parse::list(text).map(|code| parse::number(code, &(1..=255))).collect()
}

/// Times a predicted time.
fn factor(text: &str) -> Result<Option<f64>, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(Some(factor)),
        _ => Err(format!("{text:?} is not a number from 1 to 100")),
    }
}

fn show_on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn show_file(file: Option<&PathBuf>) -> String {
    file.map(|file| file.display().to_string()).unwrap_or_default()
}

fn some_size(text: &str) -> Result<Option<Bytes>, String> {
    parse::size(text).map(Some)
}

fn show_size(bytes: Option<Bytes>) -> String {
    bytes.map(size).unwrap_or_default()
}

fn some_cores(text: &str) -> Result<Option<Cores>, String> {
    parse::cores(text).map(Some)
}

/// Exact, unlike what people read.
fn show_cores(cores: Option<Cores>) -> String {
    cores.map(|cores| cores.0.to_string()).unwrap_or_default()
}

fn project(text: &str) -> Result<String, String> {
    let fits = text.len() <= plimsoll_proto::limits::KEY_FIELD_BYTES && !text.chars().any(char::is_control);
    if fits && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a project; write it as group/project"))
    }
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; name a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Terms of retries: the path of a policy file, or its text.
fn set_retry_policy(config: &mut Config, text: &str) -> Result<(), String> {
    if text.contains("[[") {
        config.retry.terms = retry::Policy::parse_terms(text)?;
        config.retry_policy = None;
        return Ok(());
    }
    let read = std::fs::read_to_string(text).map_err(|error| format!("{text} cannot be read: {error}"))?;
    let terms = retry::Policy::parse_terms(&read);
    config.retry.terms = terms.map_err(|error| format!("{text}: {error}"))?;
    config.retry_policy = Some(PathBuf::from(text));
    Ok(())
}

/// The path of the policy file, or the text of one, so that what is printed can be read back.
fn show_retry_policy(config: &Config) -> String {
    if let Some(path) = &config.retry_policy {
        return path.display().to_string();
    }
    let tables: Vec<String> =
        config.retry.terms.iter().filter_map(|terms| toml::to_string(terms).ok()).collect();
    if tables.is_empty() { String::new() } else { format!("[[terms]]\n{}", tables.join("[[terms]]\n")) }
}

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    if text.is_empty() { Err("is empty; name a file".to_owned()) } else { Ok(Some(PathBuf::from(text))) }
}

fn labels(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = parse::list(text).map(str::to_owned).collect();
    match names.iter().find(|name| name.len() > plimsoll_proto::limits::LABEL_BYTES) {
        Some(name) => Err(format!("{name:?} is longer than the name of a label may be")),
        None => Ok(names),
    }
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
