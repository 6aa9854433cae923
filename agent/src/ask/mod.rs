//! Questions to the server, and their answers for people, programs and shells.
//!
//! `client` asks, `text`, `json` and `shell` render, and the functions here put both together: one for each command. They
//! return what the command prints; only `main` prints.

mod client;
pub(crate) mod json;
mod numbers;
pub(crate) mod outlook;
mod shell;
mod text;
pub(crate) mod words;

use plimsoll_proto::v1::{
    GetAttemptRequest, GetStatsRequest, Key, ListAttemptsRequest, PredictRequest, ShouldRetryRequest,
};

pub use client::{Client, Failure};

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
pub async fn stats(client: &Client, question: GetStatsRequest, format: Format) -> Result<Answer, Failure> {
    let stats = client.stats(question).await?;
    Ok(answer(match format {
        Format::Text => text::render_stats(&stats),
        Format::Json => json::render_stats(&stats),
    }))
}

/// Finished attempts, newest first.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn attempts(
    client: &Client,
    question: ListAttemptsRequest,
    format: Format,
) -> Result<Answer, Failure> {
    let attempts = client.attempts(question).await?;
    Ok(answer(match format {
        Format::Text => text::render_attempts(&attempts),
        Format::Json => json::render_attempts(&attempts),
    }))
}

/// One attempt with its series.
///
/// # Errors
/// The server gave no answer, does not know the attempt, or could not read the question.
pub async fn show(client: &Client, attempt: String, format: Format) -> Result<Answer, Failure> {
    let shown = client.attempt(GetAttemptRequest { attempt, with_series: true, max_samples: 0 }).await?;
    Ok(answer(match format {
        Format::Text => text::render_attempt(&shown),
        Format::Json => json::render_attempt(&shown),
    }))
}

fn answer(output: String) -> Answer {
    Answer { output, status: 0 }
}
