//! TLS of a listener. Certificates are reloaded when they change, so that they can be renewed while
//! the server runs.

mod expiry;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, ensure};
pub(crate) use expiry::Expiry;
use plimsoll_base::certificate::last_second;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, ServerConnection,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};
use tokio_util::sync::CancellationToken;
use webpki::EndEntityCert;

use crate::runtime::{
    metrics::{KindLabel, Metrics},
    reload,
    reload::{FileStamp, ReloadedValue},
};

/// Name of the files, for log messages.
const FILES_NAME: &str = "certificates";

/// Days: a certificate that expires sooner should be renewed now.
const RENEW_WITHIN_DAYS: u64 = 14;
/// Seconds of a day.
const DAY_SECONDS: u64 = 86_400;

/// The files of a certificate: its chain, its private key, and the CA of client certificates.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    /// The setting that names the chain, for metrics and texts.
    pub(crate) setting: &'static str,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// How client certificates are checked; `None` if clients need none.
    pub(crate) clients: Option<ClientCertificates>,
    /// Protocols for ALPN. Of these the client's first choice is used.
    pub(crate) protocols: &'static [&'static [u8]],
}

/// How client certificates are checked.
#[derive(Debug, Clone)]
pub(crate) struct ClientCertificates {
    /// File of the CA that signs the clients' certificates.
    pub(crate) ca: PathBuf,
    /// Whether a client without a certificate is refused. If not, it may connect, but has no
    /// identity from a certificate.
    pub(crate) required: bool,
}

/// A certificate that was read.
#[derive(Debug)]
pub(crate) struct ReadCertificate {
    pub(crate) config: Arc<ServerConfig>,
    /// Last second in which it is valid, since 1970; `None` if it does not say.
    pub(crate) last_second: Option<u64>,
}

/// Whether a certificate should be renewed at this time, as a text to put behind its name; `None` if it is good for longer.
pub(crate) fn renewal_note(last_second: u64, now_ms: u64) -> Option<String> {
    let end = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(last_second));
    match last_second.checked_sub(now_ms / 1000) {
        None => Some(format!("ended at {end}: renew it; no client connects")),
        Some(left) if left < RENEW_WITHIN_DAYS * DAY_SECONDS => {
            Some(format!("ends at {end}: renew it, no client connects after that"))
        }
        Some(_) => None,
    }
}

impl Certificate {
    /// Reads the files.
    /// Errors: a file cannot be read or is invalid, or certificate and key do not belong together; the text
    /// names the file.
    pub(crate) fn read(&self) -> anyhow::Result<Arc<ReadCertificate>> {
        let (certificate, key) = (self.chain.display(), self.key.display());
        let chain = certificates(&self.chain)?;
        let private = private_key(&self.key)?;
        let last_second = chain.first().and_then(|certificate| last_second(certificate));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(verifier(clients)?),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, private)
            .with_context(|| format!("{certificate} and {key} do not go together"))?;
        config.alpn_protocols = self.protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(ReadCertificate { config: Arc::new(config), last_second }))
    }

    /// The states of the files on disk; `None` for one that cannot be read.
    fn stamps(&self) -> [Option<FileStamp>; 3] {
        let stamp = |path: &Path| reload::stamp(path).ok();
        [stamp(&self.chain), stamp(&self.key), self.clients.as_ref().and_then(|clients| stamp(&clients.ca))]
    }
}

/// The certificates in a PEM file, at least one.
/// Errors: the file cannot be read, is not a PEM file, or contains no certificate.
pub(crate) fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .with_context(|| format!("{shown} is no PEM file of certificates"))?;
    ensure!(!found.is_empty(), "{shown} holds no certificate");
    Ok(found)
}

/// The private key in a PEM file.
/// Errors: the file cannot be read, is not a PEM file, or contains no private key.
pub(crate) fn private_key(file: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .with_context(|| format!("{} is no PEM file of a private key", file.display()))
}

/// Accepts client certificates that a CA in the file signed. Clients without a certificate are
/// accepted unless one is required.
fn verifier(clients: &ClientCertificates) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let file = clients.ca.as_path();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).with_context(|| format!("{} holds no CA's certificate", file.display()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if clients.required { builder } else { builder.allow_unauthenticated() };
    builder.build().with_context(|| format!("{} cannot be used to check clients", file.display()))
}

/// The certificate in force. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tls(Arc<TlsState>);

#[derive(Debug)]
struct TlsState {
    files: Certificate,
    kept_config: ReloadedValue<ReadCertificate, [Option<FileStamp>; 3]>,
}

impl Tls {
    /// Reads the files.
    /// Errors: a file cannot be read or is invalid.
    pub(crate) fn new(files: Certificate) -> anyhow::Result<Self> {
        let stamps = files.stamps();
        let kept = ReloadedValue::new(FILES_NAME, files.read()?, stamps);
        Ok(Self(Arc::new(TlsState { files, kept_config: kept })))
    }

    /// Performs the handshake with the next client. Reads no file, so that accepting connections
    /// never waits for a disk.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.kept_config.in_force_now().config))
    }

    /// What is to be known of the certificate in force at this time: that it must be renewed.
    pub(crate) fn note(&self, now_ms: u64) -> Option<String> {
        let note = renewal_note(self.0.kept_config.in_force_now().last_second?, now_ms)?;
        Some(format!("the certificate of {} {note}", self.0.files.setting))
    }

    /// Reads the files again if they have changed. Invalid files are logged and counted, and the
    /// certificate in force stays.
    fn reload_if_changed(&self, asked: bool, metrics: &Metrics) {
        let TlsState { files, kept_config: kept } = &*self.0;
        let stamps = |_before: &_| files.stamps();
        if kept.reload_if_changed(asked, stamps, |_now| files.read(), &metrics.certificates_reloads).is_some()
        {
            tracing::info!(certificate = %files.chain.display(), "took a renewed certificate over");
        }
    }
}

/// Reloads changed certificates of all listeners, until `end`.
/// Errors: the signal handler cannot be installed.
pub(crate) async fn watch(
    all_tls: Arc<[Tls]>,
    metrics: Arc<Metrics>,
    end: CancellationToken,
) -> anyhow::Result<()> {
    reload::watch_files(FILES_NAME, end, move |asked| reload_all(&all_tls, asked, &metrics)).await
}

/// Reloads the changed files of all listeners, and sets the metric of listeners with invalid files.
fn reload_all(all: &[Tls], asked: bool, metrics: &Metrics) {
    for tls in all {
        tls.reload_if_changed(asked, metrics);
        let end = tls.0.kept_config.in_force_now().last_second.and_then(|end| i64::try_from(end).ok());
        metrics
            .certificate_ends
            .get_or_create(&KindLabel::of(tls.0.files.setting))
            .set(end.unwrap_or_default());
    }
    let refused = all.iter().filter(|tls| tls.0.kept_config.is_refused()).count();
    metrics.certificates_refused.set(i64::try_from(refused).unwrap_or(i64::MAX));
}

/// When the client's certificate expires; `None` if the client sent none.
pub(crate) fn expiry(connection: &ServerConnection) -> Option<Expiry> {
    Expiry::of(connection.peer_certificates()?.first()?)
}

/// The DNS names in the client's certificate, which was checked; none if the client sent none.
pub(crate) fn names(connection: &ServerConnection) -> Arc<[String]> {
    let shown = connection.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.and_then(|certificate| EndEntityCert::try_from(certificate).ok());
    let names =
        certificate.as_ref().map(|certificate| certificate.valid_dns_names().map(str::to_owned).collect());
    names.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn renewed_certificates_are_loaded_and_invalid_ones_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let [chain, key] = ["tls.crt", "tls.key"].map(|name| dir.path().join(name));
        let (own_chain, own_key) = (chain.clone(), key.clone());
        let renew = || {
            let mut made = CertificateParams::new(["localhost".to_owned()]).unwrap();
            made.not_after = date_time_ymd(2049, 3, 2);
            let key = KeyPair::generate().unwrap();
            fs::write(&own_key, key.serialize_pem()).unwrap();
            fs::write(&own_chain, made.self_signed(&key).unwrap().pem()).unwrap();
        };
        renew();
        let files = Certificate { setting: "tls_cert_file", chain, key, clients: None, protocols: &[b"h2"] };
        let tls = Tls::new(files).unwrap();
        let in_force = || tls.0.kept_config.in_force_now();
        let (first, metrics) = (in_force(), Metrics::new());
        let look = |asked| reload_all(std::slice::from_ref(&tls), asked, &metrics);
        look(false);
        assert!(Arc::ptr_eq(&first, &in_force()), "nothing has changed");
        fs::write(&own_chain, "nonsense").unwrap();
        look(false);
        look(false);
        assert!(Arc::ptr_eq(&first, &in_force()), "what is wrong is not taken over");
        assert_eq!(metrics.certificates_refused.get(), 1, "for as long as it is wrong");
        renew();
        look(true);
        assert!(!Arc::ptr_eq(&first, &in_force()));
        let count = |kind| metrics.certificates_reloads.get_or_create(&KindLabel::of(kind)).get();
        assert_eq!((metrics.certificates_refused.get(), count("refused"), count("taken")), (0, 1, 1));
        let end: u64 = 28_915 * DAY_SECONDS;
        let shown = metrics.certificate_ends.get_or_create(&KindLabel::of("tls_cert_file")).get();
        assert_eq!(shown.cast_unsigned(), end);
        for (days_left, note) in [(15, None), (13, Some("ends at 2049-03-02")), (-1, Some("ended at"))] {
            let found = tls.note((end * 1000).saturating_add_signed(-days_left * 86_400_000));
            let is_said = note.map(|note| format!("the certificate of tls_cert_file {note}"));
            assert_eq!(found.is_some(), is_said.is_some(), "{days_left}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(&is_said.unwrap_or_default()), "{days_left}");
        }
    }
}
