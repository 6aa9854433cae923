//! `plimsoll recommend`: proposes sizes for jobs, and prints patches with them for other tools.

use clap::Args;
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{limits, v1::RecommendRequest};

use super::{
    filter::time_range,
    terminal,
    time::{TimeArg, now_unix_ms, parse_moment},
};
use crate::{
    ask::{CommandOutput, ProposalFormat, fleet},
    commands::{EXIT_STATUSES, ServerArgs, help},
};

/// Show what each job or package should request, against what it requests today, and what that saves.
///
/// Attempts of the last 30 days count, or those of --since and --until. A package gets no proposal where too little is known, and keeps
/// what it has. A proposed limit is never below the need of a trusted attempt that counts.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "recommend",
    "recommend --project group/app -o gitlab",
]))]
pub(in crate::commands) struct RecommendArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Only this project.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    project: String,
    /// Only this stack.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    stack: String,
    /// Only this package or job.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    package: String,
    /// Only what ended at or after: so long before now, as 7d, or a time in UTC, as 2026-11-14 [default: 30 days ago].
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<TimeArg>,
    /// Only what ended before [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<TimeArg>,
    /// Packages to show at most, those that save most.
    #[arg(long, value_name = "N", default_value_t = limits::RECOMMENDATIONS_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RECOMMENDATIONS)))]
    limit: u32,
    /// Price of a GiB for an hour, in the place of the prices that the server knows.
    #[arg(long, value_name = "PRICE")]
    price_gib_hour: Option<f64>,
    /// Confidence below which nothing is proposed, 0 to 1 [default: 0.1].
    #[arg(long, value_name = "NUMBER")]
    min_confidence: Option<f64>,
    /// How to write the answer. A patch is for one project.
    #[arg(short, long, value_enum, default_value_t = ProposalFormat::Text)]
    output: ProposalFormat,
}

impl RecommendArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let question = self.question(now_unix_ms())?;
        fleet::recommend(&self.server.connect().await?, question, terminal::shown(self.output)).await
    }

    fn question(&self, now_unix_ms: u64) -> Result<RecommendRequest, QuestionFailure> {
        let (from_unix_ms, to_unix_ms) = time_range(self.since, self.until, now_unix_ms)?;
        Ok(RecommendRequest {
            project: self.project.clone(),
            stack: self.stack.clone(),
            package: self.package.clone(),
            from_unix_ms,
            to_unix_ms,
            page_size: self.limit,
            price_gib_hour: self.price_gib_hour,
            min_confidence: self.min_confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command, people::PeopleCommand};

    fn question(words: &str) -> Result<RecommendRequest, String> {
        let words = ["plimsoll", "recommend"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::People(PeopleCommand::Recommend(args)) => {
                args.question(10 * 86_400_000).map_err(|failure| failure.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_question_without_times_uses_server_defaults() {
        let usual = question("").unwrap();
        assert_eq!((usual.from_unix_ms, usual.to_unix_ms, usual.page_size), (None, None, 100));
        let asked = question("--project p --since 7d --price-gib-hour 0.01 --limit 5").unwrap();
        assert_eq!((asked.project.as_str(), asked.page_size), ("p", 5));
        assert_eq!((asked.from_unix_ms, asked.price_gib_hour), (Some(3 * 86_400_000), Some(0.01)));
        assert!(question("--limit 501").is_err() && question("-o yaml").is_err());
        assert!(question("--since 1d --until 2d").is_err());
    }
}
