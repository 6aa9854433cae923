//! ID tokens of GitHub Actions and Forgejo Actions. A job with the right `id-token: write` gets an address and a token in its environment, and
//! asks there for a signed token that names its repository and run
//! (<https://docs.github.com/en/actions/reference/security/oidc>).
//!
//! Such a token is valid for some minutes, and a job may take hours: the agent asks again for each connection, at most once in
//! [`KEPT_FOR`]. A job that never got one goes on without: the server may take what is not proven.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::time::{Instant, timeout};
use tokio_util::bytes::Bytes;

use crate::files::run_with_timeout;

/// How long a token is used. The shortest that is known is valid for five minutes.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// Longest wait for a token.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer. A token has about 2 KiB.
const ANSWER_BYTES: usize = 64 * 1024;

/// When the CI system was asked for a token the last time, and the token; `None` if there was none.
type LastAnswer = (Instant, Option<String>);

/// Where a job gets its ID tokens.
#[derive(Clone)]
pub struct IdTokenSource {
    url: String,
    bearer: String,
    kept: Arc<Mutex<Option<LastAnswer>>>,
}

impl fmt::Debug for IdTokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdTokenSource {}", self.url)
    }
}

impl Eq for IdTokenSource {}

impl PartialEq for IdTokenSource {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.bearer) == (&other.url, &other.bearer)
    }
}

impl IdTokenSource {
    /// The source with the address in `ACTIONS_ID_TOKEN_REQUEST_URL` and the token in `ACTIONS_ID_TOKEN_REQUEST_TOKEN`, for tokens with
    /// this audience.
    pub fn new(url: &str, bearer: &str, audience: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let escaped = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        let audience: String = audience.bytes().map(escaped).collect();
        let mark = if url.contains('?') { '&' } else { '?' };
        Self {
            url: format!("{url}{mark}audience={audience}"),
            bearer: bearer.to_owned(),
            kept: Arc::default(),
        }
    }

    /// The address, which is another one for each job.
    pub(crate) fn address(&self) -> &str {
        &self.url
    }

    /// A token that is at most [`KEPT_FOR`] old; `None` if the job never got one.
    /// Errors: the job had one before, and gets none now, as a text without secrets.
    pub(crate) async fn token(&self) -> Result<Option<String>, String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let had_one = matches!(kept, Some((_, Some(_))));
        if let Some((_, token)) = kept.filter(|(since, _)| since.elapsed() < KEPT_FOR) {
            return Ok(token);
        }
        let late = |_late| Err(format!("no answer within {PATIENCE:?}"));
        let token = match timeout(PATIENCE, self.fetch()).await.unwrap_or_else(late) {
            Ok(token) => Some(token),
            Err(why) if had_one => return Err(why),
            Err(why) => {
                tracing::warn!("the CI system gives no ID token, so nothing is proven: {why}");
                None
            }
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), token.clone()));
        Ok(token)
    }

    async fn fetch(&self) -> Result<String, String> {
        let uri: Uri = self.url.parse().map_err(|error| format!("ACTIONS_ID_TOKEN_REQUEST_URL: {error}"))?;
        let request = Request::get(uri)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.bearer))
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "plimsoll")
            .body(Empty::<Bytes>::new())
            .map_err(|_shape| {
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN holds characters that no token has".to_owned()
            })?;
        let tls = run_with_timeout(tls_config).await.map_err(|error| error.to_string())??;
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let answer = client.request(request).await.map_err(|error| format!("no connection: {error:?}"))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the answer is {status}"));
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| format!("the answer breaks off: {error}"))?.to_bytes();
        let answer: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let value =
            answer.as_ref().and_then(|answer| answer.get("value")).and_then(serde_json::Value::as_str);
        value.map(str::to_owned).ok_or_else(|| "the answer has no text named value".to_owned())
    }
}

/// Trusts what the system trusts, as the runner does. Reads files.
fn tls_config() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread::{JoinHandle, spawn},
    };

    use super::*;

    impl IdTokenSource {
        /// Lets what is kept be too old.
        fn forget(&self) {
            self.kept.lock().unwrap().as_mut().unwrap().0 = Instant::now().checked_sub(KEPT_FOR).unwrap();
        }
    }

    /// A source whose server gives these answers, one after another, and what it was asked.
    fn source(answers: &'static [(u16, &'static str)]) -> (IdTokenSource, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/token?version=2", listener.local_addr().unwrap());
        let serve = move || {
            let answer = |(status, body): &(u16, &str)| {
                let (mut stream, mut asked) = (listener.accept().unwrap().0, [0; 4096]);
                let length = stream.read(&mut asked).unwrap();
                let head =
                    format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
                String::from_utf8_lossy(&asked[..length]).into_owned()
            };
            answers.iter().map(answer).collect()
        };
        (IdTokenSource::new(&url, "s3cret", "my plimsoll"), spawn(serve))
    }

    #[tokio::test]
    async fn an_id_token_is_asked_for_once_a_minute() {
        let (source, serving) =
            source(&[(200, r#"{"count": 9, "value": "one"}"#), (200, r#"{"value": "two"}"#)]);
        let token = async || source.token().await.unwrap().unwrap();
        assert_eq!((token().await.as_str(), token().await.as_str()), ("one", "one"));
        source.forget();
        assert_eq!(token().await, "two");
        source.forget();
        let error = source.token().await.unwrap_err();
        assert!(error.contains("no connection"), "what was proven stays so: {error}");
        let asked = serving.join().unwrap().remove(0);
        assert!(asked.starts_with("GET /token?version=2&audience=my%20plimsoll HTTP/1.1"), "{asked}");
        assert!(asked.to_lowercase().contains("authorization: bearer s3cret"), "{asked}");
        assert!(!format!("{source:?}").contains("s3cret"));
    }

    #[tokio::test]
    async fn a_job_without_id_token_goes_on() {
        let (source, _serving) = source(&[(403, "no"), (200, "no"), (200, r#"{"value": 1}"#)]);
        for expected in ["the answer is 403", "no text named value", "no text named value", "no connection"] {
            let error = source.fetch().await.unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
        let strange = IdTokenSource::new("not an address", "x", "y");
        let error = strange.fetch().await.unwrap_err();
        assert!(error.starts_with("ACTIONS_ID_TOKEN_REQUEST_URL: "), "{error}");
        assert_eq!(strange.token().await, Ok(None));
        assert!(strange.kept.lock().unwrap().is_some(), "it is asked once a minute");
    }
}
