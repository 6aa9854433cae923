//! How long what was measured is kept: what the operator decides.

use std::time::Duration;

use super::Bytes;

/// How old samples may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// As they were measured.
    pub full_for: Duration,
    /// At all.
    pub keep_for: Duration,
    /// Most bytes of sealed samples; `None` is no bound.
    pub max_bytes: Option<Bytes>,
    /// Summaries of attempts; `None` is for ever.
    pub summaries_for: Option<Duration>,
    /// Lines of logs in verdicts; `None` is as long as the verdict.
    pub log_lines_for: Option<Duration>,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            // long enough to look into what failed lately
            full_for: Duration::from_hours(30 * 24),
            keep_for: Duration::from_hours(365 * 24),
            max_bytes: None,
            summaries_for: None,
            log_lines_for: None,
        }
    }
}
