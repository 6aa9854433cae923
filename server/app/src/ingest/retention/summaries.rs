//! Deletes summaries of long-ended attempts, and log lines in verdicts, after the times that the operator sets; by default never.
//!
//! The pass runs in small steps, alternating with the pass over samples. At its end it pauses for
//! an hour, or for a tenth of the shortest configured time if that is less. An attempt is deleted
//! with its samples and verdicts, and its summary last, so that the next pass finds an interrupted
//! deletion. Statistics then no longer count the attempt; the history in memory keeps it until the
//! next start. After the summaries the pass goes over the verdicts. Verdicts on unmeasured attempts
//! are deleted after the same time as summaries. Log lines are removed after their own time, from
//! disk and from the known failures in memory.

use std::time::Duration;

use plimsoll_core::domain::{AttemptId, RetentionPolicy, Verdict};
use plimsoll_store::{self as store, CommitError, KeyKind, SealError, Store, StoreError};
use tokio::task::JoinSet;

use super::{Retention, aging::PAUSE_MS, trusted_clock::whole_ms};

/// Attempts deleted at the same time: they wait for the disk, and their commits share a sync.
const DELETES_AT_ONCE: usize = 16;

/// State of a pass over summaries and verdicts.
#[derive(Debug, Default)]
pub(super) struct SummaryWalk {
    /// Whether the pass goes over attempts with verdicts; before that it goes over summaries.
    over_verdicts: bool,
    after_key: Option<Vec<u8>>,
    paused_until_unix_ms: u64,
}

impl Retention {
    /// Whether summaries are deleted by age, and the pass is not pausing.
    pub(super) fn is_forgetting(&self, now: u64) -> bool {
        shorter_time(&self.parts.policy).is_some() && now >= self.summaries.paused_until_unix_ms
    }

    /// Does one step of the pass, unless the pass is pausing.
    pub(super) async fn forget_step(
        &mut self,
        now: u64,
        running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync),
    ) {
        if !self.is_forgetting(now) {
            return;
        }
        // if summaries are kept for ever, only verdicts have to be examined
        self.summaries.over_verdicts |= self.parts.policy.summaries_for.is_none();
        if let Err(error) = self.forget_page(now, running_since).await {
            tracing::warn!(%error, "could not remove old summaries; trying again in an hour");
            self.summaries =
                SummaryWalk { paused_until_unix_ms: now.saturating_add(PAUSE_MS), ..SummaryWalk::default() };
        }
    }

    async fn forget_page(
        &mut self,
        now: u64,
        running_since: &(impl Fn(&AttemptId) -> Option<u64> + Sync),
    ) -> Result<(), SealError> {
        let (store, over_verdicts) = (&self.parts.store, self.summaries.over_verdicts);
        let RetentionPolicy { summaries_for, log_lines_for, .. } = self.parts.policy;
        // 0 means that nothing is deleted: nothing ended before 1970
        let before = |kept: Option<Duration>| kept.map_or(0, |kept| now.saturating_sub(whole_ms(kept)));
        let (since, lines_since) = (before(summaries_for), before(log_lines_for));
        let after = self.summaries.after_key.as_deref();
        let kind = if over_verdicts { KeyKind::Verdict } else { KeyKind::Summary };
        let (ids, next) = store::ids_after(store, kind, after).await?;
        if over_verdicts && lines_since > 0 {
            self.drop_lines(&ids, lines_since).await?;
        }
        let mut old = Vec::new();
        for id in ids.into_iter().filter(|_id| since > 0) {
            let summary = match store::read_summary(store, &id).await {
                // this attempt and its verdicts stay; others are deleted as usual
                Err(StoreError::Damaged { .. }) => continue,
                read => read?,
            };
            if over_verdicts && summary.is_none() && running_since(&id).is_none() {
                self.forget_unmeasured(&id, since).await?;
            } else if summary.is_some_and(|summary| summary.ended_unix_ms() < since) {
                old.push(id);
            }
        }
        self.forget_all(old).await?;
        let through = over_verdicts && next.is_none();
        let rest = if through { now.saturating_add(pause_ms(&self.parts.policy)) } else { 0 };
        let over_verdicts = over_verdicts != next.is_none();
        self.summaries = SummaryWalk { over_verdicts, after_key: next, paused_until_unix_ms: rest };
        Ok(())
    }

    /// Deletes ended attempts with all their data. After an error, the next pass deletes the rest.
    async fn forget_all(&self, ids: Vec<AttemptId>) -> Result<(), SealError> {
        let mut forgetting = JoinSet::new();
        let mut ids = ids.into_iter();
        loop {
            for id in ids.by_ref().take(DELETES_AT_ONCE - forgetting.len()) {
                forgetting.spawn(forget_attempt(self.parts.store.clone(), id));
            }
            let Some(ended) = forgetting.join_next().await else { return Ok(()) };
            let id =
                ended.map_err(|error| StoreError::Unavailable(format!("forgetting failed: {error}")))??;
            self.parts.history.remove_from_stats(&id);
            self.parts.classifier.forget_correction(&id);
            self.parts.metrics.summaries_removed.inc();
        }
    }

    /// Removes log lines from verdicts on these attempts that were given before `since_unix_ms`.
    async fn drop_lines(&self, ids: &[AttemptId], since_unix_ms: u64) -> Result<(), SealError> {
        let mut changed = Vec::new();
        for id in ids {
            let drop = |verdict: &mut Verdict| {
                verdict.given_unix_ms.unwrap_or(0) < since_unix_ms && verdict.drop_log_lines()
            };
            changed.extend(store::change_verdicts(&self.parts.store, id, drop).await?);
        }
        if !changed.is_empty() {
            self.parts.classifier.drop_lines(&changed);
            self.parts.metrics.log_lines_removed.inc_by(changed.len() as u64);
        }
        Ok(())
    }

    /// Removes the verdicts on an unmeasured attempt, if the last of them was given before
    /// `since_unix_ms`.
    async fn forget_unmeasured(&self, id: &AttemptId, since_unix_ms: u64) -> Result<(), SealError> {
        let given = store::read_verdicts(&self.parts.store, id).await?;
        if given.last().is_some_and(|last| last.given_unix_ms.unwrap_or(0) < since_unix_ms) {
            store::forget_verdicts_on(&self.parts.store, id).await?;
            self.parts.classifier.forget_correction(id);
        }
        Ok(())
    }
}

async fn forget_attempt(store: Store, id: AttemptId) -> Result<AttemptId, CommitError> {
    store::forget_attempt(&store, &id).await.map(|()| id)
}

/// The shorter of the two configured times; `None` if neither is configured.
fn shorter_time(retain: &RetentionPolicy) -> Option<Duration> {
    retain.summaries_for.into_iter().chain(retain.log_lines_for).min()
}

/// Length of the pause, milliseconds; less than the shortest configured time.
fn pause_ms(retain: &RetentionPolicy) -> u64 {
    shorter_time(retain).map_or(PAUSE_MS, |time| PAUSE_MS.min(whole_ms(time) / 10))
}

#[cfg(test)]
mod tests;
