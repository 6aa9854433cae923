//! The connection to a running server for its backup. The only certificate that it trusts is the
//! one in the server's settings.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme, StreamOwned,
    client::{
        WantsClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::runtime::tls::{certificates, private_key};

/// The connection is closed if the server sends nothing for this time.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// A server on another machine.
#[derive(Debug)]
pub(crate) struct RemoteServer<'a> {
    /// The name in the server's certificate.
    pub(crate) host: String,
    /// PEM file of the CA that signed the server's certificate.
    pub(crate) ca: &'a Path,
}

/// The running server to which the command connects: on this machine, described by its settings, or
/// on another machine.
#[derive(Debug)]
pub(crate) struct RunningServer<'a> {
    /// Address of the server's HTTP listener.
    pub(crate) address: SocketAddr,
    /// The server's certificate; `None` if its listener uses plain text.
    pub(crate) certificate: Option<&'a Path>,
    /// How to connect if the server is on another machine; `certificate` is not used then. `None`
    /// if the server is on this machine.
    pub(crate) remote: Option<RemoteServer<'a>>,
    /// Token of an operator.
    pub(crate) token: Option<String>,
    /// PEM files of a client certificate and its key, if the server requires one or identifies an operator by it.
    pub(crate) client: Option<(&'a Path, &'a Path)>,
}

/// A connection, with or without TLS.
pub(super) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Connects to a running server.
/// Errors: no server listens there, or the certificate cannot be read.
pub(super) fn connect(server: &RunningServer<'_>) -> anyhow::Result<Box<dyn Stream>> {
    let address = server.address;
    let stream = TcpStream::connect(address)
        .with_context(|| format!("the server's HTTP listener {address} (http_listen) cannot be reached"))?;
    stream.set_read_timeout(Some(LONGEST_SILENCE))?;
    let (config, name) = match (&server.remote, server.certificate) {
        (Some(RemoteServer { host, ca }), _) => {
            (trust_ca(ca, server.client)?, ServerName::try_from(host.clone()).context("--server")?)
        }
        (None, Some(file)) => (client_config(file, server.client)?, ServerName::from(address.ip())),
        (None, None) => return Ok(Box::new(stream)),
    };
    let connection = ClientConnection::new(Arc::new(config), name)?;
    Ok(Box::new(StreamOwned::new(connection, stream)))
}

/// The request header with the token; empty without a token.
/// Errors: the token contains characters that a header must not contain.
pub(super) fn authorization(token: Option<&str>) -> anyhow::Result<String> {
    let Some(token) = token else { return Ok(String::new()) };
    let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(is_one, "the file of --token-file must hold one token, of printable characters alone");
    Ok(format!("Authorization: Bearer {token}\r\n"))
}

fn client_config(file: &Path, client: Option<(&Path, &Path)>) -> anyhow::Result<ClientConfig> {
    let shown = file.display();
    // the first certificate in the file is the server's own
    let own = certificates(file).context("tls_cert_file")?.into_iter().next();
    let certificate = own.with_context(|| format!("{shown} (tls_cert_file) holds no certificate"))?;
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let only = Arc::new(PinnedCertificate { certificate, algorithms });
    with_client_certificate(config.dangerous().with_custom_certificate_verifier(only), client)
}

/// A TLS configuration that trusts certificates signed by this CA, for the requested name.
fn trust_ca(ca: &Path, client: Option<(&Path, &Path)>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca).context("--ca")? {
        roots.add(certificate).with_context(|| format!("--ca {}", ca.display()))?;
    }
    ensure!(!roots.is_empty(), "--ca {} holds no certificate", ca.display());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    with_client_certificate(
        config.with_safe_default_protocol_versions()?.with_root_certificates(roots),
        client,
    )
}

/// Adds the client certificate, if one is configured.
fn with_client_certificate(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    client: Option<(&Path, &Path)>,
) -> anyhow::Result<ClientConfig> {
    let Some((chain, key)) = client else { return Ok(config.with_no_client_auth()) };
    config
        .with_client_auth_cert(certificates(chain)?, private_key(key)?)
        .with_context(|| format!("{} and {} do not go together", chain.display(), key.display()))
}

/// Trusts exactly one certificate and ignores its names and dates: only the holder of its private
/// key can use it.
#[derive(Debug)]
struct PinnedCertificate {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.certificate.as_ref() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        net::TcpListener,
        thread,
    };

    use plimsoll_store::{FORMAT_VERSION, StoreIdentity, archive::Packer};
    use tokio_rustls::rustls::ServerConnection;

    use super::*;
    use crate::{admin::tasks::backup, runtime::tls::Certificate};

    fn archive() -> Vec<u8> {
        let identity =
            StoreIdentity { format: FORMAT_VERSION, id: ulid::Ulid::from_parts(1, 2), sequence: 9 };
        let (packer, head) = Packer::begin(identity);
        [head, packer.end().unwrap()].concat()
    }

    /// A certificate for another name, as one behind a proxy may have.
    fn certificate(dir: &Path, name: &str) -> Certificate {
        let (chain, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        let pair = rcgen::KeyPair::generate().unwrap();
        let made =
            rcgen::CertificateParams::new(["elsewhere".to_owned()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&chain, made.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        Certificate { setting: "", chain, key, clients: None, protocols: &[b"h2", b"http/1.1"] }
    }

    /// Answers one request: with an archive whom shows the token, else with a refusal.
    fn serve(certificate: &Certificate) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, config) = (listener.local_addr().unwrap(), certificate.read().unwrap());
        thread::spawn(move || {
            let connection = ServerConnection::new(Arc::clone(&config.config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, listener.accept().unwrap().0));
            let (mut request, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).is_ok_and(|count| count > 2) {
                request.push_str(&std::mem::take(&mut line));
            }
            let answer = if request.contains("\r\nAuthorization: Bearer secret\r\n") {
                [b"HTTP/1.0 200 OK\r\n\r\n".as_slice(), &archive()].concat()
            } else {
                b"HTTP/1.0 401 Unauthorized\r\n\r\nsend a token".to_vec()
            };
            let stream = stream.get_mut();
            // one that does not trust us has left
            drop(stream.write_all(&answer));
            stream.conn.send_close_notify();
            drop(stream.flush());
        });
        address
    }

    fn fetch(address: SocketAddr, trusted: &Path, token: Option<&str>) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let server = RunningServer {
            address,
            certificate: Some(trusted),
            remote: None,
            token: token.map(ToOwned::to_owned),
            client: None,
        };
        backup::fetch_archive(&server, None, &mut out, |_| {})?;
        Ok(out)
    }

    #[test]
    fn tls_backups_require_token_and_trusted_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (certificate(dir.path(), "own"), certificate(dir.path(), "other"));
        assert_eq!(fetch(serve(&own), &own.chain, Some("secret")).unwrap(), archive());
        let refused = fetch(serve(&own), &own.chain, None).unwrap_err().to_string();
        assert!(refused.contains("status 401, send a token"), "{refused}");
        let strange = format!("{:#}", fetch(serve(&other), &own.chain, Some("secret")).unwrap_err());
        assert!(strange.contains("certificate"), "{strange}");
        assert!(fetch(serve(&own), &own.chain, Some("two words")).is_err());
    }
}
