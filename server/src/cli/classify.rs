//! `plimsoll-server classify FILE`: one verdict for each recorded failure, without a server.
//!
//! A recorded failure is a line of JSON with any of the fields of [`failure::Failure`]. The verdict stands on what the line
//! says, its secrets masked as a server masks them, and on nothing else: no history, a budget that is not touched yet.

mod failure;
mod lines;
mod shortened;

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write, stdin, stdout},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use failure::Failure;
use lines::{Line, Lines};
use plimsoll_proto::figures::{count, counted};
use serde::Serialize;

use crate::{
    config::Config,
    domain::{Action, Cause, Cost, EvidenceLine, History, Prediction},
    judging, mask,
    retry::{self, Known, Rules, Seen},
};

/// Judges recorded failures.
#[derive(Debug, Args)]
pub struct Classify {
    /// JSON lines, plain or gzip; - reads standard input. Fields, all optional: `id`, `exit`, `signal`, `oom_kill`,
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

/// The answer to one line.
#[derive(Debug, Serialize)]
struct Judged<'a> {
    id: &'a str,
    /// `none` if it did not fail.
    cause: &'static str,
    verdict: Action,
    confidence: f64,
    evidence: &'a [EvidenceLine],
    reason: &'a str,
    /// Attempts that the budget still allows after this one.
    attempts_left: u32,
    /// What the next attempt should ask for, and what it costs; neither without a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    /// How long to wait before it, and the memory time that is saved by waiting.
    wait_ms: u64,
    waiting_saves_gib_h: f64,
    /// What would mend it, if a retry cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'a str>,
    /// Equal for failures that are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a str>,
}

/// The numbers of the next allocation, without their reasons.
#[derive(Debug, Serialize)]
struct Next {
    memory_request_bytes: u64,
    memory_limit_bytes: u64,
    cpu_request_millicores: u64,
    cpu_limit_millicores: u64,
    build_jobs: u64,
    wall_p50_ms: u64,
    wall_p95_ms: u64,
}

impl Next {
    fn of(next: &Prediction) -> Self {
        Self {
            memory_request_bytes: next.memory_request.value,
            memory_limit_bytes: next.memory_limit.value,
            cpu_request_millicores: next.cpu_request.value,
            cpu_limit_millicores: next.cpu_limit.value,
            build_jobs: next.build_jobs.value,
            wall_p50_ms: next.wall_p50.value,
            wall_p95_ms: next.wall_p95.value,
        }
    }
}

/// A line that cannot be judged.
#[derive(Debug, Serialize)]
struct Unread<'a> {
    line: u64,
    error: &'a str,
}

impl Classify {
    /// Judges every line of the file.
    ///
    /// # Errors
    /// The file cannot be read, or lines of it were no recorded failures: the others are judged all the same.
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
            Some(dir) => judging::rules(dir)?,
            None => Rules::built_in(),
        };
        let lines = Lines::open(file).with_context(|| format!("{name} cannot be read"))?;
        for line in lines {
            let Line { number, failure } =
                line.with_context(|| format!("{name} cannot be read any further"))?;
            let written = match failure {
                Ok(failure) => {
                    judged += 1;
                    self.judge(failure, &rules, config, &mut out)
                }
                Err(error) => {
                    unread += 1;
                    self.complain(&Unread { line: number, error: &error }, &mut out)
                }
            };
            match written {
                // whoever reads has seen enough
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

    fn judge(
        &self,
        failure: Failure,
        rules: &Rules,
        config: &Config,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let id = failure.id().to_owned();
        let evidence = mask::evidence(failure.evidence(self.log_only));
        let finding = retry::classify(&evidence, rules);
        let known = Known {
            history: &History::new(1),
            seen: &Seen::new(1),
            settings: &config.predict,
            policy: &config.retry,
        };
        let cause = finding.cause.map_or("none", Cause::as_str);
        let verdict = retry::judge(&evidence, finding, &known);
        let judged = Judged {
            id: &id,
            cause,
            verdict: verdict.action,
            confidence: verdict.confidence,
            evidence: &verdict.evidence,
            reason: &verdict.reason,
            attempts_left: verdict.attempts_left,
            next: verdict.next.as_ref().map(Next::of),
            cost: verdict.outlook.cost,
            wait_ms: verdict.outlook.wait.0,
            waiting_saves_gib_h: verdict.outlook.waiting_saves_gib_h,
            mend: verdict.outlook.mend.as_deref(),
            signature: verdict.outlook.signature.as_ref().map(|signature| signature.id.as_str()),
        };
        match self.output {
            Format::Json => write_json(&judged, out),
            Format::Text => {
                let Judged { id, cause, confidence, reason, .. } = judged;
                let action = verdict.action.as_str();
                writeln!(out, "{id}  {cause}  {action}  {:.0} %  {reason}", confidence * 100.0)
            }
        }
    }

    fn complain(&self, unread: &Unread<'_>, out: &mut impl Write) -> io::Result<()> {
        match self.output {
            Format::Json => write_json(unread, out),
            Format::Text => {
                super::note(format_args!("line {}: {}", unread.line, unread.error));
                Ok(())
            }
        }
    }
}

fn write_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
