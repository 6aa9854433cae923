//! Outcomes of attempts according to the CI system, for attempts if the agent did not observe the
//! end.

mod early_reports;
mod reported;
mod status;

pub(crate) use early_reports::EarlyReports;
pub(crate) use reported::with_report;
pub(crate) use status::OutcomeStatus;
