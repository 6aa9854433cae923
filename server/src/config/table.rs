//! The table of all settings: name, how to set it from text, how to write it as text.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    Config, LogFormat, parse,
    values::{
        address, collector, currency, directory, exit_codes, factor, file, history_memory, labels,
        log_filter, log_format, namespaces, plain, project, set_retry_policy, show_cores, show_file,
        show_log_format, show_on_off, show_retry_policy, show_size, size, some_cores, some_size, store_cache,
    },
};
use crate::{
    admission::{Mode, Size},
    domain::{Bytes, Cores},
    gantry::Extra,
    gitlab,
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
    setting!("store_cache", store_cache, store_cache, |b: &u64| size(Bytes(*b))),
    setting!(
        "history_attempts",
        history_attempts,
        |t| parse::number(t, &(1..=10_000_000)),
        ToString::to_string
    ),
    setting!("history_memory", history_memory, history_memory, |b: &Option<Bytes>| show_size(*b)),
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
    setting!("log_lines_keep_for", retain.log_lines_for, |t| parse::time(t).map(Some), |t: &Option<
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
    setting!("allocation_confidence", gantry.confidence, parse::up_to_all, ToString::to_string),
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
