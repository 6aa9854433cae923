//! Options that say how `run` acts on a verdict.

use clap::Args;

use crate::{
    key::CiJob,
    run::{ExitCodes, RETRIES, VerdictActions},
};

/// Options that say what to do when the build fails.
#[derive(Debug, Args)]
pub(super) struct ActArgs {
    /// End a failed build with this exit code if the server gives this verdict: no, as-is, bigger, fewer-jobs, longer or elsewhere. A list
    /// with commas, or given several times. Without a verdict within --patience the exit code is the build's own.
    #[arg(long, value_name = "VERDICT=CODE", env = "PLIMSOLL_EXIT_CODE_FOR", value_delimiter = ',')]
    exit_code_for: Vec<String>,
    /// Run a failed build again in this place, at most N times (1 to 10), if the verdict is fewer-jobs or as-is. The number of jobs
    /// replaces `{jobs}` in the command, and is set for make, Spack, cmake and cargo by their variables.
    #[arg(long, value_name = "N", env = "PLIMSOLL_RETRY_IN_PLACE")]
    retry_in_place: Option<String>,
}

impl ActArgs {
    /// The settings. `shares_id` is true if the attempt has the id of its CI job.
    pub(super) fn settings(self, job: &CiJob, shares_id: bool) -> Result<VerdictActions, String> {
        Ok(VerdictActions {
            exit_codes: exit_codes(&self.exit_code_for)?,
            retries: self.retry_in_place.as_deref().map_or(Ok(0), parse_retries)?,
            make_flags: job.make_flags.clone(),
            shares_id,
        })
    }
}

fn exit_codes(pairs: &[String]) -> Result<ExitCodes, String> {
    ExitCodes::parse(pairs.iter().map(String::as_str)).map_err(|why| format!("--exit-code-for {why}"))
}

fn parse_retries(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=RETRIES).contains(number));
    number.ok_or_else(|| format!("--retry-in-place {text:?}: expected 1 to {RETRIES}"))
}

/// Checks a value of `--exit-code-for`.
pub(super) fn check_exit_codes(words: &str) -> Result<(), String> {
    ExitCodes::parse(words.split(',')).map(drop)
}

/// Checks a value of `--retry-in-place`.
pub(super) fn check_retries(word: &str) -> Result<(), String> {
    parse_retries(word).map(drop)
}
