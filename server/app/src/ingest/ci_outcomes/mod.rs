//! Outcomes of attempts according to the CI system, for attempts if the agent did not observe the
//! end; and when the fleet's counters count an attempt.

mod awaited;
mod counted;
mod early_reports;
mod fleet;
mod reported;
mod status;

pub(crate) use early_reports::EarlyReports;
pub(crate) use fleet::FleetCounters;
pub(crate) use reported::with_report;
pub(crate) use status::OutcomeStatus;
