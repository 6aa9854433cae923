//! `plimsoll run`: measure a command.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use nix::unistd::geteuid;
use plimsoll_proto::limits;

use super::{
    DEFAULT_SERVER, KeyArgs, TrustArgs,
    output::{PhaseArgs, ReportArgs},
};
use crate::{
    delivery,
    key::{Job, is_id_char},
    quantity, run,
};

/// Run a command and measure it.
///
/// The command gets all signals, and its exit status is passed through, whatever becomes of the measurements.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: that of the command; 128 + n if signal n ended it; 127 not found, 126 cannot be executed; \
2 wrong usage."
)]
pub(super) struct RunArgs {
    /// Address of the server; `none` measures only.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// Limit the memory of the command, for example 2GiB.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    limit_memory: Option<u64>,
    /// Memory that was requested for the command, if the environment does not say so.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    request_memory: Option<u64>,
    /// Id of the attempt [default: the CI job's id, else a new one].
    #[arg(long, value_name = "ID", value_parser = attempt_id)]
    attempt: Option<String>,
    /// Number of the attempt: 1 for the first execution.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    /// Id of the attempt that this one retries.
    #[arg(long, value_name = "ID", value_parser = attempt_id)]
    retries: Option<String>,
    /// Time between two samples; the first seconds are sampled faster.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Directory for samples that the server does not have yet [default: ~/.local/state/plimsoll/spool].
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_SPOOL_DIR")]
    spool_dir: Option<PathBuf>,
    /// Bytes that this directory may hold.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::bytes)]
    spool_max: u64,
    /// How long to wait for the server at the end.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    patience: Duration,
    #[command(flatten)]
    phases: PhaseArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunArgs {
    /// What `run` needs to know.
    pub(super) fn settings(self, job: &Job) -> Result<run::Settings, String> {
        let mut asked = job.asked;
        asked.memory_request_bytes = self.request_memory.or(asked.memory_request_bytes);
        Ok(run::Settings {
            marks: self.phases.marks(job)?,
            report: self.report.settings(job)?,
            key: job.key_for(&self.command, &self.key.keys)?,
            command: self.command,
            attempt: self.attempt.or_else(|| job.attempt.clone()),
            number: self.number,
            retries: self.retries.unwrap_or_default(),
            asked,
            limit_memory: self.limit_memory,
            interval: self.interval,
            delivery: delivery::Settings {
                server: Some(self.server).filter(|server| !server.is_empty() && server != "none"),
                ca: self.trust.ca().map(Path::to_owned),
                spool_dir: self.spool_dir.unwrap_or_else(|| spool_dir(job)),
                spool_bytes: self.spool_max,
            },
            patience: self.patience,
        })
    }
}

fn spool_dir(job: &Job) -> PathBuf {
    match &job.state_dir {
        Some(state) => PathBuf::from(state).join("plimsoll/spool"),
        None => PathBuf::from(format!("/tmp/plimsoll-{}", geteuid())),
    }
}

/// An attempt's id as the wire takes it.
pub(super) fn attempt_id(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > limits::ATTEMPT_BYTES || !text.chars().all(is_id_char) {
        return Err(format!("expected 1 to {} of A-Z a-z 0-9 . _ : / -", limits::ATTEMPT_BYTES));
    }
    Ok(text.to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(10)..=Duration::from_hours(1);
    if range.contains(&interval) { Ok(interval) } else { Err("expected 10ms to 1h".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn settings(words: &[&str], variables: &[(&str, &str)]) -> Result<run::Settings, String> {
        let line = ["plimsoll", "run"].iter().chain(words);
        let job = Job::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Run(args) => args.settings(&job),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_shortest_line_measures_with_defaults() {
        let settings = settings(&["--server", "http://x:1", "--", "make", "-j4"], &[("HOME", "/h")]).unwrap();
        assert_eq!(settings.command, ["make", "-j4"]);
        assert_eq!((settings.key.package.as_str(), settings.number, settings.attempt), ("make", 1, None));
        assert_eq!((settings.interval, settings.patience), (Duration::from_secs(1), Duration::from_secs(5)));
        let delivery = settings.delivery;
        assert_eq!((delivery.server.as_deref(), delivery.spool_bytes), (Some("http://x:1"), 64 << 20));
        assert_eq!(delivery.spool_dir, PathBuf::from("/h/.local/state/plimsoll/spool"));
    }

    #[test]
    fn the_line_wins_over_the_environment() {
        let variables = [("CI_JOB_ID", "7"), ("KUBERNETES_MEMORY_REQUEST", "1Gi"), ("XDG_STATE_HOME", "/s")];
        let line = [
            "--attempt",
            "mine/1",
            "--request-memory",
            "2GiB",
            "--limit-memory",
            "3G",
            "--number",
            "2",
            "--retries",
            "mine/0",
            "--server",
            "none",
            "--spool-dir",
            "/d",
            "--key",
            "package=zlib",
            "--",
            "true",
        ];
        let settings = settings(&line, &variables).unwrap();
        assert_eq!((settings.attempt.as_deref(), settings.retries.as_str()), (Some("mine/1"), "mine/0"));
        assert_eq!(
            (settings.asked.memory_request_bytes, settings.limit_memory),
            (Some(2 << 30), Some(3_000_000_000))
        );
        assert_eq!((settings.delivery.server, settings.key.package.as_str()), (None, "zlib"));
    }

    #[test]
    fn a_job_of_ci_is_its_own_attempt() {
        let settings =
            settings(&["--", "true"], &[("CI_JOB_ID", "7"), ("CI_SERVER_HOST", "gitlab.com")]).unwrap();
        assert_eq!(settings.attempt.as_deref(), Some("gitlab.com:7"));
        assert!(settings.delivery.spool_dir.starts_with("/tmp"));
    }

    #[test]
    fn wrong_usage_is_refused_before_the_command_starts() {
        for (line, expected) in [
            (vec!["make"], "unexpected argument"),
            (vec!["--"], "required"),
            (vec!["--attempt", "a b", "--", "x"], "expected 1 to 128"),
            (vec!["--interval", "0s", "--", "x"], "expected 10ms to 1h"),
            (vec!["--limit-memory", "lots", "--", "x"], "is not a size"),
            (vec!["--number", "0", "--", "x"], "0 is not in"),
            (vec!["--key", "pkg=x", "--", "x"], "names are: project"),
        ] {
            let error = settings(&line, &[]).unwrap_err();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
    }
}
