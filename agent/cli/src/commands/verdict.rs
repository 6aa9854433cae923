//! `plimsoll verdict`: a person corrects the cause of a failure.

use std::time::Duration;

use clap::{Args, ValueEnum};
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{
    limits,
    v1::{Cause, CorrectVerdictRequest},
};

use super::{
    EXIT_STATUSES, ServerArgs,
    delivery_args::attempt_id,
    fleet::{cause, to_millis},
    help,
};
use crate::ask::{self, CommandOutput, Format};

/// Correct the cause of a failed attempt, or take a correction back.
///
/// Needs the role `operator`; the token of a CI job is refused. The cause changes everywhere: statistics, metrics, lists, the page and
/// what later attempts learn from. What was measured stays.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "verdict correct gitlab.com:4711 --cause infra --why outage",
    "verdict undo gitlab.com:4711",
]))]
pub(super) struct VerdictArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// What to do.
    #[arg(value_enum, value_name = "WHAT")]
    change: CorrectionChange,
    /// Id of the attempt.
    #[arg(value_name = "ATTEMPT", value_parser = attempt_id)]
    attempt: String,
    /// The cause, for example infra; a wrong one lists all.
    #[arg(long, value_name = "CAUSE", value_parser = cause, required_if_eq("change", "correct"))]
    cause: Option<Cause>,
    /// What happened, for those who read it later; at most 500 bytes.
    #[arg(long, value_name = "TEXT", value_parser = parse_why, required_if_eq("change", "correct"))]
    why: Option<String>,
    /// Judge other failures of the project with the same signature by this cause too, for this time from now: 1m to 30d.
    #[arg(long, value_name = "TIME", value_parser = signature_for)]
    signature_for: Option<Duration>,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// What to do with the correction of an attempt's cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CorrectionChange {
    /// Say another cause.
    Correct,
    /// Take it back: the cause is what the rules find.
    Undo,
}

impl VerdictArgs {
    pub(super) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let question = self.question().map_err(QuestionFailure::Question)?;
        ask::correct_verdict(&self.server.connect().await?, question, self.output).await
    }

    fn question(&self) -> Result<CorrectVerdictRequest, String> {
        let undo = self.change == CorrectionChange::Undo;
        if undo && (self.cause.is_some() || self.signature_for.is_some()) {
            return Err(
                "undo takes neither --cause nor --signature-for: it takes the correction back".to_owned()
            );
        }
        Ok(CorrectVerdictRequest {
            attempt: self.attempt.clone(),
            cause: self.cause.unwrap_or_default().into(),
            why: self.why.clone().unwrap_or_default(),
            signature_for_ms: self.signature_for.map(to_millis),
            undo,
        })
    }
}

fn parse_why(text: &str) -> Result<String, String> {
    if text.len() > limits::CORRECTION_BYTES {
        return Err(format!("at most {} bytes", limits::CORRECTION_BYTES));
    }
    Ok(text.to_owned())
}

fn signature_for(text: &str) -> Result<Duration, String> {
    let time =
        humantime::parse_duration(text).map_err(|_error| "expected a time, as 24h or 7d".to_owned())?;
    if !limits::SIGNATURE_FOR_MS.contains(&to_millis(time)) {
        return Err("expected a time between 1m and 30d".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command, people::PeopleCommand};

    fn asked(words: &[&str]) -> Result<CorrectVerdictRequest, String> {
        let line = [&["plimsoll", "verdict"], words].concat();
        let Command::People(PeopleCommand::Verdict(args)) =
            Cli::try_parse_from(line).map_err(|error| error.to_string())?.command
        else {
            panic!("not verdict")
        };
        args.question()
    }

    #[test]
    fn a_correction_needs_cause_and_reason() {
        let question =
            asked(&["correct", "7", "--cause", "disk-full", "--why", "it was", "--signature-for", "24h"]);
        let expected = CorrectVerdictRequest {
            attempt: "7".into(),
            cause: Cause::DiskFull.into(),
            why: "it was".into(),
            signature_for_ms: Some(86_400_000),
            undo: false,
        };
        assert_eq!(question, Ok(expected));
        assert!(asked(&["undo", "7"]).unwrap().undo);
    }

    #[test]
    fn invalid_corrections_are_refused_before_sending() {
        let correct = ["correct", "7", "--why", "x", "--cause"];
        let with = |more: &[&str]| asked(&[&correct[..], more].concat()).unwrap_err();
        assert!(with(&["bad luck"]).contains("disk_full"), "a wrong cause lists all");
        assert!(with(&["infra", "--signature-for", "31d"]).contains("30d"));
        assert!(asked(&["correct", "7", "--cause", "infra"]).unwrap_err().contains("--why"));
        assert!(asked(&["correct", "7", "--why", "x"]).unwrap_err().contains("--cause"));
        assert!(asked(&["undo", "7", "--cause", "infra"]).unwrap_err().contains("undo takes neither"));
        let long = "x".repeat(501);
        let too_long = asked(&["correct", "7", "--cause", "infra", "--why", &long]).unwrap_err();
        assert!(too_long.contains("500 bytes"));
    }
}
