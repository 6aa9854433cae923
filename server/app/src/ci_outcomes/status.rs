//! Result of a report by the CI system.

/// Result of a report by the CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeStatus {
    /// The outcome is on disk.
    Now,
    /// The outcome was known already.
    Known,
    /// The attempt is open or unknown: the report waits in memory for its end.
    Remembered,
    /// The attempt is of a project that the reporter may not report on.
    Foreign,
    /// The store accepts no writes.
    Unwritable,
}

impl OutcomeStatus {
    /// Label in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "settled",
            Self::Known => "known",
            Self::Remembered => "remembered",
            Self::Foreign => "foreign",
            Self::Unwritable => "unwritable",
        }
    }
}
