//! `plimsoll recommend`: proposes sizes for jobs, and prints patches with them for other tools.

use std::{fs, path::PathBuf};

use clap::Args;
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{limits, v1::RecommendRequest};

use super::{
    filter::time_range,
    terminal,
    time::{TimeArg, now_unix_ms, parse_moment},
};
use crate::{
    ask::{
        CommandOutput, ProposalFormat, fleet,
        sizes_file::{Classes, KeptFile},
    },
    commands::{ServerArgs, help},
};

/// Help text: the exit statuses.
const EXIT_STATUSES: &str = "Exit status: 0 answered, or the file of --into has the right sizes; 10 the file changed; 2 wrong usage, a file \
that cannot be used (it is then as it was), or a question that the server refused; 3 no answer from the server.";

/// Show what each job or package should request, against what it requests today, and what that saves.
///
/// Attempts of the last 30 days count, or those of --since and --until. A package gets no proposal where too little is known, and keeps
/// what it has. A proposed limit is never below the need of a trusted attempt that counts.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "recommend",
    "recommend --project group/app -o gitlab --into sizes.yml",
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
    /// Packages to show at most, those that save most [default: 100; 500 with --into or --classes].
    #[arg(long, value_name = "N", conflicts_with = "into",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RECOMMENDATIONS)))]
    limit: Option<u32>,
    /// Price of a GiB for an hour, in the place of the prices that the server knows.
    #[arg(long, value_name = "PRICE")]
    price_gib_hour: Option<f64>,
    /// Confidence below which nothing is proposed, 0 to 1 [default: 0.1].
    #[arg(long, value_name = "NUMBER")]
    min_confidence: Option<f64>,
    /// How to write the answer. A patch is for one project.
    #[arg(short, long, value_enum, default_value_t = ProposalFormat::Text)]
    output: ProposalFormat,
    #[command(flatten)]
    kept: KeptArgs,
}

/// Options for a file that is kept in git.
#[derive(Debug, Args)]
struct KeptArgs {
    /// With -o spack: classes of machines, a file of pools. Each package gets the cheapest class that holds it at its build jobs.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    classes: Option<PathBuf>,
    /// Class of all packages without a size of their own [default: such packages keep what they have].
    #[arg(long, value_name = "NAME", requires = "classes", default_value = "", hide_default_value = true)]
    default_class: String,
    /// Bring this file up to date, instead of printing: with -o spack, gitlab, kubernetes or csv. A size changes only if it is too small, or
    /// if more than 10 % is saved with a confidence of 90 %. What people wrote stays.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    into: Option<PathBuf>,
    /// With --into: print what changed and why, as Markdown for a merge request.
    #[arg(long, requires = "into")]
    summary: bool,
}

impl KeptArgs {
    /// Reads the classes.
    /// Errors: the file cannot be read, or is wrong; or the format has no classes.
    fn read_classes(&self, format: ProposalFormat) -> Result<Option<Classes>, String> {
        let Some(path) = &self.classes else { return Ok(None) };
        if format != ProposalFormat::Spack {
            return Err("--classes is for -o spack".to_owned());
        }
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        let classes = text.and_then(|text| Classes::parse(&text, &self.default_class));
        classes.map(Some).map_err(|why| format!("{}: {why}", path.display()))
    }
}

impl RecommendArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let question = self.question(now_unix_ms())?;
        let classes = self.kept.read_classes(self.output).map_err(QuestionFailure::Question)?;
        let build_jobs = classes.as_ref().map(Classes::build_jobs).unwrap_or_default();
        let question = RecommendRequest { build_jobs, ..question };
        let client = self.server.connect().await?;
        match self.kept.into {
            Some(path) => {
                let file = KeptFile { path, format: self.output, summary: self.kept.summary };
                fleet::keep_sizes(&client, question, &file, classes.as_ref()).await
            }
            None => fleet::recommend(&client, question, terminal::shown(self.output), classes.as_ref()).await,
        }
    }

    fn question(&self, now_unix_ms: u64) -> Result<RecommendRequest, QuestionFailure> {
        let (from_unix_ms, to_unix_ms) = time_range(self.since, self.until, now_unix_ms)?;
        let is_file = self.kept.into.is_some() || self.kept.classes.is_some();
        let usual = if is_file { limits::RECOMMENDATIONS } else { limits::RECOMMENDATIONS_DEFAULT };
        Ok(RecommendRequest {
            project: self.project.clone(),
            stack: self.stack.clone(),
            package: self.package.clone(),
            from_unix_ms,
            to_unix_ms,
            page_size: self.limit.unwrap_or(usual),
            price_gib_hour: self.price_gib_hour,
            min_confidence: self.min_confidence,
            build_jobs: Vec::new(),
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
        assert_eq!(question("-o csv --into sizes.csv").unwrap().page_size, 500);
        assert!(question("-o csv --into a --limit 5").unwrap_err().contains("cannot be used with"));
        for lacks in ["--summary", "--default-class a"] {
            assert!(question(lacks).unwrap_err().contains("required"), "{lacks}");
        }
    }
}
