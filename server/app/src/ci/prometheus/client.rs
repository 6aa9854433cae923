//! Sends requests to Prometheus, with bounds for time, bytes of the answer and tries.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use axum::{
    body::Bytes,
    http::{HeaderValue, Request, StatusCode, header},
};
use http_body_util::Empty;
use plimsoll_lab::import::prometheus::{PrometheusAnswer, read_answer};
use plimsoll_proto::job::clean_and_cut;
use tokio::time::{sleep, timeout};

use crate::runtime::{
    outgoing,
    outgoing::{BodyFailure, HttpClient, KeptPart},
    reload,
    settings::by_module::gitlab::BaseUrl,
};

/// Most tries of one request.
const MAX_TRIES: u32 = 3;
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
}

/// A client of Prometheus. The token is never logged.
pub(crate) struct PrometheusClient {
    http: HttpClient,
    url: BaseUrl,
    token: Option<HeaderValue>,
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
    /// The request may succeed if it is repeated.
    Away(String),
    /// The request will fail again until an option is changed.
    Refused(String),
}

impl QueryFailure {
    /// The reason as text for people.
    pub(super) fn why(self) -> String {
        match self {
            Self::TooMuch(why) | Self::Away(why) | Self::Refused(why) => why,
        }
    }
}

impl PrometheusClient {
    /// Reads the files; sends no request.
    /// Errors: A file cannot be read or is invalid.
    pub(crate) fn from_files(access: PrometheusAccess) -> anyhow::Result<Self> {
        let PrometheusAccess { url, token_file, ca_file } = access;
        let token = token_file.map(|file| reload::secret(&file, "Bearer ", "a token that may read"));
        let token = token.transpose().context("--prometheus-token-file")?;
        let http = outgoing::http_client(ca_file.as_deref()).context("--prometheus-ca-file")?;
        Ok(Self {
            http,
            url,
            token,
            backoff: BACKOFF,
            answer_within: ANSWER_TIMEOUT,
            answer_bytes: ANSWER_BYTES,
        })
    }

    /// A client for tests: it does not wait, and accepts only small answers.
    #[cfg(test)]
    pub(super) fn hasty(url: &str, answer_within: Duration, answer_bytes: usize) -> Self {
        let access = PrometheusAccess { url: BaseUrl::parse(url).unwrap(), token_file: None, ca_file: None };
        Self { backoff: Duration::ZERO, answer_within, answer_bytes, ..Self::from_files(access).unwrap() }
    }

    /// Evaluates an expression at a time, milliseconds since 1970. Repeats the request after errors
    /// that may be temporary.
    pub(super) async fn ask(&self, query: &str, unix_ms: u64) -> Result<PrometheusAnswer, QueryFailure> {
        for tried in 1.. {
            match timeout(self.answer_within, self.ask_once(query, unix_ms)).await {
                Ok(Err(QueryFailure::Away(_))) if tried < MAX_TRIES => sleep(self.backoff * tried).await,
                Ok(answered) => return answered,
                Err(_slow) => {
                    let within = humantime::format_duration(self.answer_within);
                    return Err(QueryFailure::Refused(format!("did not answer within {within}")));
                }
            }
        }
        Err(QueryFailure::Away("was not asked".to_owned()))
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
            QueryFailure::Away(format!("cannot be reached: {}", clean_and_cut(&cause, SHOWN_BYTES)))
        })?;
        let (head, body) = answer.into_parts();
        let body =
            outgoing::read(body, KeptPart::All(self.answer_bytes)).await.map_err(|unread| match unread {
                BodyFailure::Cut => QueryFailure::Away("broke its answer off".to_owned()),
                BodyFailure::TooLarge => {
                    QueryFailure::TooMuch("answers with too much for one question".to_owned())
                }
            })?;
        let read = read_answer(&body);
        if head.status == StatusCode::OK {
            return read.map_err(|why| QueryFailure::Refused(clean_and_cut(&why, SHOWN_BYTES)));
        }
        Err(refused(head.status, read.err().map(|why| clean_and_cut(&why, SHOWN_BYTES)).unwrap_or_default()))
    }
}

/// Whether the TLS library's error means that the server answered in plain text.
fn is_plain_text(cause: &str) -> bool {
    cause.contains("InvalidContentType")
}

/// The error for an unsuccessful status; `message` is from the answer.
fn refused(status: StatusCode, message: String) -> QueryFailure {
    let is_api = !message.contains("not one of Prometheus");
    match status {
        StatusCode::UNPROCESSABLE_ENTITY => QueryFailure::TooMuch(message),
        StatusCode::SERVICE_UNAVAILABLE if is_api => QueryFailure::TooMuch(message),
        StatusCode::BAD_REQUEST if is_api => QueryFailure::Refused(format!(
            "does not understand the question: {message}; look at --prometheus-selector and --prometheus-labels"
        )),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => QueryFailure::Refused(format!(
            "refuses ({status}); name a file that holds a token which may read: --prometheus-token-file"
        )),
        StatusCode::TOO_MANY_REQUESTS => QueryFailure::Away(format!("has no time ({status})")),
        status if status.is_server_error() => QueryFailure::Away(format!("fails ({status})")),
        status if status.is_redirection() => {
            QueryFailure::Refused(format!("redirects ({status}); give the address that it leads to"))
        }
        status => QueryFailure::Refused(format!(
            "has no api/v1/query ({status}); give the address of Prometheus, such as http://prometheus:9090"
        )),
    }
}
