//! How long measurements are kept, as set by the operator.

use std::time::Duration;

use plimsoll_base::with_defaults;

use super::Bytes;

with_defaults! {
    /// Maximum age of stored data.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RetentionPolicy {
        /// How long samples are kept at full resolution.
        // 30 days are long enough to examine recent failures
        pub full_for: Duration = Duration::from_hours(30 * 24),
        /// How long samples are kept at all.
        pub keep_for: Duration = Duration::from_hours(365 * 24),
        /// Most bytes of sealed samples; `None`: unlimited.
        pub max_bytes: Option<Bytes>,
        /// How long summaries of attempts are kept; `None`: forever.
        pub summaries_for: Option<Duration>,
        /// How long lines of logs are kept in verdicts; `None`: as long as the verdict.
        pub log_lines_for: Option<Duration>,
    }
}
