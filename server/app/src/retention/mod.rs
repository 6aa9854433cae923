//! Retention: downsamples and deletes samples, and deletes summaries, verdicts and log lines, each after the configured time.

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
use trusted_clock::ms;

use crate::{
    runtime::{clock::Clock, metrics::Metrics},
    state::verdict_engine::VerdictEngine,
};

/// Between two steps.
pub(crate) const STEP: Duration = Duration::from_millis(200);

/// Dependencies of the retention.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) verdict_engine: VerdictEngine,
    pub(crate) clock: Clock,
    pub(crate) policy: RetentionPolicy,
}

/// Works through stored data in small steps.
#[derive(Debug)]
pub(crate) struct Retention {
    parts: Parts,
    samples: SampleWalk,
    summaries: SummaryWalk,
}

impl Retention {
    /// Both walks are at their beginning.
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts, samples: SampleWalk::default(), summaries: SummaryWalk::default() }
    }

    /// One step, between two requests. `running_since` returns the start of an open attempt, milliseconds since 1970.
    pub(crate) async fn step(&mut self, running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync)) {
        let now = self.trusted_now();
        let forgets = !self.samples.last_step_forgot && self.is_forgetting(now);
        if forgets || !self.samples.begins(now) {
            self.samples.last_step_forgot = forgets;
            return self.forget_step(now, running_since).await;
        }
        // alternate: samples that never pause would block the other pass
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

    /// Samples were sealed.
    pub(crate) fn samples_sealed(&mut self, samples: u64) {
        self.samples.add(&self.parts.policy, samples);
    }

    /// An attempt was removed from the store; another one may get its id.
    pub(crate) fn attempt_dropped(&mut self) {
        // the pass over samples caches the state of the last attempt
        self.samples.last = None;
    }

    /// The time before which summaries are deleted, milliseconds since 1970.
    pub(crate) fn summaries_since(&mut self) -> u64 {
        let Some(kept) = self.parts.policy.summaries_for else { return 0 };
        self.trusted_now().saturating_sub(ms(kept))
    }
}
