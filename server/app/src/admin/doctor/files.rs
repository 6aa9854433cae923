//! Checks the files named in the settings by reading them as a starting server does.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use plimsoll_core::{domain::History, shared_history::SharedHistory};

use super::{CheckLine, line_of};
use crate::{
    access::{guard::Guard, identity::AccessFile},
    causes::{FailureClassifier, RuleSources},
    pools::PoolRegistry,
    runtime::{
        clock::Clock,
        metrics::Metrics,
        settings::Config,
        tls::{Certificate, ClientCertificates, renewal_note},
    },
    sizing::shadow_mode::ShadowMode,
};

/// Checks the access file.
pub(super) fn check_access(config: &Config) -> CheckLine {
    const CHECK_NAME: &str = "access file";
    let Some(path) = &config.access_file else {
        let open = "without an access file every caller may do everything";
        let is_local =
            [config.grpc_listen, config.http_listen].iter().all(|address| address.ip().is_loopback());
        return if is_local {
            CheckLine::ok(CHECK_NAME, format!("{open}; only this machine can reach the server"))
        } else {
            CheckLine::fail(
                CHECK_NAME,
                format!("{open}, and other machines can reach the server: set access_file"),
            )
        };
    };
    let read = || {
        Guard::open(Some(path.clone()), Arc::new(Metrics::new()))?;
        let file = AccessFile::parse(&fs::read_to_string(path)?).map_err(|wrong| anyhow!(wrong))?;
        Ok(format!("{}: {}", path.display(), file.in_words()))
    };
    line_of(CHECK_NAME, read())
}

/// Checks the certificate of the listeners for gRPC and HTTP.
pub(super) fn check_tls(config: &Config) -> CheckLine {
    const CHECK_NAME: &str = "certificate";
    let (Some(chain), Some(key)) = (&config.tls.certificate, &config.tls.key) else {
        let why = if config.plain_text {
            "as plain_text = on says"
        } else {
            "only this machine can reach the server"
        };
        return CheckLine::ok(CHECK_NAME, format!("none, so no TLS: {why}"));
    };
    let clients = config.tls.client_ca.as_ref();
    let clients =
        clients.map(|ca| ClientCertificates { ca: ca.clone(), required: config.tls.client_required });
    line_of(CHECK_NAME, good_until(chain, key, clients))
}

/// Checks the webhook's certificate, if there is one.
pub(super) fn check_webhook(config: &Config) -> Option<CheckLine> {
    let admission = &config.admission;
    let _address = admission.listen?;
    let (chain, key) = (admission.certificate.as_ref()?, admission.key.as_ref()?);
    let clients =
        admission.client_ca.as_ref().map(|ca| ClientCertificates { ca: ca.clone(), required: true });
    Some(line_of("hook's TLS", good_until(chain, key, clients)))
}

/// Checks that a certificate and its key can be used; returns a text with the day on which it
/// expires.
fn good_until(chain: &Path, key: &Path, clients: Option<ClientCertificates>) -> anyhow::Result<String> {
    let setting = "tls_cert_file";
    let files =
        Certificate { setting, chain: chain.to_owned(), key: key.to_owned(), clients, protocols: &[] };
    let (shown, last) = (chain.display(), files.read()?.last_second);
    let last = last.with_context(|| format!("{shown} does not say when it ends: make another one"))?;
    if let Some(note) = renewal_note(last, Clock.now_unix_ms()) {
        bail!("{shown} {note}");
    }
    let end = humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_secs(last));
    Ok(format!("{shown} is good until {end}"))
}

/// Checks the pools file.
pub(super) fn pools(config: &Config) -> CheckLine {
    let read = PoolRegistry::open(config.pools_file.clone(), Arc::new(Metrics::new()));
    line_of("pools", read.map(|_pools| named_file(config.pools_file.as_ref())))
}

/// Checks the shadow file, if there is one.
pub(super) fn shadow(config: &Config) -> Option<CheckLine> {
    let file = config.shadow_file.as_ref()?;
    let read = ShadowMode::open(Some(file.clone()), config.shadow.clone(), Arc::new(Metrics::new()));
    Some(line_of("shadow mode", read.map(|_mode| file.display().to_string())))
}

/// Checks the operator's rules for verdicts, and the retry terms.
pub(super) fn check_rules(config: &Config) -> CheckLine {
    let sources = RuleSources {
        rules_dir: config.rules_dir.clone(),
        policy_file: config.retry_policy.clone(),
        policy: config.retry.clone(),
    };
    let read =
        FailureClassifier::open(sources, &SharedHistory::new(History::new(1)), Arc::new(Metrics::new()));
    let files = [&config.rules_dir, &config.retry_policy].into_iter().flatten();
    let names: Vec<String> = files.map(|path| path.display().to_string()).collect();
    let text = if names.is_empty() { "those of the program".to_owned() } else { names.join(", ") };
    line_of("retry rules", read.map(|_engine| text))
}

fn named_file(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "no file".to_owned(), |path| path.display().to_string())
}
