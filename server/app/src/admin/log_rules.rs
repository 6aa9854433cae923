//! `plimsoll-server rules explain LOG` and `rules check DIR`: explains the classification of a log, and checks rule files.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _, stdin, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use plimsoll_base::log_excerpt::LogExcerpt;
use plimsoll_core::{
    domain::{AttemptId, Evidence, LogPlace},
    mask,
    retry::{FiredRule, LogExplanation, LogRules, RuleRecord, check_files, explain},
};
use plimsoll_proto::{figures, limits, reasons, shown::clean};
use serde::{Deserialize, Serialize};

use super::{Output, line::examples_text, print_note, terminal::wrapped_except_tables};
use crate::{causes, runtime::settings::Config};

#[derive(Debug, Args)]
#[command(after_help = examples_text(&["rules explain - --output json", "rules explain build.log --stats stats.json --project a/b"]))]
pub(super) struct Explain {
    /// A log, plain, gzip or zstd; - reads standard input. Of a long one, its errors and its end are read, as for a verdict.
    log: PathBuf,
    /// What the server has learnt: the output of `plimsoll stats --output json`. Rules that have lost their say do not count.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// With --stats: the project of the build.
    #[arg(long, default_value = "", hide_default_value = true, requires = "stats")]
    project: String,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = examples_text(&["rules check /etc/plimsoll/rules"]))]
pub(super) struct Check {
    /// A directory as --rules-dir names it [default: that of --rules-dir].
    dir: Option<PathBuf>,
}

/// The explanation as JSON, for programs.
#[derive(Debug, Serialize)]
struct ExplainAnswer<'a> {
    cause: &'static str,
    confidence: f64,
    last_words: Option<&'a str>,
    rules: Vec<RuleAnswer<'a>>,
}

#[derive(Debug, Serialize)]
struct RuleAnswer<'a> {
    rule: &'a str,
    cause: &'static str,
    weak: bool,
    decides: bool,
    why: &'a str,
    count: usize,
    lines: Vec<LineAnswer<'a>>,
}

#[derive(Debug, Serialize)]
struct LineAnswer<'a> {
    /// `null` where only an excerpt of the log was read.
    number: Option<u32>,
    from_end: Option<bool>,
    line: &'a str,
}

/// The part of a server's statistics that says which rules do not count.
#[derive(Debug, Default, Deserialize)]
struct LearntRules {
    #[serde(default)]
    silenced: Vec<LearntRule>,
}

#[derive(Debug, Deserialize)]
struct LearntRule {
    rule: String,
    #[serde(default)]
    project: String,
    wrong: u32,
    cases: u32,
}

impl LearntRules {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = || format!("{} is no output of plimsoll stats --output json", path.display());
        serde_json::from_str(&fs::read_to_string(path).with_context(shown)?).with_context(shown)
    }

    /// The record of a rule in a project, else the one in projects without cases of their own.
    fn record(&self, rule: &str, project: &str) -> RuleRecord {
        let of =
            |project: &str| self.silenced.iter().find(|known| known.rule == rule && known.project == project);
        of(project).or_else(|| of("")).map_or_else(RuleRecord::default, |known| RuleRecord {
            right: known.cases.saturating_sub(known.wrong),
            wrong: known.wrong,
        })
    }
}

impl Explain {
    /// Errors: the log cannot be read, or the rules of the settings are wrong.
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let rules = match &config.rules_dir {
            Some(dir) => causes::read_rules(dir)?,
            None => LogRules::built_in(),
        };
        let log = excerpt_of(&self.log).with_context(|| format!("{} cannot be read", self.log.display()))?;
        let log_tail = String::from_utf8_lossy(&log).into_owned();
        // secrets are masked as the server masks them
        let evidence = mask::evidence(Evidence { log_tail, ..Evidence::about(AttemptId::unnamed()) });
        let learnt = self.stats.as_deref().map(LearntRules::read).transpose()?.unwrap_or_default();
        let explained = explain(&evidence.log_tail, &rules, &|rule| learnt.record(rule, &self.project));
        let text = match self.output {
            Output::Text => wrapped_except_tables(&explanation_text(&explained), stdout()),
            Output::Json => serde_json::to_string(&explain_answer(&explained))? + "\n",
        };
        stdout().write_all(text.as_bytes()).context("standard output")
    }
}

impl Check {
    /// Errors: the directory cannot be read, or a rule is wrong: each mistake is a line of the result.
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let dir = self.dir.as_deref().or(config.rules_dir.as_deref());
        let dir = dir.context("name a directory, or set rules_dir")?;
        let report = check_files(&causes::rule_files(dir)?);
        report.notes.iter().map(|text| clean(text)).for_each(print_note);
        let mut out = stdout().lock();
        for wrong in &report.errors {
            writeln!(out, "{}", clean(wrong)).context("standard output")?;
        }
        if report.errors.is_empty() {
            print_note(format_args!("{} and no mistake", figures::counted(report.rule_count as u64, "rule")));
            return Ok(());
        }
        bail!("{}: {}", dir.display(), figures::counted(report.errors.len() as u64, "mistake"))
    }
}

/// The excerpt of a file or stream that a verdict would read.
fn excerpt_of(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        excerpt_of_stream(stdin().lock())
    } else {
        excerpt_of_stream(File::open(path)?)
    }
}

fn excerpt_of_stream(from: impl Read) -> io::Result<Vec<u8>> {
    let mut excerpt = LogExcerpt::new(limits::LOG_TAIL_BYTES, 0);
    excerpt.read_all(from)?;
    Ok(excerpt.finish(<[u8]>::to_vec))
}

fn line_number(at: LogPlace) -> (u32, bool) {
    match at {
        LogPlace::FromStart(number) => (number, false),
        LogPlace::FromEnd(number) => (number, true),
    }
}

fn explanation_text(explained: &LogExplanation) -> String {
    let sure = figures::percent(explained.confidence);
    let mut lines = vec![format!("cause: {} ({sure} sure)", explained.cause.as_str())];
    if explained.rules.is_empty() {
        lines.push("no rule knows a line of the log".to_owned());
        lines.extend(explained.last_words.iter().map(|words| format!("its last error: {}", clean(words))));
    }
    for fired in &explained.rules {
        let FiredRule { rule, cause, weak, decides, why, .. } = fired;
        let mark = if *decides { "decides" } else { "   -   " };
        let weak = if *weak { ", weak" } else { "" };
        lines.push(format!("{mark}  {} ({}{weak}): {why}", clean(rule), cause.as_str()));
        for (at, line) in &fired.lines {
            let place = at.and_then(|at| {
                let (number, from_end) = line_number(at);
                reasons::line_place(number, from_end)
            });
            lines.push(format!(
                "           {}: {}",
                place.as_deref().unwrap_or("far above the end"),
                clean(line)
            ));
        }
        let more = fired.count.saturating_sub(fired.lines.len());
        if more > 0 {
            lines.push(format!("           and {}", figures::counted(more as u64, "more line")));
        }
    }
    lines.join("\n") + "\n"
}

fn explain_answer(explained: &LogExplanation) -> ExplainAnswer<'_> {
    fn line((at, line): &(Option<LogPlace>, String)) -> LineAnswer<'_> {
        let (number, from_end) = at.map(line_number).unzip();
        LineAnswer { number, from_end, line }
    }
    fn rule(fired: &FiredRule) -> RuleAnswer<'_> {
        let FiredRule { rule, cause, weak, decides, why, lines, count } = fired;
        let (cause, lines) = (cause.as_str(), lines.iter().map(line).collect());
        RuleAnswer { rule, cause, weak: *weak, decides: *decides, why, count: *count, lines }
    }
    ExplainAnswer {
        cause: explained.cause.as_str(),
        confidence: explained.confidence,
        last_words: explained.last_words.as_deref(),
        rules: explained.rules.iter().map(rule).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_excerpt_keeps_errors_and_the_end() {
        let long = b"error: first\n".chain(io::repeat(b'x').take(10 << 20)).chain(&b"\nthe end"[..]);
        let held = excerpt_of_stream(long).unwrap();
        assert!(held.len() <= limits::LOG_TAIL_BYTES && held.ends_with(b"x\nthe end"));
        assert!(String::from_utf8_lossy(&held).contains("\nerror: first\n"));
        assert_eq!(excerpt_of_stream(&b"short"[..]).unwrap(), b"short");
    }
}
