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
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};

/// How often the files are looked at. A renewed certificate is there days before the old one ends.
const LOOK: Duration = Duration::from_secs(10);
/// What a client offers first is taken: HTTP/2, or HTTP/1.1.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of a certificate, those that sign it, and its private key; and of whoever signs the certificates of clients.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// With it, a client must show a certificate that one of these signed.
    pub(crate) client_ca: Option<PathBuf>,
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
        let builder = match &self.client_ca {
            Some(file) => builder.with_client_cert_verifier(verifier(file)?),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, private)
            .with_context(|| format!("{certificate} and {key} do not go together"))?;
        config.alpn_protocols = PROTOCOLS.map(Vec::from).to_vec();
        Ok(Arc::new(config))
    }

    /// When the files were last changed.
    fn stamps(&self) -> [Option<SystemTime>; 3] {
        let stamp = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        [stamp(&self.chain), stamp(&self.key), self.client_ca.as_deref().and_then(stamp)]
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

/// Who takes clients with a certificate that one of those in the file signed, and nobody else.
fn verifier(file: &Path) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).with_context(|| format!("{} holds no CA's certificate", file.display()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.with_context(|| format!("{} cannot be used to check clients", file.display()))
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
    pub(super) fn acceptor(&mut self) -> TlsAcceptor {
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
                tracing::info!("took the webhook's renewed certificate over");
            }
            Err(error) => tracing::error!(error = format!("{error:#}"), "the webhook's certificate stays"),
        }
    }
}
