//! Questions to the server, and their answers for people, programs and shells.
//!
//! `client` asks, `text`, `json` and `shell` render, and the functions here put both together: one for each command. They
//! return what the command prints; only `main` prints.

mod asked;
mod client;
pub mod digest;
pub(crate) mod json;
mod look;
mod numbers;
pub(crate) mod outlook;
mod shell;
mod text;
pub mod watch;
pub(crate) mod words;

pub use client::{Client, Failure};
pub use look::Look;
use plimsoll_proto::{
    limits,
    v1::{
        GetAttemptRequest, GetStatsRequest, Key, ListAttemptsRequest, ListAttemptsResponse, PredictRequest,
        ShouldRetryRequest,
    },
};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: stable names with their unit, the same as on the wire.
    Json,
}

/// How a prediction is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PredictFormat {
    /// For people.
    Text,
    /// For programs: stable names with their unit, the same as on the wire.
    Json,
    /// For shells and GitLab's dotenv: one `NAME=value` on each line.
    Env,
}

/// An answer, ready to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// For standard output, with a line feed at the end.
    pub output: String,
    /// Exit status of the command.
    pub status: u8,
}

/// Exit status of `should-retry` if another attempt is not worth it.
pub const DO_NOT_RETRY: u8 = 10;

/// What the next attempt of a key should request.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn predict(client: &Client, key: Key, format: PredictFormat) -> Result<Answer, Failure> {
    let prediction = client.predict(PredictRequest { key: Some(key), ..Default::default() }).await?;
    Ok(answer(match format {
        PredictFormat::Text => text::render_prediction(&prediction),
        PredictFormat::Json => json::render_prediction(&prediction),
        PredictFormat::Env => shell::render_prediction(&prediction),
    }))
}

/// A key, and the bytes of memory that the build may have at most.
pub type Limited = (Key, Option<u64>);

/// What a prediction learnt from, and what other numbers of build jobs need.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn explain(client: &Client, limited: Limited, format: Format) -> Result<Answer, Failure> {
    let explained = client.explain(question(limited)).await?;
    Ok(answer(match format {
        Format::Text => text::render_explanation(&explained),
        Format::Json => json::render_explanation(&explained),
    }))
}

/// A prediction, and what other numbers of build jobs need.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn explain_jobs(client: &Client, limited: Limited, format: Format) -> Result<Answer, Failure> {
    let explained = client.explain(question(limited)).await?;
    Ok(answer(match format {
        Format::Text => text::render_jobs(&explained),
        Format::Json => json::render_jobs(&explained),
    }))
}

fn question((key, memory_limit_bytes): Limited) -> PredictRequest {
    PredictRequest { key: Some(key), memory_limit_bytes }
}

/// Whether a failed attempt is worth another.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn should_retry(
    client: &Client,
    question: ShouldRetryRequest,
    format: Format,
) -> Result<Answer, Failure> {
    let verdict = client.should_retry(question).await?;
    let output = match format {
        Format::Text => text::render_verdict(&verdict),
        Format::Json => json::render_verdict(&verdict),
    };
    Ok(Answer { output, status: if words::is_retry(verdict.action()) { 0 } else { DO_NOT_RETRY } })
}

/// What the fleet used, asked for and lost.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn stats(
    client: &Client,
    question: GetStatsRequest,
    (format, look): (Format, Look),
) -> Result<Answer, Failure> {
    let stats = client.stats(question.clone()).await?;
    Ok(answer(match format {
        Format::Text => text::render_stats(&question, &stats, look),
        Format::Json => json::render_stats(&stats),
    }))
}

/// Finished attempts in the order that was asked for, at most `limit`.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn attempts(
    client: &Client,
    (question, limit): (ListAttemptsRequest, usize),
    (format, look): (Format, Look),
) -> Result<Answer, Failure> {
    let mut page = ListAttemptsResponse::default();
    let mut asked = question.clone();
    loop {
        let left = u32::try_from(limit - page.attempts.len().min(limit)).unwrap_or(u32::MAX);
        asked.page_size = left.min(limits::PAGE_SIZE);
        let next = client.attempts(asked.clone()).await?;
        page.attempts.extend(next.attempts);
        page.next_page_token.clone_from(&next.next_page_token);
        if page.attempts.len() >= limit || next.next_page_token.is_empty() {
            break;
        }
        asked.page_token = next.next_page_token;
    }
    Ok(answer(match format {
        Format::Text => text::render_attempts(&question, &page, look),
        Format::Json => json::render_attempts(&page),
    }))
}

/// One attempt with its series.
///
/// # Errors
/// The server gave no answer, does not know the attempt, or could not read the question.
pub async fn show(
    client: &Client,
    question: GetAttemptRequest,
    (format, look): (Format, Look),
) -> Result<Answer, Failure> {
    let shown = client.attempt(question).await?;
    Ok(answer(match format {
        Format::Text => text::render_attempt(&shown, look),
        Format::Json => json::render_attempt(&shown),
    }))
}

fn answer(output: String) -> Answer {
    Answer { output, status: 0 }
}
