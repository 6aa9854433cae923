//! Sends requests to GitLab, with bounds for the time, the bytes of the answer and the rate.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, anyhow};
use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Request, StatusCode, header},
};
use http_body_util::Empty;
use tokio::time::{sleep, timeout};

use super::{
    BaseUrl, Settings,
    request_rate::{Pace, PaceTerms, requested_wait},
};
use crate::runtime::{
    clock::Clock,
    metrics::{KindLabel, Metrics},
    outgoing,
    outgoing::{BodyFailure, HttpClient, KeptPart},
    reload,
};

/// Most tries of one request.
const MAX_TRIES: u32 = 4;

/// An answer of GitLab.
#[derive(Debug)]
pub(super) struct GitlabAnswer {
    pub(super) body: Vec<u8>,
    /// Whether there are more pages.
    pub(super) has_more: bool,
    /// Query of the next page, if there is one.
    pub(super) next_query: Option<String>,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// The resource does not exist, or no longer exists.
    Gone,
    /// GitLab refuses access.
    Refused,
    /// GitLab is overloaded or does not answer.
    Away,
    /// The answer is not as expected.
    Malformed,
    /// The answer is larger than what is read of it.
    TooLarge,
}

/// A client of GitLab's API. The token is never logged.
pub(crate) struct GitlabClient {
    http: HttpClient,
    base_url: BaseUrl,
    token_file: PathBuf,
    token: Mutex<HeaderValue>,
    pace: Pace,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for GitlabClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("place", &self.base_url).finish_non_exhaustive()
    }
}

impl GitlabClient {
    /// Creates the client from the settings; `None` if GitLab is not configured.
    /// Errors: A file cannot be read or is invalid.
    pub(crate) fn open(
        settings: &Settings,
        terms: PaceTerms,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Option<Self>> {
        let (Some(place), Some(file)) = (settings.url.clone(), settings.token_file.clone()) else {
            return Ok(None);
        };
        let token = Mutex::new(token(&file).context("gitlab_token_file")?);
        let http = outgoing::http_client(settings.ca_file.as_deref()).context("gitlab_ca_file")?;
        Ok(Some(Self { http, base_url: place, token_file: file, token, pace: Pace::new(terms), metrics }))
    }

    /// The host of GitLab. The ids of attempts of its jobs start with it.
    pub(super) fn host(&self) -> &str {
        self.base_url.host()
    }

    /// Sends a request. Repeats it after errors that may be temporary.
    pub(super) async fn get(&self, path: &str, keep: KeptPart) -> Result<GitlabAnswer, RequestFailure> {
        let (mut read_again, mut tries) = (false, 0);
        loop {
            if !self.pace.wait_for_turn().await {
                self.count_request("no_turn");
                return Err(RequestFailure::Away);
            }
            let (kind, result) = self.send_once(path, keep).await;
            self.count_request(kind);
            let trouble = match result {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            // an operator renews the token by writing a new one into the file, so the file is read
            // again once
            if kind == "unauthorized" && !read_again && self.read_token().await {
                read_again = true;
                continue;
            }
            if trouble != RequestFailure::Away {
                tracing::info!(path, kind, ?trouble, "GitLab does not say what it was asked");
                return Err(trouble);
            }
            tries += 1;
            if tries >= MAX_TRIES {
                tracing::warn!(
                    path,
                    kind,
                    "GitLab does not answer; job hooks are used without its logs for a while"
                );
                self.pace.pause();
                return Err(trouble);
            }
            sleep(self.pace.backoff(tries - 1, path)).await;
        }
    }

    /// Sends one request. Returns its result as a metric label, and the answer.
    async fn send_once(
        &self,
        path: &str,
        keep: KeptPart,
    ) -> (&'static str, Result<GitlabAnswer, RequestFailure>) {
        let Some(request) = self.build_request(path) else {
            return ("malformed", Err(RequestFailure::Malformed));
        };
        let asking = async {
            let answer = match self.http.request(request).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(path, ?error, "cannot ask GitLab");
                    return ("unreachable", Err(RequestFailure::Away));
                }
            };
            let (head, body) = answer.into_parts();
            let wait = requested_wait(&head.headers, Clock.now_unix_ms());
            if let Some(time) = wait {
                self.pace.delay_all(time);
            }
            if let Some(refused) = refused(head.status) {
                return (refused.0, Err(refused.1));
            }
            let has_more = head.headers.get("x-next-page").is_some_and(|page| !page.is_empty());
            let next_query = next_query(&head.headers);
            match outgoing::read(body, keep).await {
                Ok(body) => ("ok", Ok(GitlabAnswer { body, has_more, next_query })),
                Err(BodyFailure::Cut) => ("cut", Err(RequestFailure::Away)),
                Err(BodyFailure::TooLarge) => ("too_large", Err(RequestFailure::TooLarge)),
            }
        };
        let answered = timeout(self.pace.terms().answer_within, asking).await;
        answered.unwrap_or(("slow", Err(RequestFailure::Away)))
    }

    fn build_request(&self, path: &str) -> Option<Request<Empty<Bytes>>> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let request = Request::get(self.base_url.api(path))
            .header("PRIVATE-TOKEN", token)
            .header(header::USER_AGENT, "plimsoll-server");
        request.body(Empty::new()).ok()
    }

    /// Reads the token file again; returns whether the token changed.
    async fn read_token(&self) -> bool {
        let file = self.token_file.clone();
        // a read that hangs, as on a network file system, must not block other work
        let reading = tokio::task::spawn_blocking(move || token(&file));
        let read = match timeout(self.pace.terms().answer_within, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(anyhow!("reading gitlab_token_file ended badly: {error}")),
            Err(_slow) => Err(anyhow!("reading gitlab_token_file took too long")),
        };
        let read = read.inspect_err(|error| {
            tracing::error!(error = format!("{error:#}"), "GitLab refuses the token, and there is no other");
        });
        let Ok(read) = read else { return false };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *token != read;
        if !is_new {
            tracing::error!("GitLab refuses the token in gitlab_token_file; write a valid one into it");
        }
        *token = read;
        is_new
    }

    fn count_request(&self, kind: &'static str) {
        self.metrics.gitlab_requests.get_or_create(&KindLabel::of(kind)).inc();
    }
}

/// Query of the next page (RFC 8288). Only the query of the link is used, because the token is sent
/// only to the configured address.
fn next_query(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let address = next.split_once('<')?.1.split_once('>')?.0;
    Some(address.split_once('?')?.1.to_owned())
}

/// The metric label and the error for a status; `None` for success.
fn refused(status: StatusCode) -> Option<(&'static str, RequestFailure)> {
    Some(match status {
        StatusCode::OK => return None,
        StatusCode::TOO_MANY_REQUESTS => ("limited", RequestFailure::Away),
        StatusCode::NOT_FOUND | StatusCode::GONE => ("gone", RequestFailure::Gone),
        StatusCode::UNAUTHORIZED => ("unauthorized", RequestFailure::Refused),
        status if status.is_server_error() => ("failed", RequestFailure::Away),
        // redirections are refused too: the token is sent only to the configured address
        _ => ("refused", RequestFailure::Refused),
    })
}

/// Reads the token from its file.
fn token(file: &Path) -> anyhow::Result<HeaderValue> {
    reload::secret(file, "", "a token with the scope read_api")
}
