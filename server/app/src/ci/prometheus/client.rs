//! Sends requests to Prometheus, with bounds for time, bytes of the answer and tries.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, Request, StatusCode, header},
};
use http_body_util::Empty;
use plimsoll_lab::import::prometheus::{PrometheusAnswer, read_answer};
use plimsoll_proto::job::clean_and_cut;
use tokio::time::{sleep, timeout};

use crate::runtime::{
    clock::Clock,
    outgoing,
    outgoing::{BodyFailure, HttpClient, KeptPart, OversizedAnswer},
    reload,
    settings::by_module::gitlab::BaseUrl,
};

/// Most tries of one request.
const MAX_TRIES: u32 = 3;
/// Most tries of one request if each answer says when to ask again.
const MAX_TRIES_AS_ASKED: u32 = 30;
/// Longest wait for one request that answers may ask for, all in all.
const MAX_WAIT: Duration = Duration::from_mins(5);
/// Delay before a request is repeated, multiplied by the number of the repetition.
const BACKOFF: Duration = Duration::from_secs(1);
/// Time limit of a request: Prometheus itself gives up after two minutes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// Largest answer, bytes. For a larger one the time window is split. An answer is in memory twice
/// while it is parsed.
const ANSWER_BYTES: usize = 8 << 20;
/// Most bytes shown of Prometheus' error message.
const SHOWN_BYTES: usize = 300;

/// Address and credentials of Prometheus.
#[derive(Debug, Clone)]
pub(crate) struct PrometheusAccess {
    /// Address of Prometheus.
    pub(crate) url: BaseUrl,
    pub(crate) token_file: Option<PathBuf>,
    /// PEM file of the CA that signed the certificate of Prometheus, in addition to the system's
    /// CAs.
    pub(crate) ca_file: Option<PathBuf>,
    /// Headers of every request, such as the tenant.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// A client of Prometheus. The token is never logged.
pub(crate) struct PrometheusClient {
    http: HttpClient,
    url: BaseUrl,
    token: Option<HeaderValue>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Wait before a request is repeated: normally [`BACKOFF`], shorter in tests.
    backoff: Duration,
    /// Normally [`ANSWER_TIMEOUT`]; shorter in tests.
    answer_within: Duration,
    /// Normally [`ANSWER_BYTES`]; fewer in tests.
    answer_bytes: usize,
}

/// Why a request failed, with a text for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueryFailure {
    /// The answer is too large: a shorter time window may work.
    TooMuch(String),
    /// The request may succeed if it is repeated, after the time that the answer asks for.
    Away(String, Option<Duration>),
    /// A proxy got no answer: a shorter time window may work, or the same request later.
    Gateway(String),
    /// The request will fail again until an option is changed.
    Refused(String),
}

impl QueryFailure {
    /// The reason, for people.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self {
            Self::TooMuch(why) => OversizedAnswer(why).into(),
            Self::Away(why, _) | Self::Gateway(why) | Self::Refused(why) => anyhow::Error::msg(why),
        }
    }
}

impl PrometheusClient {
    /// Reads the files; sends no request.
    /// Errors: A file cannot be read or is invalid.
    pub(crate) fn from_files(access: PrometheusAccess) -> anyhow::Result<Self> {
        let PrometheusAccess { url, token_file, ca_file, headers } = access;
        let token = token_file.map(|file| reload::secret(&file, "Bearer ", "a token that may read"));
        let token = token.transpose().context("--prometheus-token-file")?;
        let http = outgoing::http_client(ca_file.as_deref()).context("--prometheus-ca-file")?;
        Ok(Self {
            http,
            url,
            token,
            headers,
            backoff: BACKOFF,
            answer_within: ANSWER_TIMEOUT,
            answer_bytes: ANSWER_BYTES,
        })
    }

    /// A client for tests: it does not wait, and accepts only small answers.
    #[cfg(test)]
    pub(super) fn hasty(url: &str, answer_within: Duration, answer_bytes: usize) -> Self {
        let url = BaseUrl::parse(url).unwrap();
        let access = PrometheusAccess { url, token_file: None, ca_file: None, headers: Vec::new() };
        Self { backoff: Duration::ZERO, answer_within, answer_bytes, ..Self::from_files(access).unwrap() }
    }

    /// Evaluates an expression at a time, milliseconds since 1970. Repeats the request after errors
    /// that may be temporary. If the caller can ask about a shorter time (`can_split`), a proxy
    /// that got no answer is no reason to repeat it.
    pub(super) async fn ask(
        &self,
        query: &str,
        unix_ms: u64,
        can_split: bool,
    ) -> Result<PrometheusAnswer, QueryFailure> {
        let (mut tried, mut waited) = (1, Duration::ZERO);
        loop {
            let Ok(answered) = timeout(self.answer_within, self.ask_once(query, unix_ms)).await else {
                let within = humantime::format_duration(self.answer_within);
                return Err(QueryFailure::Refused(format!("did not answer within {within}")));
            };
            let wait = match &answered {
                Err(QueryFailure::Gateway(why)) if can_split => {
                    return Err(QueryFailure::TooMuch(why.clone()));
                }
                Err(QueryFailure::Away(_, Some(wait))) if tried < MAX_TRIES_AS_ASKED => {
                    (*wait).max(self.backoff)
                }
                Err(QueryFailure::Away(_, None) | QueryFailure::Gateway(_)) if tried < MAX_TRIES => {
                    self.backoff * tried
                }
                _ => return answered,
            };
            waited += wait;
            if waited > MAX_WAIT {
                return answered.map_err(|failed| too_long(failed, wait));
            }
            sleep(wait).await;
            tried += 1;
        }
    }

    async fn ask_once(&self, query: &str, unix_ms: u64) -> Result<PrometheusAnswer, QueryFailure> {
        let time = format!("{}.{:03}", unix_ms / 1000, unix_ms % 1000);
        let asked = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .append_pair("time", &time)
            .finish();
        let mut request = Request::get(self.url.at(&format!("api/v1/query?{asked}")))
            .header(header::USER_AGENT, "plimsoll-server");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        request = self.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| QueryFailure::Refused(error.to_string()))?;
        let answer = self.http.request(request).await.map_err(|error| {
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            if is_plain_text(&cause) {
                return QueryFailure::Refused(
                    "speaks no TLS there: give the address with http://".to_owned(),
                );
            }
            QueryFailure::Away(format!("cannot be reached: {}", clean_and_cut(&cause, SHOWN_BYTES)), None)
        })?;
        let (head, body) = answer.into_parts();
        let body =
            outgoing::read(body, KeptPart::All(self.answer_bytes)).await.map_err(|unread| match unread {
                BodyFailure::Cut => QueryFailure::Away("broke its answer off".to_owned(), None),
                BodyFailure::TooLarge => {
                    QueryFailure::TooMuch("answers with too much for one question".to_owned())
                }
            })?;
        let read = read_answer(&body);
        if head.status == StatusCode::OK {
            return read.map_err(|why| QueryFailure::Refused(clean_and_cut(&why, SHOWN_BYTES)));
        }
        let wait = outgoing::retry_after(&head.headers, Clock.now_unix_ms());
        Err(refused(head.status, wait, &body, &read.err().unwrap_or_default()))
    }
}

fn too_long(failed: QueryFailure, wait: Duration) -> QueryFailure {
    let wait = humantime::format_duration(wait);
    QueryFailure::Refused(format!("{}; it asks to wait {wait}: import again then", failed.into_error()))
}

/// Whether the TLS library's error means that the server answered in plain text.
fn is_plain_text(cause: &str) -> bool {
    cause.contains("InvalidContentType")
}

/// The error for an unsuccessful status. `wait` is the time that the answer asks for, `why` the
/// reason why its body is not an answer of the API.
fn refused(status: StatusCode, wait: Option<Duration>, body: &[u8], why: &str) -> QueryFailure {
    let is_api = !why.contains("not one of Prometheus");
    let text = String::from_utf8_lossy(body);
    // a page of a proxy says less than its status
    let said = if is_api {
        why
    } else {
        text.lines().next().filter(|line| !line.starts_with('<')).unwrap_or_default()
    };
    let message = clean_and_cut(said, SHOWN_BYTES);
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    match status {
        StatusCode::TOO_MANY_REQUESTS => QueryFailure::Away(format!("has no time ({status}){said}"), wait),
        StatusCode::SERVICE_UNAVAILABLE if wait.is_some() => {
            QueryFailure::Away(format!("has no time ({status}){said}"), wait)
        }
        StatusCode::UNPROCESSABLE_ENTITY => QueryFailure::TooMuch(message),
        StatusCode::SERVICE_UNAVAILABLE if is_api => QueryFailure::TooMuch(message),
        StatusCode::BAD_REQUEST if is_api => QueryFailure::Refused(format!(
            "does not understand the question: {message}; look at --prometheus-selector and --prometheus-labels"
        )),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => QueryFailure::Refused(format!(
            "refuses ({status}){said}; name a file that holds a token which may read with --prometheus-token-file, or the tenant with \
             --prometheus-header 'X-Scope-OrgID: NAME'"
        )),
        StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            QueryFailure::Gateway(format!("fails ({status}){said}"))
        }
        status if status.is_server_error() => QueryFailure::Away(format!("fails ({status}){said}"), None),
        status if status.is_redirection() => {
            QueryFailure::Refused(format!("redirects ({status}); give the address that it leads to"))
        }
        status => QueryFailure::Refused(format!(
            "has no api/v1/query ({status}){said}; give the address of Prometheus, such as http://prometheus:9090"
        )),
    }
}
