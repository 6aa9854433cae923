//! The commands that ask the server about one key or one failure.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plimsoll_base::quantity;
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{
    limits,
    v1::{Exit, PredictRequest, ShouldRetryRequest},
};

use super::{
    EXIT_STATUSES, KeyArgs, ServerArgs, delivery_args::attempt_id, help, log::log_excerpt, retried::retried,
};
use crate::{
    ask::{self, CommandOutput, ExplanationView, Format, PredictFormat},
    key::CiJob,
};

/// Help text: the exit statuses of `should-retry`.
const JUDGED_STATUSES: &str = "Exit status: 0 retry, 10 do not retry, 2 wrong usage or a question that the server refused, \
3 no answer from the server.";

/// Predict what the next attempt of a key should request.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "predict --key project=group/app --key package=zlib",
    "predict --key project=group/app --key package=zlib -o env",
]))]
pub(super) struct PredictArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// Show what the build needs at other numbers of build jobs (-j), and which of them to take.
    #[arg(long, value_enum, value_name = "WHAT")]
    explain: Option<Explained>,
    #[command(flatten)]
    limit: LimitArgs,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = PredictFormat::Text)]
    output: PredictFormat,
}

/// Explain a prediction: what decided each number, what other numbers of build jobs need, and which attempts it learnt
/// from.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["explain --key project=group/app --key package=zlib"]))]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    limit: LimitArgs,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Judge whether retrying a failed attempt can help, and with what size.
///
/// The key is needed only for an attempt that was not measured. In a CI job it comes from the environment.
#[derive(Debug, Args)]
#[command(after_help = help::end(JUDGED_STATUSES, &[
    "should-retry 204 --log build.log",
    "should-retry 204 --key package=zlib --exit-code 137",
]))]
pub(super) struct ShouldRetryArgs {
    /// Id of the attempt [default: the CI job's id].
    #[arg(value_name = "ID", value_parser = attempt_id, conflicts_with = "attempt")]
    id: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// Id of the attempt, the same as ID.
    #[arg(long, value_name = "ID", value_parser = attempt_id)]
    attempt: Option<String>,
    /// Number of the attempt, if it was not measured.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    number: u32,
    /// Exit code of the command.
    #[arg(long, value_name = "N", conflicts_with = "signal", allow_hyphen_values = true)]
    exit_code: Option<i32>,
    /// Signal that ended the command.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=64))]
    signal: Option<i32>,
    /// Log of the attempt, plain, gzip or zstd. Of a long one its errors and its end are sent. `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// GitLab's failure reason.
    #[arg(help = "GitLab's failure reason, for example script_failure", long, value_name = "REASON", value_parser = reason)]
    failure_reason: Option<String>,
    /// The container's reason.
    #[arg(help = "Kubernetes' reason for the end of the container, for example OOMKilled", long, value_name = "REASON", value_parser = reason)]
    container_reason: Option<String>,
    /// Kubernetes' reason for the end of the pod, for example Evicted.
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pod_reason: Option<String>,
    /// GitLab's list of the jobs of the pipeline, as JSON; `-` reads standard input.
    #[arg(
        help = "GitLab's list of the pipeline's jobs (JSON of .../pipelines/ID/jobs?include_retried=true): what was retried there \
counts. `-` reads standard input",
        long,
        value_name = "FILE"
    )]
    include_retried: Option<PathBuf>,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// The option for the memory that the build must fit into.
#[derive(Debug, Args)]
struct LimitArgs {
    /// Most memory that the build may have; the answer says which -j fits it [default: the largest size that the server allows].
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    limit_memory: Option<u64>,
}

/// What `predict` explains in addition to its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Explained {
    /// What the build needs at other numbers of build jobs.
    Jobs,
}

impl PredictArgs {
    pub(super) async fn ask(self, job: &CiJob) -> Result<CommandOutput, QuestionFailure> {
        let key = job.key_for(&[], &self.key.keys).map_err(QuestionFailure::Question)?;
        let format = match (self.explain, self.output) {
            (None, format) => return ask::predict(&self.server.connect().await?, key, format).await,
            (Some(Explained::Jobs), PredictFormat::Text) => Format::Text,
            (Some(Explained::Jobs), PredictFormat::Json) => Format::Json,
            (Some(Explained::Jobs), PredictFormat::Env) => {
                let text = "--explain jobs has no form for shells; take -o text or -o json";
                return Err(QuestionFailure::Question(text.to_owned()));
            }
        };
        let question = PredictRequest { key: Some(key), memory_limit_bytes: self.limit.limit_memory };
        ask::explain(&self.server.connect().await?, question, ExplanationView::Jobs, format).await
    }
}

impl ExplainArgs {
    pub(super) async fn ask(self, job: &CiJob) -> Result<CommandOutput, QuestionFailure> {
        let key = job.key_for(&[], &self.key.keys).map_err(QuestionFailure::Question)?;
        let question = PredictRequest { key: Some(key), memory_limit_bytes: self.limit.limit_memory };
        ask::explain(&self.server.connect().await?, question, ExplanationView::Whole, self.output).await
    }
}

impl ShouldRetryArgs {
    pub(super) async fn ask(self, job: &CiJob) -> Result<CommandOutput, QuestionFailure> {
        let question = self.question(job).map_err(QuestionFailure::Question)?;
        ask::should_retry(&self.server.connect().await?, question, self.output).await
    }

    fn question(&self, job: &CiJob) -> Result<ShouldRetryRequest, String> {
        let named = self.id.as_ref().or(self.attempt.as_ref());
        let attempt = named.or(job.attempt.as_ref()).ok_or("the attempt is not known: name its ID")?;
        // the environment describes the job that asks; it is used only if that job is the attempt in question
        let own = job.attempt.as_ref() == Some(attempt);
        let environment = if own { job } else { &CiJob::default() };
        let known = own && !job.key.package.is_empty() || !self.key.keys.is_empty();
        let key = known.then(|| environment.key_for(&[], &self.key.keys)).transpose()?;
        let exit = Exit { code: self.exit_code, signal: self.signal };
        if [&self.log, &self.include_retried].iter().all(|path| path.as_deref() == Some(Path::new("-"))) {
            return Err(
                "--log and --include-retried cannot both be `-`: there is one standard input".to_owned()
            );
        }
        let name = environment.key.labels.get("job").map(String::as_str);
        let include_retried = self.include_retried.as_deref().map(|path| retried(path, attempt, name));
        let log_tail =
            self.log.as_deref().map(|log| log_excerpt(log, &job.secrets)).transpose()?.unwrap_or_default();
        Ok(ShouldRetryRequest {
            attempt: attempt.clone(),
            key,
            exit: Some(exit).filter(|exit| *exit != Exit::default()),
            log_tail,
            failure_reason: self.failure_reason.clone().unwrap_or_default(),
            container_reason: self.container_reason.clone().unwrap_or_default(),
            pod_reason: self.pod_reason.clone().unwrap_or_default(),
            number: self.number,
            include_retried: include_retried.transpose()?.unwrap_or_default(),
            // a CI job's id is the id of its first run, so the server must look for the newest one
            newest_run: named.is_none(),
        })
    }
}

/// Checks that a reason is not longer than the wire allows.
fn reason(text: &str) -> Result<String, String> {
    if text.len() > limits::REASON_BYTES {
        return Err(format!("at most {} bytes", limits::REASON_BYTES));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
