//! When the fleet's counters count an ended attempt: at once, or when more is known of its end. A counter cannot be decreased.

use std::sync::Arc;

use plimsoll_core::{
    domain::{AttemptId, Cause, EvidenceSource, Summary},
    shared_history::SharedHistory,
};
use tokio::time::Instant;

use super::{
    awaited::{AwaitedOutcomes, WaitAfterVerdict},
    counted::CountedAttempts,
};
use crate::runtime::metrics::Metrics;

/// The fleet's counters, with the attempts that wait and those that were counted.
#[derive(Debug)]
pub(crate) struct FleetCounters {
    history: SharedHistory,
    metrics: Arc<Metrics>,
    awaited: AwaitedOutcomes,
    counted: CountedAttempts,
}

impl FleetCounters {
    /// Counters at 0.
    pub(crate) fn new(history: SharedHistory, metrics: Arc<Metrics>) -> Self {
        Self { history, metrics, awaited: AwaitedOutcomes::default(), counted: CountedAttempts::default() }
    }

    /// Counts an ended attempt now, or lets it wait.
    pub(crate) fn attempt_ended(&mut self, summary: &Summary) {
        if AwaitedOutcomes::is(summary) {
            self.awaited.wait(summary, Instant::now());
            self.count_overdue();
        } else {
            self.count(summary);
        }
    }

    /// Counts attempts about which nothing more became known in time.
    pub(crate) fn count_overdue(&mut self) {
        let now = Instant::now();
        while let Some(summary) = self.awaited.given_up(now) {
            self.count(&summary);
        }
    }

    /// Counts an attempt whose reported outcome is on disk.
    pub(crate) fn outcome_reported(&mut self, summary: &Summary) {
        if self.awaited.stop_waiting(&summary.attempt) {
            self.count(summary);
        }
    }

    /// A summary with another cause is on disk.
    pub(crate) fn cause_changed(&mut self, before: &Summary, summary: &Summary) {
        let word = |cause: &Option<Cause>| cause.map_or("none", Cause::as_str);
        let (from, cause) = (word(&before.cause), word(&summary.cause));
        let source = summary.cause_source.map_or("", EvidenceSource::as_str);
        tracing::info!(attempt = %summary.attempt, from, cause, source, "a verdict found the cause of an attempt");
        match self.awaited.update(summary) {
            WaitAfterVerdict::Over => self.count(summary),
            WaitAfterVerdict::GoesOn => {}
            WaitAfterVerdict::None => {
                self.metrics.cause_changed(before, summary, self.counted.has(&summary.attempt));
            }
        }
    }

    /// Counts attempts that turned out to be retries.
    pub(crate) fn are_retries(&mut self, attempts: &[AttemptId]) {
        self.counted.are_retries(attempts, &self.metrics);
    }

    fn count(&mut self, summary: &Summary) {
        let is_retry = self.history.is_retry(summary);
        self.counted.count(summary, is_retry, &self.metrics);
    }
}
