//! `plimsoll report`: reports on a period of builds.

use clap::Args;
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::v1::Filter;

use super::{EXIT_STATUSES, FilterArgs, terminal, time::now_unix_ms};
use crate::{
    ask::{
        CommandOutput,
        report::{self, DigestFormat, TimeRange},
    },
    commands::{ServerArgs, help},
};

/// Milliseconds of a week.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

/// Help text of `--since`. Its default differs from that of the other commands.
const SINCE_HELP: &str = "Only what ended at or after: so long before now, as 7d, or a time in UTC, as 2026-11-14 [default: seven days before --until]";

/// Report on a week of builds: failures by cause against the week before, waste and money,
/// needs that have moved, retries, how predictions held, and what to do next.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["report --week", "report --since 28d -o html > report.html"]), mut_arg("since", |since| since.help(SINCE_HELP)))]
pub(in crate::commands) struct ReportArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The seven days before now; the same as without any time.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    week: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// How to write it; `html` is one file that loads nothing from elsewhere.
    #[arg(short, long, value_enum, default_value_t = DigestFormat::Text)]
    output: DigestFormat,
}

impl ReportArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let (filter, range) = self.filter_and_range(now_unix_ms())?;
        report::digest(&self.server.connect().await?, filter, range, terminal::shown(self.output)).await
    }

    /// The filter and the period of the report.
    fn filter_and_range(&self, now_unix_ms: u64) -> Result<(Filter, TimeRange), QuestionFailure> {
        let filter = self.filter.filter(now_unix_ms)?;
        // the report ends now at the latest: a period in the future has no attempts to compare
        let to = filter.to_unix_ms.unwrap_or(now_unix_ms).min(now_unix_ms);
        let from = filter.from_unix_ms.unwrap_or_else(|| to.saturating_sub(WEEK_MS));
        Ok((filter, TimeRange { from_unix_ms: from, to_unix_ms: to }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command, people::PeopleCommand};

    const NOW: u64 = 1_763_715_907_000;

    fn about(words: &str) -> Result<TimeRange, String> {
        let words = ["plimsoll", "report"].into_iter().chain(words.split_whitespace());
        let Command::People(PeopleCommand::Report(args)) =
            Cli::try_parse_from(words).map_err(|error| error.to_string())?.command
        else {
            panic!("not report")
        };
        args.filter_and_range(NOW).map(|(_, range)| range).map_err(|failure| failure.to_string())
    }

    #[test]
    fn help_says_from_when_on_a_report_is() {
        let help = Cli::try_parse_from(["plimsoll", "report", "--help"]).unwrap_err().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("[default: seven days before --until]"), "{help}");
        assert!(!help.contains("the beginning"), "{help}");
    }

    #[test]
    fn a_report_is_about_the_last_week_unless_a_range_is_given() {
        let week = TimeRange { from_unix_ms: NOW - WEEK_MS, to_unix_ms: NOW };
        assert_eq!([about(""), about("--week"), about("--until 2099-01-01")], [Ok(week), Ok(week), Ok(week)]);
        let day = TimeRange { from_unix_ms: 1_763_596_800_000, to_unix_ms: 1_763_683_200_000 };
        assert_eq!(about("--since 2025-11-20 --until 2025-11-21"), Ok(day));
        assert!(about("--week --since 1d").unwrap_err().contains("cannot be used with"));
        assert!(about("--since 2099-01-01").unwrap_err().contains("future"));
    }
}
