//! What becomes of a report of the CI system.

/// What became of what a CI system told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeStatus {
    /// It is on disk how the attempt ended.
    Now,
    /// It was known already.
    Known,
    /// The attempt is open, or not known: the report waits in memory for its end.
    Remembered,
    /// The attempt is of a project that the speaker may not speak of.
    Foreign,
    /// The store takes nothing.
    Unwritable,
}

impl OutcomeStatus {
    /// The word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "settled",
            Self::Known => "known",
            Self::Remembered => "remembered",
            Self::Foreign => "foreign",
            Self::Unwritable => "unwritable",
        }
    }
}
