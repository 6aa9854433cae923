//! Passes reports of the CI system to the worker (the task that owns the open attempts), which
//! applies them.

mod applying;
mod own_runs;

pub(crate) use applying::CiReports;
use plimsoll_core::domain::ReportedOutcome;
use tokio::sync::{mpsc::error::TrySendError, oneshot};

use super::{
    Ingest,
    request::{CiReport, Request},
};
use crate::ingest::ci_outcomes::OutcomeStatus;

impl Ingest {
    /// Queues a report; the result is sent to the returned receiver. `None` if the queue is full or
    /// the server is stopping.
    pub(crate) fn queue_report_for_result(
        &self,
        reported: ReportedOutcome,
    ) -> Option<oneshot::Receiver<OutcomeStatus>> {
        let (answer, answered) = oneshot::channel();
        match self.requests.try_send(Request::Report(CiReport { reported, answer: Some(answer) })) {
            Ok(()) => Some(answered),
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => None,
        }
    }

    /// Queues a report, and waits for space in the queue and for the result; `None` if the worker
    /// has stopped.
    pub(crate) async fn queue_report_when_free(&self, reported: ReportedOutcome) -> Option<OutcomeStatus> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Report(CiReport { reported, answer: Some(answer) })).await.ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests;
