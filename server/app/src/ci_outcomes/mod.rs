//! How an attempt ended as the CI system says, where its agent did not see it, and when the counters of the fleet count it.

mod awaited;
mod counted;
mod early_reports;
mod fleet;
mod own_runs;
mod reported;
mod reports;
mod status;

pub(crate) use fleet::FleetCounters;
pub(crate) use reported::with_report;
pub(crate) use reports::{CiReport, CiReports, OpenAttempt, OpenAttempts};
pub(crate) use status::OutcomeStatus;
