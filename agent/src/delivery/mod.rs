//! Keeps what was measured until the server has acknowledged it.

use std::{path::PathBuf, time::Duration};

use plimsoll_proto::v1::{Exit, Hello, Sample, Totals};

/// Where samples go, and how much of them is kept meanwhile.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the server, for example `http://127.0.0.1:7410`; `None` measures only.
    pub server: Option<String>,
    /// Directory for what the server has not acknowledged yet.
    pub spool_dir: PathBuf,
    /// Bytes that all spool files together may take.
    pub spool_bytes: u64,
}

/// The way of one attempt's samples to the server. Never blocks the build, never fails it.
#[derive(Debug)]
pub struct Delivery;

/// What became of the samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything, the end included, is on the server's disk.
    pub delivered: bool,
    /// Samples that had to be dropped.
    pub lost: u64,
    /// Where the rest waits for the next run, if it does.
    pub kept: Option<PathBuf>,
    /// What stood in the way, in words for the person who reads the job's log.
    pub problem: Option<String>,
}

impl Delivery {
    /// Opens the spool of one attempt and begins to send in the background, what earlier runs left behind included.
    /// Must be called within a tokio runtime (current-thread or not).
    pub fn start(settings: &Settings, hello: Hello) -> Self {
        let _unused = (settings, hello);
        Self
    }

    /// Takes the next sample.
    pub fn push(&mut self, sample: Sample) {
        let _unused = sample;
    }

    /// Closes the attempt and waits at most `patience` for the server's acknowledgement.
    pub async fn finish(
        self,
        wall_ms: u64,
        exit: Option<Exit>,
        totals: Totals,
        patience: Duration,
    ) -> Report {
        let _unused = (wall_ms, exit, totals, patience);
        Report::default()
    }
}
