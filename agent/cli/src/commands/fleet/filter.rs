//! Options that select attempts.

use std::collections::HashMap;

use clap::{Args, ValueEnum};
use plimsoll_client::questions::QuestionFailure;
use plimsoll_proto::{
    WireEnum as _,
    evidence::cause_words,
    v1::{Cause, Filter, Outcome},
};

use super::time::{TimeArg, parse_moment};

/// Most labels in a filter; the wire allows no more.
const MAX_LABELS: usize = 8;

/// Options that select attempts. An attempt must match all of them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Which attempts")]
pub(super) struct FilterArgs {
    /// Only this project.
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only this stack.
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// Only this package.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Only this version.
    #[arg(long = "version", value_name = "NAME")]
    package_version: Option<String>,
    /// Only this compiler.
    #[arg(long, value_name = "NAME")]
    compiler: Option<String>,
    /// Only this architecture.
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Only what ran in this pool.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Only refs of this class, as the server's settings define them.
    #[arg(long, value_name = "NAME")]
    ref_class: Option<String>,
    /// Only this owner.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Only with this label; several times: with all of them.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// Only what ended so.
    #[arg(long, value_enum)]
    outcome: Option<OutcomeArg>,
    /// Only what failed for this cause, for example oom or `disk_full`.
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    cause: Option<Cause>,
    /// Only what ended at or after: so long before now, as 7d, or a time in UTC, as 2026-11-14 [default: the beginning].
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<TimeArg>,
    /// Only what ended before [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<TimeArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OutcomeArg {
    Succeeded,
    /// Without what was canceled.
    Failed,
    Lost,
    /// Its exit status is not known.
    Ended,
    Canceled,
}

impl FilterArgs {
    /// The filter as a message of the wire.
    /// Errors: the period is empty, or a label is given twice.
    pub(super) fn filter(&self, now_unix_ms: u64) -> Result<Filter, QuestionFailure> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let outcome = match self.outcome {
            None => Outcome::Unspecified,
            Some(OutcomeArg::Succeeded) => Outcome::Succeeded,
            // the wire has no outcome for canceled attempts: they have failed, with the cause `canceled`
            Some(OutcomeArg::Failed | OutcomeArg::Canceled) => Outcome::Failed,
            Some(OutcomeArg::Lost) => Outcome::Lost,
            Some(OutcomeArg::Ended) => Outcome::Ended,
        };
        let (from_unix_ms, to_unix_ms) = time_range(self.since, self.until, now_unix_ms)?;
        Ok(Filter {
            project: text(&self.project),
            stack: text(&self.stack),
            package: text(&self.package),
            version: text(&self.package_version),
            compiler: text(&self.compiler),
            arch: text(&self.arch),
            pool: text(&self.pool),
            ref_class: text(&self.ref_class),
            owner: text(&self.owner),
            labels: self.labels()?,
            outcome: outcome.into(),
            cause: self.cause()?.into(),
            from_unix_ms,
            to_unix_ms,
            signature: String::new(),
        })
    }

    fn cause(&self) -> Result<Cause, QuestionFailure> {
        match (self.outcome, self.cause) {
            (Some(OutcomeArg::Canceled), None | Some(Cause::Canceled)) => Ok(Cause::Canceled),
            (Some(OutcomeArg::Canceled), Some(_)) => {
                Err(QuestionFailure::Question("--outcome canceled goes with no other --cause".to_owned()))
            }
            (_, cause) => Ok(cause.unwrap_or_default()),
        }
    }

    fn labels(&self) -> Result<HashMap<String, String>, QuestionFailure> {
        if self.labels.len() > MAX_LABELS {
            return Err(QuestionFailure::Question(format!("--label may be given {MAX_LABELS} times")));
        }
        let labels: HashMap<String, String> = self.labels.iter().cloned().collect();
        if labels.len() < self.labels.len() {
            return Err(QuestionFailure::Question(
                "--label: an attempt has one value for each name".to_owned(),
            ));
        }
        Ok(labels)
    }
}

/// The start and the end of the period, in milliseconds since 1970; the end must be later than the start.
pub(super) fn time_range(
    since: Option<TimeArg>,
    until: Option<TimeArg>,
    now_unix_ms: u64,
) -> Result<(Option<u64>, Option<u64>), QuestionFailure> {
    let (from, to) = (since.map(|m| m.unix_ms(now_unix_ms)), until.map(|m| m.unix_ms(now_unix_ms)));
    if from.is_some_and(|from| from > now_unix_ms) {
        return Err(QuestionFailure::Question(
            "--since is in the future: nothing has ended there yet".to_owned(),
        ));
    }
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(QuestionFailure::Question(
            "--since is not before --until: there is no time between them".to_owned(),
        ));
    }
    Ok((from, to))
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() || value.is_empty() {
        return Err("expected a name before the = and a value behind it".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a cause; the error lists all causes.
pub(in crate::commands) fn cause(text: &str) -> Result<Cause, String> {
    let asked = text.to_ascii_lowercase().replace([' ', '-'], "_");
    let is_meant =
        |cause: &Cause| cause.word() == asked || cause_words(*cause).eq_ignore_ascii_case(text.trim());
    Cause::all().find(is_meant).ok_or_else(|| {
        let known = Cause::all().map(|cause| {
            let (word, shown) = (cause.word(), cause_words(cause));
            if word.replace('_', " ") == shown { word } else { format!("{word} ({shown})") }
        });
        format!("is none of {}", known.collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct TestArgs {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn filter(words: &[&str]) -> Result<Filter, String> {
        let line = TestArgs::try_parse_from([&["x"], words].concat()).map_err(|error| error.to_string())?;
        line.filter.filter(1_763_715_907_000).map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_part_of_a_filter_has_an_option() {
        let words = "--project a --stack b --package c --version d --compiler e --arch f --pool g --ref-class h --owner i \
                     --label j=k=l --label m=n --outcome lost --cause disk-full --since 2d --until 2025-11-21";
        let labels = [("j", "k=l"), ("m", "n")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let text = |text: &str| text.to_owned();
        let expected = Filter {
            project: text("a"),
            stack: text("b"),
            package: text("c"),
            version: text("d"),
            compiler: text("e"),
            arch: text("f"),
            pool: text("g"),
            ref_class: text("h"),
            owner: text("i"),
            labels,
            outcome: Outcome::Lost.into(),
            cause: Cause::DiskFull.into(),
            from_unix_ms: Some(1_763_715_907_000 - 2 * 86_400_000),
            to_unix_ms: Some(1_763_683_200_000),
            signature: String::new(),
        };
        assert_eq!(filter(&words.split_whitespace().collect::<Vec<_>>()), Ok(expected));
        assert_eq!(filter(&[]), Ok(Filter::default()));
        let canceled = filter(&["--outcome", "canceled"]).unwrap();
        assert_eq!((canceled.outcome(), canceled.cause()), (Outcome::Failed, Cause::Canceled));
    }

    #[test]
    fn contradictory_filters_are_refused_with_a_remedy() {
        for (words, message) in [
            ("--since 2099-01-01", "in the future"),
            ("--since 1d --until 2d", "not before --until"),
            ("--label team", "NAME=VALUE"),
            ("--label =x", "a name before"),
            ("--label x=", "a value behind"),
            ("--label a=1 --label a=2", "one value"),
            ("--cause boredom", "oom (out of memory), starved"),
            ("--since soon", "as 7d"),
            ("--outcome canceled --cause oom", "no other --cause"),
        ] {
            let error = filter(&words.split_whitespace().collect::<Vec<_>>()).unwrap_err();
            assert!(error.contains(message), "{words}: {error}");
        }
        let many: Vec<String> = (0..9).map(|n| format!("--label=l{n}=x")).collect();
        let error = filter(&many.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_err();
        assert!(error.contains("8 times"), "{error}");
    }
}
