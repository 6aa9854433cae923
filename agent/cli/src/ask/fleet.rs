//! Commands that ask about many attempts, or about one attempt over time.

use plimsoll_client::questions::{Client, QuestionFailure};
use plimsoll_proto::{
    limits, recommendations,
    v1::{
        GetAttemptRequest, GetAttemptResponse, GetStatsRequest, ListAttemptsRequest, ListAttemptsResponse,
        RecommendRequest,
    },
};

use super::{
    CommandOutput, Format, ProposalFormat, TerminalStyle, comparison, json,
    sizes_file::{self, Classes, KeptFile},
    text,
};

/// The output format, and the style of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presentation<F> {
    /// Text, or a format for programs.
    pub format: F,
    /// Width and colours of the terminal; used for text only.
    pub style: TerminalStyle,
}

/// Prints what the attempts of a filter used, requested and wasted.
/// Errors: the server did not answer, or rejected the request.
pub async fn show_stats(
    client: &Client,
    question: GetStatsRequest,
    shown: Presentation<Format>,
) -> Result<CommandOutput, QuestionFailure> {
    let stats = client.stats(question.clone()).await?;
    Ok(CommandOutput::of(&stats, shown.format, |stats| text::render_stats(&question, stats, shown.style)))
}

/// Prints at most `limit` finished attempts, in the requested order.
/// Errors: the server did not answer, or rejected the request.
pub async fn attempts(
    client: &Client,
    question: ListAttemptsRequest,
    limit: usize,
    shown: Presentation<Format>,
) -> Result<CommandOutput, QuestionFailure> {
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
    Ok(CommandOutput::of(&page, shown.format, |page| text::render_attempts(&question, page, shown.style)))
}

/// Prints proposed sizes for each job or package: as a table, for programs, or as a patch. `classes`: of machines, for Spack.
/// Errors: the server did not answer, or rejected the request; or the format is a patch, which is for one project, and the proposals are
/// for several.
pub async fn recommend(
    client: &Client,
    question: RecommendRequest,
    shown: Presentation<ProposalFormat>,
    classes: Option<&Classes>,
) -> Result<CommandOutput, QuestionFailure> {
    let answer = client.recommend(question).await?;
    let patch = match shown.format {
        ProposalFormat::Text => {
            return Ok(CommandOutput::prose(text::render_proposals(&answer, shown.style)));
        }
        ProposalFormat::Json => Ok(json::render_message(&answer)),
        ProposalFormat::Csv => Ok(recommendations::csv(&answer)),
        ProposalFormat::Gitlab => recommendations::gitlab(&answer),
        ProposalFormat::Kubernetes => recommendations::kubernetes(&answer),
        ProposalFormat::Spack => match classes {
            Some(classes) => sizes_file::spack_file(&answer, classes),
            None => recommendations::spack(&answer),
        },
    };
    patch.map(CommandOutput::data).map_err(QuestionFailure::Question)
}

/// Brings a file with proposed sizes up to date, and prints what changed.
/// Errors: the server did not answer, or rejected the request; or the file cannot be read, understood or written.
pub async fn keep_sizes(
    client: &Client,
    question: RecommendRequest,
    file: &KeptFile,
    classes: Option<&Classes>,
) -> Result<CommandOutput, QuestionFailure> {
    let answer = client.recommend(question).await?;
    sizes_file::update(file, &answer, classes).map_err(QuestionFailure::Question)
}

/// Prints one attempt with its samples over time.
/// Errors: the server did not answer, does not know the attempt, or rejected the request.
pub async fn show_attempt(
    client: &Client,
    question: GetAttemptRequest,
    shown: Presentation<Format>,
) -> Result<CommandOutput, QuestionFailure> {
    let attempt = client.attempt(question).await?;
    Ok(CommandOutput::of(&attempt, shown.format, |attempt| text::render_attempt(attempt, shown.style)))
}

/// Prints two attempts side by side.
/// Errors: the server did not answer, does not know one of the attempts, or rejected the request.
pub async fn compare_attempts(
    client: &Client,
    attempts: [String; 2],
    shown: Presentation<Format>,
) -> Result<CommandOutput, QuestionFailure> {
    let [first, second] =
        attempts.map(|attempt| GetAttemptRequest { attempt, ..GetAttemptRequest::default() });
    let first = client.attempt(first).await?;
    let second = client.attempt(second).await?;
    let rows = comparison::rows(&first, &second);
    let id =
        |shown: &GetAttemptResponse| shown.summary.as_ref().map(|of| of.attempt.clone()).unwrap_or_default();
    let ids = [id(&first), id(&second)];
    Ok(match shown.format {
        // the comparison is already as wide as the terminal, so it is not wrapped again
        Format::Text => {
            CommandOutput::data(comparison::render_comparison([&ids[0], &ids[1]], &rows, shown.style))
        }
        Format::Json => CommandOutput::data(json::render_comparison(&first, &second, &rows)),
    })
}
