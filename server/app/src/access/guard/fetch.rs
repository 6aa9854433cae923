//! Sends one bounded request to an issuer for its keys. An invalid answer never removes existing
//! keys.

use std::{path::Path, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header},
};
use http_body_util::Empty;
use plimsoll_core::mask;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    access::identity::{KeySetSource, safe_address},
    runtime::{
        outgoing,
        outgoing::{BodyFailure, HttpClient, KeptPart},
        reload,
    },
};

/// Most bytes of an issuer's description or key set. Those of GitLab and Kubernetes have some KiB.
const ANSWER_BYTES: usize = 256 * 1024;
/// Path of the description (`OpenID` Connect Discovery 1.0, section 4).
const DESCRIPTION_PATH: &str = "/.well-known/openid-configuration";

/// An issuer's key set as it was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeySetAnswer {
    pub(super) text: String,
    /// How long the key set stays valid, according to the answer's headers.
    pub(super) valid_for: Option<Duration>,
}

/// Why no key set was fetched: a label for metrics, and a text for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FetchFailure {
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl FetchFailure {
    pub(super) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// The fields of an issuer's description that are used here.
#[derive(serde::Deserialize)]
struct IssuerDescription {
    issuer: String,
    jwks_uri: String,
}

/// The address of the keys in the description of `issuer`.
/// Errors: the text is not a description, describes another issuer, or the address of the keys is not allowed.
pub(super) fn keys_address(described: &str, issuer: &str) -> Result<String, FetchFailure> {
    let description: IssuerDescription = serde_json::from_str(described)
        .map_err(|error| FetchFailure::new("malformed", format!("its description: {error}")))?;
    if description.issuer != issuer {
        let text = format!("the description is of {:?}", description.issuer);
        return Err(FetchFailure::new("malformed", text));
    }
    let url = description.jwks_uri;
    safe_address(&url).map_err(|why| FetchFailure::new("malformed", format!("jwks_uri: {why}")))?;
    Ok(url)
}

/// Fetches the keys of an issuer. If their address is not configured, fetches the issuer's
/// description first.
/// Errors: the issuer does not answer `within` this time, or its answer is not a key set.
pub(super) async fn fetch_key_set(
    origin: &KeySetSource,
    within: Duration,
) -> Result<KeySetAnswer, FetchFailure> {
    // the time limit covers reading the files too, because they may be on a network file system
    // that hangs
    let asking = async { IssuerClient::new(origin).await?.fetch_keys(origin).await };
    match timeout(within, asking).await {
        Ok(answer) => answer,
        Err(_slow) => Err(FetchFailure::new("slow", format!("no answer within {within:?}"))),
    }
}

/// An HTTP client for one request.
struct IssuerClient {
    http_client: HttpClient,
    bearer_header: Option<HeaderValue>,
}

impl IssuerClient {
    /// Reads the files again for each request: the CA may be renewed, and a Kubernetes token is
    /// renewed every hour.
    async fn new(origin: &KeySetSource) -> Result<Self, FetchFailure> {
        let (ca, bearer) = (origin.ca_file.clone(), origin.bearer_file.clone());
        let reading = spawn_blocking(move || {
            let http = outgoing::http_client(ca.as_deref()).map_err(|error| format!("ca_file: {error:#}"))?;
            let read =
                |file: &Path| reload::secret(file, "Bearer ", "the token that the issuer wants to see");
            let bearer = bearer.as_deref().map(read).transpose();
            Ok(Self {
                http_client: http,
                bearer_header: bearer.map_err(|error| format!("bearer_file: {error:#}"))?,
            })
        });
        let read = reading.await.unwrap_or_else(|_panic| Err("reading files ended badly".to_owned()));
        // secrets in the text are masked: a token may have been written in place of the file's name
        read.map_err(|text| FetchFailure::new("files", mask::text(&text).into_owned()))
    }

    async fn fetch_keys(&self, origin: &KeySetSource) -> Result<KeySetAnswer, FetchFailure> {
        let KeySetSource { issuer, keys_url, .. } = origin;
        if let Some(url) = keys_url {
            return self.get(url, true).await;
        }
        let described =
            self.get(&format!("{}{DESCRIPTION_PATH}", issuer.trim_end_matches('/')), true).await?;
        let url = keys_address(&described.text, issuer)?;
        // the token is sent only to the issuer that the operator configured
        let is_theirs = authority(&url) == authority(issuer);
        self.get(&url, is_theirs).await
    }

    async fn get(&self, url: &str, with_bearer: bool) -> Result<KeySetAnswer, FetchFailure> {
        let mut request = Request::get(url).header(header::USER_AGENT, "plimsoll-server");
        if let Some(bearer) = self.bearer_header.as_ref().filter(|_bearer| with_bearer) {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| FetchFailure::new("malformed", format!("{url}: {error}")))?;
        let answer = self.http_client.request(request).await;
        let (head, body) = answer
            .map_err(|error| FetchFailure::new("unreachable", format!("{url}: {error:?}")))?
            .into_parts();
        if head.status != StatusCode::OK {
            let hint = if head.status.is_redirection() { ", and redirects are not followed" } else { "" };
            return Err(FetchFailure::new("refused", format!("{url}: answers {}{hint}", head.status)));
        }
        let bytes =
            outgoing::read(body, KeptPart::All(ANSWER_BYTES)).await.map_err(|unread| match unread {
                BodyFailure::Cut => FetchFailure::new("unreachable", format!("{url}: the answer breaks off")),
                BodyFailure::TooLarge => {
                    FetchFailure::new("too_large", format!("{url}: answers more than {ANSWER_BYTES} bytes"))
                }
            })?;
        let text = String::from_utf8(bytes);
        let text =
            text.map_err(|_bytes| FetchFailure::new("malformed", format!("{url}: answers no text")))?;
        Ok(KeySetAnswer { text, valid_for: max_age(&head.headers) })
    }
}

fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(format!("{:?}{}", uri.scheme_str(), uri.authority()?))
}

/// The value of `max-age` (RFC 9111, section 5.2.2): zero if the answer must not be cached, `None`
/// if the headers do not say.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::CACHE_CONTROL)?.to_str().ok()?.to_ascii_lowercase();
    let mut words = value.split(',').map(str::trim);
    if words.clone().any(|word| matches!(word, "no-store" | "no-cache")) {
        return Some(Duration::ZERO);
    }
    let age = words.find_map(|word| word.strip_prefix("max-age="))?;
    age.trim_matches('"').parse().ok().map(Duration::from_secs)
}
