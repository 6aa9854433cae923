//! The server's own HTTP requests to others: which certificates are trusted, and how much of an
//! answer is read.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::Context as _;
use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use plimsoll_base::log_excerpt::LogExcerpt;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};

use crate::runtime::tls::certificates;

/// Most bytes read of an answer, however many of them are kept. GitLab's own limit for a log is 100
/// MB; the end of a log above this limit, where the failure usually is, is not read.
const READ_BYTES: usize = 64 * 1024 * 1024;

/// An HTTP client for requests with bodies of the type `B`; by default they have no body. It does not
/// follow redirections.
pub(crate) type HttpClient<B = Empty<Bytes>> = Client<HttpsConnector<HttpConnector>, B>;

/// A client that trusts the system's CAs and the CA in this PEM file.
/// Errors: the file cannot be read, or does not contain the certificate of a CA.
pub(crate) fn http_client<B>(ca_file: Option<&Path>) -> anyhow::Result<HttpClient<B>>
where
    B: Body + Send,
    B::Data: Send,
{
    let Some(file) = ca_file else { return http_client_trusting(Vec::new()) };
    http_client_trusting(certificates(file)?)
        .with_context(|| format!("{} holds no CA's certificate", file.display()))
}

/// A client that trusts the system's CAs and these.
/// Errors: one of them is not the certificate of a CA.
pub(crate) fn http_client_trusting<B>(cas: Vec<CertificateDer<'static>>) -> anyhow::Result<HttpClient<B>>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in cas {
        roots.add(certificate)?;
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// The wait that an answer asks for with `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap, now_unix_ms: u64) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(Duration::from_millis(now_unix_ms)))
}

/// Which part of an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptPart {
    /// The whole answer, if it has at most this many bytes.
    All(usize),
    /// An excerpt of a log of at most this many bytes: its errors and its end.
    Excerpt(usize),
}

/// Why the body of an answer was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFailure {
    /// The connection broke off.
    Cut,
    /// The body is larger than what may be kept or read.
    TooLarge,
}

/// Ends a command that an answer was too large for. The text says whose answer it was, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OversizedAnswer(pub(crate) String);

/// Reads the body of an answer.
/// Errors: the connection breaks off, or the body is too large.
pub(crate) async fn read(mut body: Incoming, keep: KeptPart) -> Result<Vec<u8>, BodyFailure> {
    let mut kept = match keep {
        KeptPart::All(_) => BufferedBody::All(Vec::new()),
        KeptPart::Excerpt(most) => BufferedBody::Excerpt(LogExcerpt::new(most, 0)),
    };
    let mut read = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_broken| BodyFailure::Cut)?.into_data() else { continue };
        read = read.saturating_add(data.len());
        match &mut kept {
            BufferedBody::All(bytes) => bytes.extend_from_slice(&data),
            BufferedBody::Excerpt(excerpt) => excerpt.push(&data),
        }
        if read > READ_BYTES || matches!(keep, KeptPart::All(most) if read > most) {
            return Err(BodyFailure::TooLarge);
        }
    }
    Ok(match kept {
        BufferedBody::All(bytes) => bytes,
        BufferedBody::Excerpt(excerpt) => excerpt.finish(<[u8]>::to_vec),
    })
}

/// What is kept of a body while it is read.
enum BufferedBody {
    All(Vec<u8>),
    Excerpt(LogExcerpt),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        let (_dir, file) = plimsoll_support::temporary::file_name("ca.pem");
        for wrong in ["", "no certificate at all\n"] {
            std::fs::write(&file, wrong).unwrap();
            let error = format!("{:#}", http_client::<Empty<Bytes>>(Some(&file)).unwrap_err());
            assert!(error.ends_with("ca.pem holds no certificate"), "{error}");
        }
    }
}
