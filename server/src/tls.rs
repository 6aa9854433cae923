//! What a listener needs to speak TLS. Certificates are read again when they change, so that they can be renewed while it
//! serves.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, ensure};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, ServerConnection,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};
use webpki::EndEntityCert;

/// How often the files are looked at. A renewed certificate is there days before the old one ends.
const LOOK: Duration = Duration::from_secs(10);

/// The files of a certificate, those that sign it, and its private key; and of whoever signs the certificates of clients.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// Whether clients show certificates too.
    pub(crate) clients: Option<Clients>,
    /// What may be spoken over it; what a client offers first is taken.
    pub(crate) protocols: &'static [&'static [u8]],
}

/// Certificates of clients.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// Who signs them.
    pub(crate) ca: PathBuf,
    /// A client without one is sent away; else it may come, and is nobody by its certificate.
    pub(crate) required: bool,
}

impl Certificate {
    /// Reads all of them.
    ///
    /// # Errors
    /// Which file cannot be read, or is not what it should be, or that they do not belong together.
    pub(crate) fn read(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let (certificate, key) = (self.chain.display(), self.key.display());
        let chain = certificates(&self.chain)?;
        let private = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("{key} is no PEM file of a private key"))?;
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
        Ok(Arc::new(config))
    }

    /// When the files were last changed.
    fn stamps(&self) -> [Option<SystemTime>; 3] {
        let stamp = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        [stamp(&self.chain), stamp(&self.key), self.clients.as_ref().and_then(|clients| stamp(&clients.ca))]
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .with_context(|| format!("{shown} is no PEM file of certificates"))?;
    ensure!(!found.is_empty(), "{shown} holds no certificate");
    Ok(found)
}

/// Who takes clients with a certificate that one of those in the file signed, and others only where none is required.
fn verifier(clients: &Clients) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
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

/// The certificate in force.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Certificate,
    config: Arc<ServerConfig>,
    stamps: [Option<SystemTime>; 3],
    looked: Instant,
}

impl Tls {
    /// With the files as they are now.
    ///
    /// # Errors
    /// The files are not what they should be.
    pub(crate) fn new(files: Certificate) -> anyhow::Result<Self> {
        // stamps first: a change between the two is seen at the next look
        let (stamps, config) = (files.stamps(), files.read()?);
        Ok(Self { files, config, stamps, looked: Instant::now() })
    }

    /// What shakes hands with the next client.
    pub(crate) fn acceptor(&mut self) -> TlsAcceptor {
        self.renew();
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Takes changed files over. Those that are wrong are named in the log, and the certificate in force stays.
    fn renew(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let stamps = self.files.stamps();
        if stamps == self.stamps {
            return;
        }
        self.stamps = stamps;
        match self.files.read() {
            Ok(config) => {
                self.config = config;
                tracing::info!(certificate = %self.files.chain.display(), "took a renewed certificate over");
            }
            Err(error) => tracing::error!(error = format!("{error:#}"), "the certificate in force stays"),
        }
    }
}

/// The DNS names in the certificate that a client has shown and that was checked; none if it showed none.
pub(crate) fn names(connection: &ServerConnection) -> Arc<[String]> {
    let shown = connection.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.and_then(|certificate| EndEntityCert::try_from(certificate).ok());
    let names =
        certificate.as_ref().map(|certificate| certificate.valid_dns_names().map(str::to_owned).collect());
    names.unwrap_or_default()
}
