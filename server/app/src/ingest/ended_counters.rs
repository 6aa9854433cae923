//! Decides when the fleet's counters count an ended attempt: at once, or when more is known about
//! its end. Counters can only increase, so an attempt that was counted cannot be counted
//! differently later.

mod awaited;
mod counted;

use std::sync::Arc;

use plimsoll_core::{
    domain::{AttemptId, Cause, EvidenceSource, Summary},
    shared_history::SharedHistory,
};
use tokio::time::Instant;

use crate::{
    ingest::ended_counters::{
        awaited::{AwaitedOutcomes, WaitAfterVerdict},
        counted::CountedAttempts,
    },
    runtime::metrics::Metrics,
};

/// The fleet's counters, with the attempts that will be counted later and those that were counted.
#[derive(Debug)]
pub(crate) struct EndedCounters {
    history: SharedHistory,
    metrics: Arc<Metrics>,
    awaited: AwaitedOutcomes,
    counted: CountedAttempts,
}

impl EndedCounters {
    /// No attempts counted or waiting.
    pub(crate) fn new(history: SharedHistory, metrics: Arc<Metrics>) -> Self {
        Self { history, metrics, awaited: AwaitedOutcomes::default(), counted: CountedAttempts::default() }
    }

    /// Counts an ended attempt now, or later if its outcome or cause may become known soon.
    pub(crate) fn attempt_ended(&mut self, summary: &Summary) {
        if AwaitedOutcomes::is_awaited(summary) {
            self.awaited.wait(summary, Instant::now());
            self.count_overdue();
        } else {
            self.count_ended(summary);
        }
    }

    /// Counts the attempts that have waited long enough.
    pub(crate) fn count_overdue(&mut self) {
        let now = Instant::now();
        while let Some(summary) = self.awaited.take_overdue(now) {
            self.count_ended(&summary);
        }
    }

    /// Counts an attempt once its reported outcome is on disk.
    pub(crate) fn outcome_reported(&mut self, summary: &Summary) {
        if self.awaited.stop_waiting(&summary.attempt) {
            self.count_ended(summary);
        }
    }

    /// Counts the attempt if it waited for this verdict, else counts the change of its cause. Call
    /// it when the summary is on disk.
    pub(crate) fn cause_changed(&mut self, before: &Summary, summary: &Summary) {
        let word = |cause: &Option<Cause>| cause.map_or("none", Cause::as_str);
        let (from, cause) = (word(&before.cause), word(&summary.cause));
        let source = summary.cause_source.map_or("", EvidenceSource::as_str);
        tracing::info!(attempt = %summary.attempt, from, cause, source, "a verdict found the cause of an attempt");
        match self.awaited.update(summary) {
            WaitAfterVerdict::Over => self.count_ended(summary),
            WaitAfterVerdict::GoesOn => {}
            WaitAfterVerdict::None => {
                self.metrics.cause_changed(before, summary, self.counted.was_counted(&summary.attempt));
            }
        }
    }

    /// Counts these attempts as retries, once it is known that they are.
    pub(crate) fn count_retries(&mut self, attempts: &[AttemptId]) {
        self.counted.count_retries(attempts, &self.metrics);
    }

    fn count_ended(&mut self, summary: &Summary) {
        let is_retry = self.history.is_retry(summary);
        self.counted.count(summary, is_retry, &self.metrics);
    }
}
