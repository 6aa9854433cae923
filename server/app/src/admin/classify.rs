//! `plimsoll-server classify FILE`: one verdict for each recorded failure, without a server.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write, stdin, stdout},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use plimsoll_core::retry::LogRules;
use plimsoll_lab::classify::{ClassifyTerms, InputLine, InputLines, JudgedLine, UnreadableLine, judge};
use plimsoll_proto::{
    figures::{count, counted},
    shown::clean,
};
use serde::Serialize;

use super::{line::examples_text, terminal::wrapped_for};
use crate::{causes, runtime::settings::Config};

/// Judges recorded failures.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["classify failures.jsonl"]))]
pub struct Classify {
    /// JSON lines, plain, gzip or zstd; - reads standard input. Fields, all optional: `id`, `exit`, `signal`, `oom_kill`,
    /// `mem_limit`, `mem_failcnt`, `peak_bytes`, `peak_rss`, `wall_s`, `timeout_s`, `container_reason`, `pod_reason`,
    /// `failure_reason`, `log_tail`.
    file: PathBuf,
    /// How each verdict is written.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
    /// Looks at exit code, signal and log alone.
    #[arg(long)]
    log_only: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A line for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Classify {
    /// Judges every line of the file.
    /// Errors: the file cannot be read, or some lines are not recorded failures: the others are judged all the same.
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let name = self.file.display().to_string();
        let file: Box<dyn Read> = if name == "-" {
            Box::new(stdin().lock())
        } else {
            Box::new(File::open(&self.file).with_context(|| format!("{name} cannot be opened"))?)
        };
        let mut out = BufWriter::new(stdout().lock());
        let (mut judged, mut unread) = (0_u64, 0_u64);
        let rules = match &config.rules_dir {
            Some(dir) => causes::read_rules(dir)?,
            None => LogRules::built_in(),
        };
        let (predict, retry) = (&config.predict, &config.retry);
        let terms = ClassifyTerms { rules: &rules, predict, retry, log_only: self.log_only };
        let lines = InputLines::open(file).with_context(|| format!("{name} cannot be read"))?;
        for line in lines {
            let InputLine { number, failure } =
                line.with_context(|| format!("{name} cannot be read any further"))?;
            let written = match failure {
                Ok(failure) => {
                    judged += 1;
                    self.write_verdict(&judge(failure, &terms), &mut out)
                }
                Err(error) => {
                    unread += 1;
                    self.write_unreadable(&UnreadableLine { line: number, error: &error }, &mut out)
                }
            };
            match written {
                // the reader has closed the pipe, as `head` does
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.context("the verdicts cannot be written")?,
            }
        }
        out.flush().context("the verdicts cannot be written")?;
        if unread > 0 {
            bail!(
                "{} of {name} cannot be read as a recorded failure; {} judged",
                counted(unread, "line"),
                count(judged)
            );
        }
        Ok(())
    }

    fn write_verdict(&self, judged: &JudgedLine, out: &mut impl Write) -> io::Result<()> {
        match self.output {
            Format::Json => write_json(judged, out),
            Format::Text => {
                let JudgedLine { id, cause, verdict, confidence, reason, root, .. } = judged;
                let action = verdict.as_str();
                let line = format!("{id}  {cause}  {action}  {:.0} %  {reason}\n", confidence * 100.0);
                out.write_all(wrapped_for(&line, stdout()).as_bytes())?;
                let Some(root) = root else { return Ok(()) };
                out.write_all(
                    wrapped_for(&format!("    began with: {}\n", clean(&root.in_words())), stdout())
                        .as_bytes(),
                )
            }
        }
    }

    fn write_unreadable(&self, unread: &UnreadableLine<'_>, out: &mut impl Write) -> io::Result<()> {
        match self.output {
            Format::Json => write_json(unread, out),
            Format::Text => {
                super::print_note(format_args!("line {}: {}", unread.line, unread.error));
                Ok(())
            }
        }
    }
}

fn write_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
