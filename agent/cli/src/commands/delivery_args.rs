//! Options common to all commands that measure: the key, the interval, the server.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use nix::unistd::geteuid;
use plimsoll_base::quantity;
use plimsoll_client::delivery;
use plimsoll_proto::{job::is_id_char, limits, v1::Resources};

use super::{DEFAULT_SERVER, KeyArgs, TrustArgs, rescue_args::RescueArgs};
use crate::{attempt, job_summary, key::CiJob};

/// Options for the attempt: its id, its key, how it is measured, and where its samples are sent.
#[derive(Debug, Args)]
pub(super) struct DeliveryArgs {
    /// Address of the server, or of several servers over one store, separated by commas; `none` measures without one.
    ///
    /// Of several, the one that serves is found in the background, and kept until it fails. The build never waits for it; the end waits no
    /// longer than `--patience`, whatever addresses are dead or do not answer.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    key: KeyArgs,
    /// Memory that was requested for the build, if the environment does not say so.
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    request_memory: Option<u64>,
    /// Id of the attempt [default: the CI job's id, else a new one].
    #[arg(long, value_name = "ID", value_parser = attempt_id)]
    attempt: Option<String>,
    /// Number of the attempt: 1 for the first execution [default: what the CI system says, else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    number: Option<u32>,
    /// Id of the attempt that this one retries.
    #[arg(long, value_name = "ID", value_parser = attempt_id)]
    retries: Option<String>,
    /// Pool that this builder belongs to [default: by the tags of GitLab's runner].
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_POOL", value_parser = pool)]
    pool: Option<String>,
    /// ID of the ticket granted for this build. Its place is freed when the build, with its retries in place, has ended.
    #[arg(long, value_name = "ID", env = "PLIMSOLL_TICKET", value_parser = attempt_id)]
    ticket: Option<String>,
    /// Time between two samples; the first seconds are sampled faster.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    #[command(flatten)]
    rescue: RescueArgs,
    #[command(flatten)]
    spool: SpoolArgs,
    /// Longest wait at the end for the server, and for the reader of the report; at most 1h.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_patience)]
    patience: Duration,
}

/// Options for the directory where samples wait until the server has them.
#[derive(Debug, Args)]
pub(super) struct SpoolArgs {
    /// Directory for samples that are not delivered yet [default: ~/.local/state/plimsoll/spool].
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_SPOOL_DIR")]
    spool_dir: Option<PathBuf>,
    /// Largest size of this directory.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::bytes)]
    spool_max: u64,
}

impl SpoolArgs {
    /// The spool directory, and the limit for the bytes of all files in it together.
    pub(super) fn directory_and_bound(&self, job: &CiJob) -> (PathBuf, u64) {
        (self.spool_dir.clone().unwrap_or_else(|| spool_dir(job)), self.spool_max)
    }
}

impl DeliveryArgs {
    /// The settings that `run` and `attach` share. `command` gives the build a name if the key has no package.
    pub(super) fn settings(
        self,
        job: &CiJob,
        command: &[OsString],
        report: job_summary::Settings,
    ) -> Result<attempt::Settings, String> {
        let (key, mut notes) = job.named_key(command, &self.key.keys)?;
        notes.extend(job.foreign_note());
        let notes = notes.iter().map(|note| job.secrets.mask_text(note)).collect();
        Ok(attempt::Settings {
            key,
            notes,
            is_foreign: job.is_foreign,
            asked: self.asked(job),
            delivery: self.delivery(job),
            id: self.attempt.or_else(|| job.attempt.clone()),
            number: self.number.or(job.number).unwrap_or(1),
            retries: self.retries.unwrap_or_default(),
            pool: self.pool.unwrap_or_default(),
            ticket: self.ticket.unwrap_or_default(),
            runner_tags: job.runner_tags.clone(),
            rescue: self.rescue.settings(job),
            interval: self.interval,
            patience: self.patience,
            report,
        })
    }

    /// Whether the command line names the attempt, so that it does not have the id of its CI job.
    pub(super) fn names_its_attempt(&self) -> bool {
        self.attempt.is_some()
    }

    /// The settings for sending samples to the server.
    fn delivery(&self, job: &CiJob) -> delivery::Settings {
        let server = named_server(&self.server);
        let (spool_dir, spool_bytes) = self.spool.directory_and_bound(job);
        delivery::Settings { trust: self.trust.trust_for(server.as_deref()), server, spool_dir, spool_bytes }
    }

    /// Requested resources: from the options, else from the CI job.
    fn asked(&self, job: &CiJob) -> Resources {
        let memory_request_bytes = self.request_memory.or(job.asked.memory_request_bytes);
        Resources { memory_request_bytes, ..job.asked }
    }
}

/// The address of the server; `None` if it is empty or `none`.
pub(super) fn named_server(server: &str) -> Option<String> {
    Some(server.to_owned()).filter(|server| !server.is_empty() && server != "none")
}

fn spool_dir(job: &CiJob) -> PathBuf {
    match &job.state_dir {
        Some(state) => PathBuf::from(state).join("plimsoll/spool"),
        None => PathBuf::from(format!("/tmp/plimsoll-{}", geteuid())),
    }
}

/// Checks that an attempt's id is valid on the wire.
pub(super) fn attempt_id(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > limits::ATTEMPT_BYTES || !text.chars().all(is_id_char) {
        return Err(format!("expected 1 to {} of A-Z a-z 0-9 . _ : / -", limits::ATTEMPT_BYTES));
    }
    Ok(text.to_owned())
}

/// Checks that a pool's name is valid on the server.
pub(super) fn pool(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty() || text.len() > 63 || !text.chars().all(fits) {
        return Err("expected 1 to 63 of A-Z a-z 0-9 . _ -".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(10)..=Duration::from_hours(1);
    if range.contains(&interval) { Ok(interval) } else { Err("expected 10ms to 1h".to_owned()) }
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    let patience = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if patience <= Duration::from_hours(1) { Ok(patience) } else { Err("expected 0s to 1h".to_owned()) }
}
