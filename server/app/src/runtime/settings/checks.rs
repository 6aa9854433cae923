//! Parsers of single settings, with errors that describe a valid value.

use std::path::PathBuf;

use plimsoll_core::{domain::Bytes, mask, retry};

use super::{Config, parse};

/// The address of a trace collector. Only `http://` is accepted, because spans are sent without
/// TLS.
pub(super) fn collector(text: &str) -> Result<String, String> {
    let address =
        text.strip_prefix("http://").filter(|host| !host.is_empty()).and_then(|_host| plain(text).ok());
    address.ok_or_else(|| {
        let shown = mask::text(text);
        format!("{shown:?} is not the address of a collector; write it as http://127.0.0.1:4317")
    })
}

/// A word without spaces, such as an image or an address. An address must not contain a user or
/// password, because settings are shown to readers.
pub(super) fn plain(text: &str) -> Result<String, String> {
    let shown = mask::text(text);
    let fits = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let host = text.split_once("://").and_then(|(_scheme, rest)| rest.split(['/', '?', '#']).next());
    match host {
        _ if !fits => Err(format!("{shown:?} is empty or holds spaces")),
        Some(host) if host.contains('@') => {
            Err(format!("{shown:?} names a user; settings are shown to readers"))
        }
        _ => Ok(text.to_owned()),
    }
}

/// An address that is shown in pods, so it must not contain a user or password.
pub(super) fn address(text: &str) -> Result<String, String> {
    if text.contains('@') {
        // the text does not quote the address, because it may contain a password
        return Err("must be an address without a user or a password".to_owned());
    }
    plain(text)
}

/// The database of the store. The error never repeats the text, which may have a password in it.
pub(super) fn store_url(text: &str) -> Result<String, String> {
    plimsoll_store::PostgresSettings::check_url(text).map(|()| text.to_owned())
}

pub(super) fn currency(text: &str) -> Result<String, String> {
    let fits = text.chars().count() <= 8 && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if fits { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a currency; write it as EUR")) }
}

pub(super) fn namespaces(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        name.len() <= 63 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let wrong = |name: &str| format!("{name:?} is not a namespace; write it as ci-builds");
    parse::list(text).map(|name| is_name(name).then(|| name.to_owned()).ok_or_else(|| wrong(name))).collect()
}

/// A list of host names, in lower case.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        // length as in RFC 1035, section 2.3.4
        name.len() <= 253 && name.bytes().all(fits) && !name.starts_with('.') && !name.contains("..")
    };
    let wrong = |name: &str| {
        format!(
            "{:?} is not the name of a host; write it without scheme and port, as plimsoll.example",
            mask::text(name)
        )
    };
    let read = |name: &str| {
        let plain = name.trim_end_matches('.').to_ascii_lowercase();
        (is_name(&plain) && !plain.is_empty()).then_some(plain).ok_or_else(|| wrong(name))
    };
    parse::list(text).map(read).collect()
}

pub(super) fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    parse::list(text).map(|code| parse::number(code, &(1..=255))).collect()
}

/// A factor by which a predicted time is multiplied.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err(format!("{text:?} is not a number from 1 to 100")),
    }
}

/// Memory of the storage engine's cache. The engine panics below 256 bytes and is slow with little
/// memory; the upper bound is above the memory of any machine.
pub(super) fn store_cache(text: &str) -> Result<Bytes, String> {
    match parse::size(text)? {
        size @ Bytes(0x10_0000..=0x100_0000_0000) => Ok(size),
        Bytes(_) => Err(format!("{text:?} must be a size from 1MiB to 1TiB")),
    }
}

/// Memory of the history, at least [`Config::MIN_HISTORY`].
pub(super) fn history_memory(text: &str) -> Result<Bytes, String> {
    let size = parse::size(text)?;
    if size >= Bytes(Config::MIN_HISTORY) {
        Ok(size)
    } else {
        Err(format!("{text:?} must be at least 16MiB"))
    }
}

pub(super) fn project(text: &str) -> Result<String, String> {
    let fits = text.len() <= plimsoll_proto::limits::KEY_FIELD_BYTES && !text.chars().any(char::is_control);
    if fits && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a project; write it as group/project"))
    }
}

/// Sets the retry terms: a text is the path of a policy file, or the terms themselves.
pub(super) fn set_retry_policy(config: &mut Config, text: &str) -> Result<(), String> {
    if text.contains("[[") {
        config.retry.terms = retry::RetryPolicy::parse_terms(text)?;
        config.retry_policy = None;
        return Ok(());
    }
    let read = std::fs::read_to_string(text).map_err(|error| format!("{text} cannot be read: {error}"))?;
    let terms = retry::RetryPolicy::parse_terms(&read);
    config.retry.terms = terms.map_err(|error| format!("{text}: {error}"))?;
    config.retry_policy = Some(PathBuf::from(text));
    Ok(())
}

/// The retry terms as [`set_retry_policy`] reads them: the path of the policy file, or the terms
/// themselves.
pub(super) fn written_retry_policy(config: &Config) -> String {
    if let Some(path) = &config.retry_policy {
        return path.display().to_string();
    }
    let tables: Vec<String> =
        config.retry.terms.iter().filter_map(|terms| toml::to_string(terms).ok()).collect();
    if tables.is_empty() { String::new() } else { format!("[[terms]]\n{}", tables.join("[[terms]]\n")) }
}

pub(super) fn labels(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = parse::list(text).map(str::to_owned).collect();
    match names.iter().find(|name| name.len() > plimsoll_proto::limits::LABEL_BYTES) {
        Some(name) => Err(format!("{name:?} is longer than the name of a label may be")),
        None => Ok(names),
    }
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::EnvFilter>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            Err(format!("{text:?} is not a log filter ({error}); write it as info or plimsoll_server=debug"))
        }
    }
}
