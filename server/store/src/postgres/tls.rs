//! TLS for connections to the database: the certificate and the name in it are always checked.

use std::{
    fmt,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use plimsoll_base::certificate::signature_algorithm;
use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream as ClientStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, InvalidDnsNameError, ServerName, pem::PemObject},
    },
};

/// The protocol's name in the handshake, as PostgreSQL 17 expects it.
const PROTOCOL: &[u8] = b"postgresql";

/// Which CAs are trusted.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// The CAs of the system and those in `ca_file`.
pub(super) fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(file) = ca_file else { return Ok(roots) };
    let wrong = |reason: String| format!("store_ca_file {}: {reason}", file.display());
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.len() == before {
        return Err(wrong("it has no certificate in PEM".to_owned()));
    }
    Ok(roots)
}

impl Tls {
    /// Trusts these CAs.
    pub(super) fn with_roots(roots: RootCertStore) -> Result<Self, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = DatabaseStream;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        Ok(Handshake { config: Arc::clone(&self.0), host: ServerName::try_from(host)?.to_owned() })
    }
}

/// A handshake with one host.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = DatabaseStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<DatabaseStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let handshake = TlsConnector::from(self.config).connect(self.host, socket);
        Box::pin(async { Ok(DatabaseStream(Box::new(handshake.await?))) })
    }
}

/// A connection after its handshake.
pub(super) struct DatabaseStream(Box<ClientStream<Socket>>);

impl TlsStream for DatabaseStream {
    /// The hash of the server's certificate, as libpq sends it. None if the certificate is signed with an algorithm that names no hash.
    fn channel_binding(&self) -> ChannelBinding {
        let chain = self.0.get_ref().1.peer_certificates();
        let hash = chain.and_then(<[_]>::first).and_then(|certificate| end_point_hash(certificate));
        hash.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// The hash of a certificate by which a login is bound to its connection (RFC 5929, section 4.1): with the hash of its signature, and
/// SHA-256 in place of SHA-1.
fn end_point_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    /// Algorithms of RFC 8017 (RSA) and RFC 5758 (ECDSA), as DER writes them without the last number.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let (last, family) = signature_algorithm(certificate)?.split_last()?;
    let hash = match (family, last) {
        (RSA, 5 | 11) | (ECDSA_SHA1, 1) | (ECDSA, 2) => &digest::SHA256,
        (RSA, 12) | (ECDSA, 3) => &digest::SHA384,
        (RSA, 13) | (ECDSA, 4) => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

impl AsyncRead for DatabaseStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for DatabaseStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
