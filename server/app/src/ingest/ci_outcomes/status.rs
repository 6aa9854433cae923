//! What became of a report by the CI system.

use plimsoll_base::named_enum;

named_enum! {
    /// What became of a report by the CI system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum OutcomeStatus {
        /// The outcome was applied and is on disk.
        Now => "settled",
        /// The outcome was known already.
        Known => "known",
        /// The attempt is open or unknown: the report is kept in memory until the attempt ends.
        Remembered => "remembered",
        /// The reporter may not report on the attempt's project.
        Foreign => "foreign",
        /// The store accepts no writes at present.
        Unwritable => "unwritable",
    }
}
