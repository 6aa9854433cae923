//! Retention: downsamples and deletes samples, and deletes summaries, verdicts and log lines, each
//! after its configured time.

mod aging;
mod samples;
mod summaries;
mod trusted_clock;

use std::{sync::Arc, time::Duration};

use aging::SampleWalk;
use plimsoll_core::{
    domain::{AttemptId, RetentionPolicy},
    shared_history::SharedHistory,
};
use plimsoll_store::Store;
use summaries::SummaryWalk;
use trusted_clock::whole_ms;

use crate::{
    causes::FailureClassifier,
    runtime::{clock::Clock, metrics::Metrics},
};

/// Pause between two steps.
pub(crate) const STEP_INTERVAL: Duration = Duration::from_millis(200);

/// The store and the parts of the server that the deletion of old data needs.
#[derive(Debug)]
pub(crate) struct RetentionParts {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) classifier: FailureClassifier,
    pub(crate) clock: Clock,
    pub(crate) policy: RetentionPolicy,
}

/// Deletes old data in small steps, so that requests are not delayed.
#[derive(Debug)]
pub(crate) struct Retention {
    parts: RetentionParts,
    samples: SampleWalk,
    summaries: SummaryWalk,
}

impl Retention {
    /// Starts with the first block and the first summary.
    pub(crate) fn new(parts: RetentionParts) -> Self {
        Self { parts, samples: SampleWalk::default(), summaries: SummaryWalk::default() }
    }

    /// Does one step. `running_since` returns the start of an open attempt, milliseconds since
    /// 1970; `None` if the attempt is not open.
    pub(crate) async fn step(&mut self, running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync)) {
        let now = self.trusted_now();
        let forgets = !self.samples.last_step_forgot && self.is_forgetting(now);
        if forgets || !self.samples.begin_step(now) {
            self.samples.last_step_forgot = forgets;
            return self.forget_step(now, running_since).await;
        }
        // samples and summaries alternate: a pass over samples that never pauses would otherwise
        // block the other
        self.samples.last_step_forgot = false;
        if let Err(error) = self.thin_page(now, running_since).await {
            tracing::warn!(%error, "could not remove old samples; trying again in an hour");
            self.samples.fail(now);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_policy(&mut self, policy: RetentionPolicy) {
        self.parts.policy = policy;
    }

    /// Call it when samples were sealed.
    pub(crate) fn samples_sealed(&mut self, samples: u64) {
        self.samples.add(&self.parts.policy, samples);
    }

    /// Call it when an attempt was removed from the store: another one may get its id.
    pub(crate) fn attempt_dropped(&mut self) {
        // the pass over samples caches the state of the last attempt
        self.samples.last = None;
    }

    /// Summaries of attempts that ended before this time are deleted, milliseconds since 1970.
    pub(crate) fn summaries_since(&mut self) -> u64 {
        let Some(kept) = self.parts.policy.summaries_for else { return 0 };
        self.trusted_now().saturating_sub(whole_ms(kept))
    }
}
