//! A listener that speaks TLS. Certificates are read again when they change, so that they can be renewed while it serves.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, ensure};
use axum::serve::Listener;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
    server::TlsStream,
};

/// How often the files are looked at. A renewed certificate is there days before the old one ends.
const LOOK: Duration = Duration::from_secs(10);
/// A client that does not shake hands for so long is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Clients that may shake hands at once; others wait in the kernel's queue.
const HANDSHAKES: usize = 256;

/// Where certificate and key are.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Files {
    /// Reads both.
    ///
    /// # Errors
    /// Which file cannot be read, or is not what it should be, or that they do not belong together.
    pub(crate) fn read(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .with_context(|| format!("{certificate} is no PEM file of certificates"))?;
        ensure!(!chain.is_empty(), "{certificate} holds no certificate");
        let private = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("{key} is no PEM file of a private key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .with_context(|| format!("{certificate} and {key} do not go together"))?;
        Ok(Arc::new(config))
    }

    /// When the files were last changed.
    fn stamps(&self) -> [Option<SystemTime>; 2] {
        let stamp = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        [stamp(&self.certificate), stamp(&self.key)]
    }
}

/// Connections whose handshake is done. Each handshake has a task of its own: a client that is slow holds up nobody.
#[derive(Debug)]
pub(crate) struct TlsListener {
    listener: TcpListener,
    files: Files,
    config: Arc<ServerConfig>,
    stamps: [Option<SystemTime>; 2],
    looked: Instant,
    shaking: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// Takes over a listener.
    ///
    /// # Errors
    /// The files are not what they should be.
    pub(crate) fn new(listener: TcpListener, files: Files) -> anyhow::Result<Self> {
        let (config, stamps) = (files.read()?, files.stamps());
        Ok(Self { listener, files, config, stamps, looked: Instant::now(), shaking: JoinSet::new() })
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.renew();
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        self.shaking.spawn(async move {
            match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => return Some((stream, peer)),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_slow) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
            None
        });
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

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let room = self.shaking.len() < HANDSHAKES;
            tokio::select! {
                Some(done) = self.shaking.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
                accepted = self.listener.accept(), if room => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    Err(error) => {
                        // out of descriptors, mostly: others give theirs back
                        tracing::warn!(%error, "cannot accept");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
