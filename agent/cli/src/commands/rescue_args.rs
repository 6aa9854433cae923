//! Options for rescue: what the agent may do for a build that comes near its memory limit.

use std::time::Duration;

use clap::{Args, ValueEnum};
use plimsoll_measure::{clock, rescue::RescueSettings};
use tokio::time::Instant;

use crate::key::CiJob;

/// What rescue may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RescueMode {
    /// Report once when processes would have been paused.
    Watch,
    /// End a build that hangs at its memory limit: starved, with nothing killed and nothing done for 20 s.
    End,
    /// Pause compilers near the memory limit, until the others have room; never more than a part of the build's time.
    Pause,
}

/// Options for a build near its memory limit.
#[derive(Debug, Args)]
pub(super) struct RescueArgs {
    /// What to do for a build near its memory limit; several words are separated by commas. Without it, nothing is.
    #[arg(long, value_name = "WORDS", env = "PLIMSOLL_RESCUE", value_enum, value_delimiter = ',')]
    rescue: Vec<RescueMode>,
    /// Names of further programs that may be paused, besides compilers and linkers; separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = program)]
    rescue_programs: Vec<String>,
    /// Longest pause of one process; 1s to 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = pause)]
    rescue_most: Duration,
}

impl RescueArgs {
    /// What rescue may do in this job.
    pub(super) fn settings(&self, job: &CiJob) -> RescueSettings {
        let left = job.ends_unix_ms.map(|end| Duration::from_millis(end.saturating_sub(clock::unix_ms())));
        let has = |mode| self.rescue.contains(&mode);
        RescueSettings {
            watch: has(RescueMode::Watch),
            end: has(RescueMode::End),
            pause: has(RescueMode::Pause),
            programs: self.rescue_programs.clone(),
            most: self.rescue_most,
            ends_at: left.and_then(|left| Instant::now().checked_add(left)),
        }
    }
}

fn program(text: &str) -> Result<String, String> {
    let is_name =
        !text.is_empty() && text.len() <= 255 && !text.contains('/') && !text.chars().any(char::is_control);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a program, without a folder".to_owned())
    }
}

fn pause(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_secs(1)..=Duration::from_hours(1);
    if range.contains(&time) { Ok(time) } else { Err("expected 1s to 1h".to_owned()) }
}
