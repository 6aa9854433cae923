//! What became of a report by the CI system.

/// What became of a report by the CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeStatus {
    /// The outcome was applied and is on disk.
    Now,
    /// The outcome was known already.
    Known,
    /// The attempt is open or unknown: the report is kept in memory until the attempt ends.
    Remembered,
    /// The reporter may not report on the attempt's project.
    Foreign,
    /// The store accepts no writes at present.
    Unwritable,
}

impl OutcomeStatus {
    /// Name of the status in metrics.
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
