//! Where a server is, and how a connection to it comes about.
//!
//! `http://` is plain text, `https://` is TLS. A server behind TLS must show a certificate that the system trusts, or one that
//! is signed by the CA of a file that the user names; then nobody else is trusted.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, Read as _},
    path::Path,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error};

use super::{token::Token, trouble::innermost};

/// How long a TCP connection may take to come about, and as long the TLS handshake.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// A connection that is silent this long is asked whether it lives, and has as long to answer.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Bytes that the server may send before the agent has read them. Acknowledgements are small; an answer to a question is
/// larger, but nobody waits for its speed.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Requests that may wait for the connection: an agent makes one or two.
const WAITING_REQUESTS: usize = 4;
/// Bytes of a file with CA certificates, at most: the bundles of whole systems have a quarter of a MiB.
const CA_BYTES: u64 = 4 << 20;
/// What a certificate begins with in a PEM file.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// A server's address, and the network that leads to it.
#[derive(Debug, Clone)]
pub(super) struct Route {
    endpoint: Endpoint,
    token: Option<Token>,
    network: Arc<dyn Network>,
}

/// A connection that comes about, or not.
pub(super) type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Channel, Error>> + Send + 'a>>;

/// What makes connections. There is one; tests put a simulated one in its place.
pub(super) trait Network: Debug + Send + Sync {
    /// Connects to a server.
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> Connecting<'a>;
}

/// The network that the machine is in.
#[derive(Debug)]
pub(super) struct Internet;

impl Network for Internet {
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> Connecting<'a> {
        Box::pin(endpoint.connect())
    }
}

impl Route {
    /// A route over `network`.
    pub(super) fn new(endpoint: Endpoint, token: Option<Token>, network: Arc<dyn Network>) -> Self {
        Self { endpoint, token, network }
    }

    /// What says who comes.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Channel, Error> {
        self.network.connect(&self.endpoint).await
    }

    /// The server's address, for people.
    pub(super) fn server(&self) -> String {
        name(&self.endpoint)
    }
}

/// The address of an endpoint, for people.
pub(crate) fn name(endpoint: &Endpoint) -> String {
    endpoint.uri().to_string().trim_end_matches('/').to_owned()
}

/// Where a server is, and how to connect to it. `ca` names a PEM file with the CA certificates to trust instead of the system's.
///
/// # Errors
/// The address is not one, or the certificates cannot be read; in words.
pub(crate) fn endpoint(server: &str, ca: Option<&Path>) -> Result<Endpoint, String> {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let wrong = |why: &str| format!("{server:?} is not an address: {why}");
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let endpoint = Endpoint::from_shared(url).map_err(|error| wrong(&error.to_string()))?;
    let endpoint = match scheme.as_deref() {
        Some("http") => endpoint,
        Some("https") => {
            let tls = tls(ca)?.timeout(CONNECT_PATIENCE);
            endpoint.tls_config(tls).map_err(|error| no_tls(&innermost(&error)))?
        }
        _ => return Err(wrong("expected http://HOST:PORT or https://HOST:PORT")),
    };
    Ok(endpoint
        .connect_timeout(CONNECT_PATIENCE)
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .buffer_size(WAITING_REQUESTS)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true))
}

fn tls(ca: Option<&Path>) -> Result<ClientTlsConfig, String> {
    let Some(path) = ca else {
        return Ok(ClientTlsConfig::new().with_native_roots());
    };
    let pem = certificates(path).map_err(|error| format!("--ca {}: {error}", path.display()))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

fn certificates(path: &Path) -> io::Result<Vec<u8>> {
    let mut pem = Vec::new();
    File::open(path)?.take(CA_BYTES).read_to_end(&mut pem)?;
    if pem.windows(CERTIFICATE.len()).any(|window| window == CERTIFICATE) {
        return Ok(pem);
    }
    Err(io::Error::other("no certificate in it; expected PEM, that is, -----BEGIN CERTIFICATE-----"))
}

fn no_tls(why: &str) -> String {
    format!("no TLS: {why}; name the certificates to trust with --ca FILE or PLIMSOLL_CA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_schemes_are_addresses() {
        for good in ["127.0.0.1:1", "http://host:1", "host", "http://[::1]:1"] {
            assert!(endpoint(good, None).is_ok(), "{good}");
        }
        for bad in ["grpc://host:1", "http://no spaces", "", "http://", "unix:///run/x", "ftp://host"] {
            let error = endpoint(bad, None).unwrap_err();
            assert!(error.contains("is not an address"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("ca.pem");
        let error = endpoint("https://host", Some(&path)).unwrap_err();
        assert!(error.starts_with(&format!("--ca {}: ", path.display())), "{error}");
        std::fs::write(&path, "not PEM").unwrap();
        let error = endpoint("https://host", Some(&path)).unwrap_err();
        assert!(error.contains("no certificate in it"), "{error}");
        assert!(endpoint("http://host", Some(&path)).is_ok(), "plain text needs none");
    }
}
