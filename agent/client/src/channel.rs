//! Parses the address of a server, and prepares the connection to it; `servers` connects.
//!
//! `http://` is plain text, `https://` is TLS. A TLS server must present a certificate that the system trusts. If the user names a file
//! with CA certificates, only those are trusted.

use std::{io, net::IpAddr, path::Path, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

use crate::{
    files::{read_regular, run_with_timeout},
    reasons::innermost,
    trust::Trust,
};

/// Time limit for the TCP connection, and for the TLS handshake.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// After this long without data the agent pings the server; the connection is closed if the ping is not answered within the same time.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Bytes that the server may send before the agent reads them. Acknowledgements are small; answers are larger, but their speed does not
/// matter.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Most requests that wait for the connection; an agent makes one or two at a time.
const WAITING_REQUESTS: usize = 4;
/// Most bytes of a file with certificates or a key: the bundles of whole systems have a quarter of a MiB.
const PEM_BYTES: u64 = 4 << 20;
/// First line of a certificate in a PEM file.
const CERTIFICATE_MARKER: &str = "-----BEGIN CERTIFICATE-----";
/// End of the first line of a private key in a PEM file; its beginning names the kind of key.
const PRIVATE_KEY_MARKER: &str = "PRIVATE KEY-----";

/// The address of an endpoint, for messages to people.
pub(crate) fn name(endpoint: &Endpoint) -> String {
    endpoint.uri().to_string().trim_end_matches('/').to_owned()
}

/// Whether the connection uses TLS.
pub(crate) fn is_tls(endpoint: &Endpoint) -> bool {
    endpoint.uri().scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// The host without brackets, and the port, by default that of the scheme.
pub(crate) fn host_and_port(endpoint: &Endpoint) -> (String, u16) {
    let (uri, by_scheme) = (endpoint.uri(), if is_tls(endpoint) { 443 } else { 80 });
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    (host, uri.port_u16().unwrap_or(by_scheme))
}

/// The addresses in the value of `--server`.
pub(crate) fn addresses_in(servers: &str) -> impl Iterator<Item = &str> {
    servers.split(',').map(str::trim)
}

/// Whether other machines can read the traffic: it is plain text, and a server is not on this machine.
pub fn is_read_by_others(servers: &str) -> bool {
    addresses_in(servers).any(is_address_read_by_others)
}

fn is_address_read_by_others(server: &str) -> bool {
    let (scheme, place) = server.split_once("://").unwrap_or(("http", server));
    let Ok(uri) = format!("http://{place}").parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let here =
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    scheme.eq_ignore_ascii_case("http") && !here
}

/// Parses an address, and prepares the connection.
/// Errors: the address is invalid, or the certificates or the key cannot be read in time. The text names the option.
pub(crate) async fn endpoint(server: &str, trust: &Trust) -> Result<Endpoint, String> {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let wrong = |why: &str| format!("--server: {server:?} is not an address: {why}");
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let endpoint = Endpoint::from_shared(url).map_err(|error| wrong(&error.to_string()))?;
    let endpoint = match scheme.as_deref() {
        Some("http") => endpoint,
        Some("https") => {
            let trust = trust.clone();
            // this runs in a thread of its own, because TLS reads the system's certificates from files
            run_with_timeout(move || with_tls(endpoint, &trust))
                .await
                .map_err(|error| tls_error(&error.to_string()))??
        }
        _ => return Err(wrong("expected http://HOST:PORT or https://HOST:PORT")),
    };
    Ok(endpoint
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .buffer_size(WAITING_REQUESTS)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true))
}

fn with_tls(endpoint: Endpoint, trust: &Trust) -> Result<Endpoint, String> {
    let tls = tls_config(trust)?.timeout(CONNECT_PATIENCE);
    endpoint.tls_config(tls).map_err(|error| tls_error(&innermost(&error)))
}

fn tls_config(trust: &Trust) -> Result<ClientTlsConfig, String> {
    let tls = match &trust.ca {
        Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read_pem(
            "--ca",
            path,
            CERTIFICATE_MARKER,
        )?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match (&trust.certificate, &trust.key) {
        (Some(certificate), Some(key)) => {
            let certificate = read_pem("--client-cert", certificate, CERTIFICATE_MARKER)?;
            Ok(tls.identity(Identity::from_pem(
                certificate,
                read_pem("--client-key", key, PRIVATE_KEY_MARKER)?,
            )))
        }
        (None, None) => Ok(tls),
        _one => Err("--client-cert and --client-key (PLIMSOLL_CLIENT_CERT, PLIMSOLL_CLIENT_KEY): \
                     one is of no use without the other"
            .to_owned()),
    }
}

/// Reads the PEM file that a command-line option names; an error if it does not contain the text `holds`.
fn read_pem(option: &str, path: &Path, holds: &str) -> Result<Vec<u8>, String> {
    let wrong = |error: io::Error| format!("{option} {}: {error}", path.display());
    let pem = read_regular(path, PEM_BYTES).map_err(wrong)?;
    if pem.windows(holds.len()).any(|window| window == holds.as_bytes()) {
        return Ok(pem);
    }
    let what = if holds == CERTIFICATE_MARKER { "certificate" } else { "private key" };
    let begin = what.to_ascii_uppercase();
    let missing = format!("no {what} in it; expected PEM, that is, -----BEGIN {begin}-----");
    Err(wrong(io::Error::other(missing)))
}

fn tls_error(why: &str) -> String {
    format!("no TLS: {why}; name the certificates to trust with --ca FILE or PLIMSOLL_CA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_two_schemes_are_addresses() {
        for good in ["127.0.0.1:1", "http://host:1", "host", "http://[::1]:1"] {
            assert!(endpoint(good, &Trust::default()).await.is_ok(), "{good}");
        }
        for bad in ["grpc://host:1", "http://no spaces", "", "http://", "unix:///run/x", "ftp://host"] {
            let error = endpoint(bad, &Trust::default()).await.unwrap_err();
            assert!(error.contains("is not an address"), "{bad}: {error}");
        }
    }

    #[tokio::test]
    async fn a_file_without_certificates_is_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("ca.pem");
        let trust = Trust { ca: Some(path.clone()), ..Trust::default() };
        let error = endpoint("https://host", &trust).await.unwrap_err();
        assert!(error.starts_with(&format!("--ca {}: ", path.display())), "{error}");
        std::fs::write(&path, "not PEM").unwrap();
        let error = endpoint("https://host", &trust).await.unwrap_err();
        assert!(error.contains("no certificate in it"), "{error}");
        assert!(endpoint("http://host", &trust).await.is_ok(), "plain text needs none");
    }

    #[tokio::test]
    async fn a_certificate_and_its_key_are_named_together() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("client.pem");
        std::fs::write(&path, CERTIFICATE_MARKER).unwrap();
        let alone = Trust { certificate: Some(path.clone()), ..Trust::default() };
        assert!(endpoint("https://host", &alone).await.unwrap_err().contains("without the other"));
        let swapped = Trust { key: Some(path), ..alone };
        let error = endpoint("https://host", &swapped).await.unwrap_err();
        assert!(error.starts_with("--client-key ") && error.contains("no private key in it"), "{error}");
    }

    #[tokio::test]
    async fn an_unwritten_ca_pipe_does_not_block() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let trust = Trust { ca: Some(path), ..Trust::default() };
        let problem = endpoint("https://host", &trust).await.unwrap_err();
        assert!(problem.ends_with("pipe: it is no regular file"), "{problem}");
    }

    #[test]
    fn plain_text_to_remote_hosts_is_insecure() {
        for safe in
            ["http://localhost:1", "127.0.0.1:1", "http://[::1]:1", "https://host", "HTTP://127.9.9.9"]
        {
            assert!(!is_read_by_others(safe), "{safe}");
        }
        for open in
            ["http://host:1", "HTTP://10.0.0.1", "host:1", "http://localhost.example", "127.0.0.1:1,host:1"]
        {
            assert!(is_read_by_others(open), "{open}");
        }
    }
}
