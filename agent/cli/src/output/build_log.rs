//! Keeps what is sent of the build's log: all of it, or its errors and its end.

use std::sync::{Mutex, PoisonError};

use plimsoll_base::log_excerpt::LogExcerpt;
use plimsoll_proto::limits;

use crate::key::{SECRET_BYTES, Secrets};

/// Standard output and standard error together, in the order in which they were read.
#[derive(Debug)]
pub(super) struct BuildLog(Mutex<LogExcerpt>);

impl Default for BuildLog {
    fn default() -> Self {
        Self(Mutex::new(empty()))
    }
}

impl BuildLog {
    /// Adds what was read.
    pub(super) fn push(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }

    /// What is sent of the log, with secrets masked; the log is empty after it.
    pub(super) fn take(&self, secrets: &Secrets) -> Vec<u8> {
        let log = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), empty());
        log.finish(|text| secrets.mask(text, text.len()))
    }
}

fn empty() -> LogExcerpt {
    LogExcerpt::new(limits::LOG_TAIL_BYTES, SECRET_BYTES)
}
