//! Commands about past and running attempts: statistics, lists, single attempts, proposals.

mod filter;
mod recommend;
mod terminal;
mod time;
mod watch;

use std::time::Duration;

use clap::{Args, ValueEnum};
use filter::FilterArgs;
pub(super) use filter::cause;
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{
    WireEnum as _, limits,
    v1::{AttemptOrder, GetAttemptRequest, GetStatsRequest, GroupBy, ListAttemptsRequest},
};
pub(super) use recommend::RecommendArgs;
use time::now_unix_ms;
pub(super) use time::to_millis;
pub(super) use watch::WatchArgs;

use super::{EXIT_STATUSES, ServerArgs, delivery_args::attempt_id, help};
use crate::ask::{CommandOutput, Format, fleet};

/// Most attempts that one call lists. All of them are in memory before they are printed.
const MAX_LISTED: i64 = 10_000;

/// Usual widths of a time step, of which the narrowest fitting one is chosen.
const STEP_WIDTHS: [Duration; 10] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_hours(1),
    Duration::from_hours(3),
    Duration::from_hours(6),
    Duration::from_hours(12),
    Duration::from_hours(24),
    Duration::from_hours(7 * 24),
    Duration::from_hours(28 * 24),
];

/// Most time steps in a line of the terminal.
const SHOWN_STEPS: u64 = 60;

/// Show what the fleet used, asked for and lost.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["stats --since 7d", "stats --by package --since 2026-11-01"]))]
pub(in crate::commands) struct StatsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// What makes a group: package, version, stack, project, compiler, arch, pool, ref-class, owner, cause, outcome, or
    /// label=NAME.
    #[arg(long = "by", visible_alias = "group-by", value_name = "WHAT", value_parser = parse_group)]
    group_by: Option<GroupArg>,
    /// Width of a step in time, for example 1d [default: with --since and -o text one that gives up to 60].
    #[arg(long, value_name = "TIME", value_parser = parse_step)]
    step: Option<Duration>,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// List finished attempts, newest first.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "attempts --outcome failed --since 1d",
    "attempts --package zlib --order need --limit 10",
]))]
pub(in crate::commands) struct AttemptsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = OrderArg::Newest)]
    order: OrderArg,
    /// Attempts to list at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_LISTED))]
    limit: u32,
    /// Go on where an answer with the same filter and order ended. Its times must be the same, too: say them as a time in UTC, not as a length.
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    page_token: String,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Show one attempt, running or finished: memory and CPU over time, phases, what was predicted for it, the verdict on it. Two are
/// shown side by side, with what differs marked.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["show 204", "show 204 205"]))]
pub(in crate::commands) struct ShowArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Id of the attempt.
    #[arg(value_name = "ID", value_parser = attempt_id, required_unless_present = "attempt")]
    id: Option<String>,
    /// Id of another attempt, to show beside the first.
    #[arg(value_name = "OTHER", value_parser = attempt_id, conflicts_with_all = ["attempt", "samples"])]
    other: Option<String>,
    /// Id of the attempt.
    #[arg(long, value_name = "ID", value_parser = attempt_id, conflicts_with = "id")]
    attempt: Option<String>,
    /// Rows of the series at most.
    #[arg(long, value_name = "N", default_value_t = limits::SHOWN_SAMPLES_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SHOWN_SAMPLES)))]
    samples: u32,
    /// How to write the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OrderArg {
    /// The newest end.
    Newest,
    /// The oldest end.
    Oldest,
    /// The most memory wasted, in GiB·h.
    Waste,
    /// The highest need.
    Need,
    /// The longest.
    Wall,
}

/// The field by which attempts are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupArg {
    by: GroupBy,
    /// Name of the label; empty if the attempts are grouped by another field.
    label: String,
}

fn parse_group(text: &str) -> Result<GroupArg, String> {
    if let Some(label) = text.strip_prefix("label=").filter(|name| !name.is_empty()) {
        return Ok(GroupArg { by: GroupBy::Label, label: label.to_owned() });
    }
    let known = "package, version, stack, project, compiler, arch, pool, ref-class, owner, cause, outcome, label=NAME";
    let by = GroupBy::parse(text).filter(|by| *by != GroupBy::Label);
    Ok(GroupArg { by: by.ok_or_else(|| format!("is none of {known}"))?, label: String::new() })
}

fn parse_step(text: &str) -> Result<Duration, String> {
    let step = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if step < Duration::from_secs(1) { Err("expected 1s or more".to_owned()) } else { Ok(step) }
}

/// The narrowest usual step with which the period `span_ms` has at most [`SHOWN_STEPS`] steps.
fn usual_step(span_ms: u64) -> u64 {
    let fits = |step: &Duration| span_ms / to_millis(*step) <= SHOWN_STEPS;
    // a longer period gets the widest step that the server allows
    to_millis(STEP_WIDTHS.into_iter().find(fits).unwrap_or(Duration::from_hours(364 * 24)))
}

impl StatsArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let question = self.question(now_unix_ms())?;
        fleet::show_stats(&self.server.connect().await?, question, terminal::shown(self.output)).await
    }

    fn question(&self, now_unix_ms: u64) -> Result<GetStatsRequest, QuestionFailure> {
        let filter = self.filter.filter(now_unix_ms)?;
        let span =
            filter.from_unix_ms.map(|from| filter.to_unix_ms.unwrap_or(now_unix_ms).saturating_sub(from));
        let step_ms = match (self.step, span, self.output) {
            (Some(step), _, _) => to_millis(step),
            (None, Some(span), Format::Text) => usual_step(span),
            _ => 0,
        };
        let group =
            self.group_by.clone().unwrap_or(GroupArg { by: GroupBy::Unspecified, label: String::new() });
        Ok(GetStatsRequest {
            filter: Some(filter),
            group_by: group.by.into(),
            group_label: group.label,
            step_ms,
        })
    }
}

impl AttemptsArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let filter = Some(self.filter.filter(now_unix_ms())?);
        let order = match self.order {
            OrderArg::Newest => AttemptOrder::Unspecified,
            OrderArg::Oldest => AttemptOrder::Oldest,
            OrderArg::Waste => AttemptOrder::Waste,
            OrderArg::Need => AttemptOrder::Need,
            OrderArg::Wall => AttemptOrder::Wall,
        };
        let question = ListAttemptsRequest {
            filter,
            order: order.into(),
            page_token: self.page_token,
            ..ListAttemptsRequest::default()
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let client = self.server.connect().await?;
        fleet::attempts(&client, question, limit, terminal::shown(self.output)).await
    }
}

impl ShowArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let attempt = self.id.or(self.attempt).unwrap_or_default();
        if let Some(other) = self.other {
            let client = self.server.connect().await?;
            return fleet::compare_attempts(&client, [attempt, other], terminal::shown(self.output)).await;
        }
        let question = GetAttemptRequest { attempt, with_series: true, max_samples: self.samples };
        fleet::show_attempt(&self.server.connect().await?, question, terminal::shown(self.output)).await
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command, people::PeopleCommand};

    fn stats(words: &str) -> Result<GetStatsRequest, String> {
        let words = ["plimsoll", "stats"].into_iter().chain(words.split_whitespace());
        let Command::People(PeopleCommand::Stats(args)) =
            Cli::try_parse_from(words).map_err(|error| error.to_string())?.command
        else {
            panic!("not stats")
        };
        args.question(1_763_715_907_000).map_err(|failure| failure.to_string())
    }

    #[test]
    fn group_names_match_the_wire_names() {
        for (word, by) in
            [("package", GroupBy::Package), ("ref_class", GroupBy::RefClass), ("outcome", GroupBy::Outcome)]
        {
            assert_eq!(stats(&format!("--by {word}")).unwrap().group_by(), by);
        }
        assert!(stats("--by foo").unwrap_err().contains("'--by <WHAT>'"), "the name that people write");
        let asked = stats("--group-by label=team").unwrap();
        assert_eq!((asked.group_by(), asked.group_label.as_str()), (GroupBy::Label, "team"));
        for wrong in ["label", "label=", "moon"] {
            assert!(stats(&format!("--by {wrong}")).unwrap_err().contains("label=NAME"));
        }
    }

    #[test]
    fn a_range_is_split_into_displayable_steps() {
        let step = |words: &str| stats(words).unwrap().step_ms;
        assert_eq!([step(""), step("--since 7d -o json"), step("--step 1d")], [0, 0, 86_400_000]);
        assert_eq!(step("--since 30m"), 60_000);
        assert_eq!(step("--since 7d"), 10_800_000);
        assert_eq!(step("--since 4y"), 28 * 86_400_000);
        for days in [1, 7, 60, 400, 5000, 20_000] {
            assert!(days * 86_400_000 / usual_step(days * 86_400_000) <= SHOWN_STEPS.max(1000), "{days}");
        }
        assert!(stats("--step 1ms").unwrap_err().contains("1s or more"));
    }

    #[test]
    fn an_attempt_is_named_once() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["plimsoll", "show"], words].concat());
        assert!(parse(&["gitlab.com:7"]).is_ok() && parse(&["--attempt", "7"]).is_ok());
        assert!(parse(&["7", "8"]).is_ok() && parse(&["7", "8", "9"]).is_err());
        assert!(parse(&["7", "8", "--samples", "9"]).is_err(), "series are not compared");
        for wrong in [&[][..], &["7", "--attempt", "7"], &["a b"], &["7", "--samples", "20001"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
