//! Requests to the server, with answers for people, programs and shells.
//!
//! [`Client`] sends the request, `text`, `json` and `shell` render the answer, and the functions here combine both: one for each command.
//! They return the output; only `main` prints.

#[cfg(feature = "people")]
mod comparison;
pub(crate) mod curve;
#[cfg(feature = "people")]
mod filter_words;
#[cfg(feature = "people")]
pub mod fleet;
#[cfg_attr(
    not(any(feature = "people", test)),
    expect(unused, reason = "answers that only people ask for stand beside the others")
)]
pub(crate) mod json;
#[cfg(all(test, feature = "people"))]
mod recorded;
mod shell;
#[cfg(feature = "people")]
pub mod sizes_file;
#[cfg(feature = "people")]
mod terminal_style;
pub(crate) mod text;
#[cfg(feature = "people")]
pub mod watch;
mod without_project;

use plimsoll_client::questions::{Client, QuestionFailure};
#[cfg(feature = "people")]
use plimsoll_proto::v1::CorrectVerdictRequest;
use plimsoll_proto::{
    evidence::is_retry,
    json::ToJson,
    v1::{ExplainResponse, Key, PredictRequest, ShouldRetryRequest, Verdict},
};
#[cfg(feature = "people")]
pub use terminal_style::TerminalStyle;
use without_project::hint_other_projects;

use crate::standard_error::write_line;

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
    /// For shells and GitLab's dotenv: one `NAME=value` on each line, none for a number of which nothing is known.
    Env,
}

/// How proposals are written.
#[cfg(feature = "people")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProposalFormat {
    /// For people.
    Text,
    /// For programs: stable names with their unit, the same as on the wire.
    Json,
    /// For a spreadsheet: a line for each package.
    Csv,
    /// Variables for each job, for `.gitlab-ci.yml`.
    Gitlab,
    /// Patches of Jobs, for kustomize.
    Kubernetes,
    /// A mapping for the `ci` section of Spack.
    Spack,
}

/// The output of a command, ready to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Text for standard output, ending with a line feed.
    pub output: String,
    /// Exit status of the command.
    pub status: u8,
    /// Whether the text is for people and may be wrapped at the width of the terminal.
    pub is_prose: bool,
}

impl CommandOutput {
    /// Output for people, with exit status 0.
    pub fn prose(output: String) -> Self {
        Self { output, status: 0, is_prose: true }
    }

    /// An answer of the server, as text or as JSON.
    fn of<M: ToJson>(answer: &M, format: Format, text: impl FnOnce(&M) -> String) -> Self {
        match format {
            Format::Text => Self::prose(text(answer)),
            Format::Json => Self::data(json::render_message(answer)),
        }
    }

    /// Output for programs, or to be copied from the terminal, with exit status 0.
    pub fn data(output: String) -> Self {
        Self { output, status: 0, is_prose: false }
    }
}

/// Exit status of `should-retry` if another attempt is not worth it.
pub const DO_NOT_RETRY: u8 = 10;

/// Asks for the sizes of the next attempt of a key.
/// Errors: the server did not answer, or rejected the request.
pub async fn predict(
    client: &Client,
    key: Key,
    format: PredictFormat,
) -> Result<CommandOutput, QuestionFailure> {
    let question = PredictRequest { key: Some(key.clone()), ..Default::default() };
    let prediction = client.predict(question).await?;
    Ok(match format {
        PredictFormat::Text => {
            let more = hint_other_projects(client, &key, Some(&prediction)).await;
            CommandOutput::prose(text::render_prediction(&prediction) + &more + &asked_for(&key))
        }
        PredictFormat::Json => CommandOutput::data(json::render_message(&prediction)),
        PredictFormat::Env => {
            if let Some(why) = shell::missing_lines_reason(&prediction) {
                write_line(&why);
            }
            CommandOutput::data(shell::render_prediction(&prediction))
        }
    })
}

/// Which parts of an explanation are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplanationView {
    /// The prediction, the attempts behind it, and the need at other numbers of build jobs.
    Whole,
    /// The prediction, and the need at other numbers of build jobs.
    Jobs,
}

/// Explains a prediction, with the attempts behind it or only with the need at other numbers of build jobs.
/// Errors: the server did not answer, or rejected the request.
pub async fn explain(
    client: &Client,
    question: PredictRequest,
    view: ExplanationView,
    format: Format,
) -> Result<CommandOutput, QuestionFailure> {
    let key = question.key.clone().unwrap_or_default();
    let explained = client.explain(question).await?;
    let render: [fn(&ExplainResponse) -> String; 2] = match view {
        ExplanationView::Whole => [text::render_explanation, json::render_message],
        ExplanationView::Jobs => [text::render_jobs, json::render_jobs],
    };
    if format == Format::Json {
        return Ok(CommandOutput::data(render[1](&explained)));
    }
    let more = hint_other_projects(client, &key, explained.prediction.as_ref()).await;
    Ok(CommandOutput::prose(render[0](&explained) + &more + &asked_for(&key)))
}

/// A line with the key that was asked for. If the answer is unexpected, a different key is a likely reason.
fn asked_for(key: &Key) -> String {
    let own = match key.arch.as_str() {
        "" => ", any arch",
        std::env::consts::ARCH => " (--key arch=any asks for any arch)",
        _ => "",
    };
    format!("asked for the key {}{own}\n", text::key_words(key))
}

/// Asks whether a failed attempt should be retried.
/// Errors: the server did not answer, or rejected the request.
pub async fn should_retry(
    client: &Client,
    question: ShouldRetryRequest,
    format: Format,
) -> Result<CommandOutput, QuestionFailure> {
    let verdict = client.should_retry(question).await?;
    let status = if is_retry(verdict.action()) { 0 } else { DO_NOT_RETRY };
    Ok(CommandOutput { status, ..verdict_output(&verdict, format) })
}

fn verdict_output(verdict: &Verdict, format: Format) -> CommandOutput {
    CommandOutput::of(verdict, format, text::render_verdict)
}

/// Corrects the cause of a failure; returns the verdict in force.
/// Errors: the server did not answer, or refused the correction.
#[cfg(feature = "people")]
pub async fn correct_verdict(
    client: &Client,
    question: CorrectVerdictRequest,
    format: Format,
) -> Result<CommandOutput, QuestionFailure> {
    Ok(verdict_output(&client.correct_verdict(question).await?, format))
}
