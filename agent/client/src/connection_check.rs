//! Checks the connection of an agent to its server step by step: the address, a TCP connection, the certificate, the spool directory. Every
//! step ends within [`STEP_TIMEOUT`]; the survey of several servers ends as a round of `servers` does.

use std::{
    io,
    net::{SocketAddr, TcpStream as BlockingStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use plimsoll_proto::v1::Hello;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::timeout};
use tonic::transport::Endpoint;

use crate::{
    channel::{host_and_port, is_tls, name},
    delivery::{REFUSED_SUFFIX, SPOOL_SUFFIX, Spool, own_dir},
    files::run_with_timeout,
    reasons::{no_server, refused_by_network},
    servers::{Servers, TCP, TryFailure},
    trust::Trust,
};

/// Time limit of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit of each read during the TLS handshake.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// A parsed server address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// The URL as the user gave it, with its scheme.
    pub url: String,
    host: String,
    port: u16,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
}

/// A directory for samples that are not delivered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolDirectory {
    /// Path of the directory.
    pub dir: PathBuf,
    /// Free bytes on the disk of the directory; `None` if unknown.
    pub free_bytes: Option<u64>,
    /// Number of attempts of earlier runs that wait for delivery.
    pub waiting: usize,
    /// Number of attempts that the server refused for good.
    pub refused: usize,
}

/// An address of one of the servers, and what answers there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedServer {
    /// The address as text for people: the URL, and the IP address if the host is a name.
    pub label: String,
    /// The URL.
    pub address: ServerAddress,
    /// The IP address and the port; `None` if the host name has none.
    pub peer: Option<SocketAddr>,
    /// Whether there are other servers.
    pub is_one_of_several: bool,
    /// What answers there.
    pub state: ServerState,
}

/// What answers at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// A server that serves; where there is one address only: a program that takes connections.
    Serves,
    /// A server that does not serve now, with its reason.
    Standby(String),
    /// Nothing, or another program; the text says why.
    NoAnswer(String),
}

/// Parses the addresses of the servers, reads the files of a connection, and looks at each address, and at each address behind a name.
/// Errors: an address is invalid, or the certificates or the key cannot be read.
pub async fn survey(servers: &str, trust: &Trust) -> Result<Vec<SurveyedServer>, String> {
    let tries = Servers::parse(servers, trust, TCP).await?.survey().await;
    let surveyed = tries.into_iter().map(|tried| SurveyedServer {
        label: tried.label,
        address: ServerAddress::of(&tried.endpoint),
        peer: tried.address,
        is_one_of_several: tried.is_one_of_several,
        state: match tried.outcome {
            Ok(_connection) => ServerState::Serves,
            Err(TryFailure { is_standby: true, text, .. }) => ServerState::Standby(text),
            Err(failure) => ServerState::NoAnswer(failure.text),
        },
    });
    Ok(surveyed.collect())
}

impl ServerAddress {
    fn of(endpoint: &Endpoint) -> Self {
        let (host, port) = host_and_port(endpoint);
        Self { url: name(endpoint), host, port, is_tls: is_tls(endpoint) }
    }

    /// Connects by TCP, and returns the address that accepted the connection.
    /// Errors: the host name is unknown, or no program listens at the address.
    pub async fn connect(&self) -> Result<SocketAddr, String> {
        let connected = timeout(STEP_TIMEOUT, TcpStream::connect((self.host.as_str(), self.port))).await;
        let stream = match connected {
            Ok(connected) => connected.map_err(|error| refused_by_network(&self.url, &error))?,
            Err(_late) => return Err(no_server(&self.url, &format!("no answer within {STEP_TIMEOUT:?}"))),
        };
        stream.peer_addr().map_err(|error| refused_by_network(&self.url, &error))
    }

    /// The certificate that the server at `peer` presents, in DER, trusted or not. `None` if it presents none, because it does not use TLS
    /// or does not answer.
    pub async fn certificate(&self, peer: SocketAddr) -> Option<Vec<u8>> {
        let name = ServerName::try_from(self.host.clone()).ok()?;
        run_with_timeout(move || presented_certificate(peer, name).ok().flatten()).await.ok().flatten()
    }
}

/// Starts a TLS handshake, and ends it when the certificate has arrived.
fn presented_certificate(peer: SocketAddr, name: ServerName<'static>) -> io::Result<Option<Vec<u8>>> {
    let seen = Arc::new(SeenCertificate::default());
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::<SeenCertificate>::clone(&seen));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = BlockingStream::connect_timeout(&peer, READ_TIMEOUT)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    let begun = Instant::now();
    // the handshake fails as soon as the certificate is recorded; a server that sends single bytes gets no extra time
    while connection.is_handshaking() && begun.elapsed() < STEP_TIMEOUT {
        while connection.wants_write() {
            connection.write_tls(&mut stream)?;
        }
        if connection.read_tls(&mut stream)? == 0 || connection.process_new_packets().is_err() {
            break;
        }
    }
    let certificate = seen.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(certificate)
}

/// Records the server's certificate and then refuses it, so that no TLS connection is established.
#[derive(Debug, Default)]
struct SeenCertificate(Mutex<Option<Vec<u8>>>);

impl ServerCertVerifier for SeenCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate.to_vec());
        Err(TlsError::General("the certificate was only looked at".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Err(TlsError::General("nothing is trusted here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verify_tls12_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Creates a file in the spool directory as an attempt would, and removes it. Creates the directory if needed.
/// Errors: an attempt could not store samples there.
pub async fn check_spool(dir: &Path, bytes: u64) -> io::Result<SpoolDirectory> {
    let dir = dir.to_owned();
    run_with_timeout(move || look_at_spool(&own_dir(&dir), bytes)).await?
}

fn look_at_spool(dir: &Path, bytes: u64) -> io::Result<SpoolDirectory> {
    let hello =
        Hello { attempt: "doctor".to_owned(), session: ulid::Ulid::new().to_string(), ..Hello::default() };
    let trial = Spool::create(dir, bytes, &hello)?;
    // the file is removed while it is locked, so that no other agent delivers it as the file of a dead agent
    std::fs::remove_file(&trial.path)?;
    let (mut waiting, mut refused) = (0, 0);
    for file in std::fs::read_dir(dir)?.flatten() {
        let path = file.path();
        waiting += usize::from(path.extension().is_some_and(|end| end == SPOOL_SUFFIX));
        refused += usize::from(path.extension().is_some_and(|end| end == REFUSED_SUFFIX));
    }
    let free = rustix::fs::statvfs(dir).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    Ok(SpoolDirectory { dir: dir.to_owned(), free_bytes: free, waiting, refused })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::endpoint;

    async fn address(server: &str) -> ServerAddress {
        ServerAddress::of(&endpoint(server, &Trust::default()).await.unwrap())
    }

    #[tokio::test]
    async fn addresses_default_to_their_schemes_port() {
        let plain = address("http://[::1]").await;
        assert_eq!((plain.host.as_str(), plain.port, plain.is_tls), ("::1", 80, false));
        assert_eq!((address("https://ci").await.port, address("ci:7410").await.port), (443, 7410));
    }

    #[tokio::test]
    async fn a_closed_port_differs_from_missing_tls() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let server = address(&format!("https://{peer}")).await;
        assert_eq!(server.connect().await, Ok(peer));
        drop(listener);
        assert_eq!(server.certificate(peer).await, None);
        assert!(server.connect().await.unwrap_err().contains("connection refused"));
    }

    #[tokio::test]
    async fn checking_a_spool_leaves_it_unchanged() {
        let (dir, path) = plimsoll_support::temporary::file_name("spool");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("a.refused"), "").unwrap();
        let found = check_spool(&path, 1 << 20).await.unwrap();
        assert_eq!((found.waiting, found.refused, found.dir), (0, 1, path.clone()));
        assert!(found.free_bytes.is_some());
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(check_spool(&file.join("spool"), 1 << 20).await.is_err());
    }
}
