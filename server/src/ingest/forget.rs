//! What happens to the summaries of attempts that ended long ago: nothing, unless the operator says after which time they go.
//!
//! A walk over all of them goes on in small steps while the samples rest, and rests for an hour when it is through. What goes,
//! goes with its samples and verdicts; its summary last, so that a walk that was cut short finds it again. Statistics no longer
//! count it then; the history in memory holds it until the next start.

use std::time::Duration;

use super::{aging::REST_MS, worker::Worker};
use crate::store::{self, SealError};

/// How far the walk is.
#[derive(Debug, Default)]
pub(super) struct Walk {
    after: Option<Vec<u8>>,
    rest_until_unix_ms: u64,
}

impl Worker {
    /// One step of the walk, if it is not resting.
    pub(super) async fn forget_step(&mut self, now: u64) {
        let Some(keep_for) = self.parts.retain.summaries_for else { return };
        if now < self.walk.rest_until_unix_ms {
            return;
        }
        if let Err(error) = self.forget_page(now, keep_for).await {
            tracing::warn!(%error, "could not look after old summaries; tried again in an hour");
            self.walk = Walk { after: None, rest_until_unix_ms: now.saturating_add(REST_MS) };
        }
    }

    async fn forget_page(&mut self, now: u64, keep_for: Duration) -> Result<(), SealError> {
        let store = &self.parts.store;
        let most = u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX);
        let (ids, next) = store::ended_after(store, self.walk.after.as_deref()).await?;
        for id in ids {
            let summary = store::read_summary(store, &id).await?;
            if summary.is_some_and(|summary| now.saturating_sub(summary.ended_unix_ms()) > most) {
                store::forget(store, &id).await?;
                self.parts.learned.removed(&id);
                self.parts.metrics.summaries_removed.inc();
            }
        }
        let rest = if next.is_some() { 0 } else { now.saturating_add(REST_MS) };
        self.walk = Walk { after: next, rest_until_unix_ms: rest };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Sample, test_summary},
        ingest::{Retain, fixture},
        store::{Batch, Limit, Store},
    };

    /// Puts an attempt with a sample into the store that ended so many hours after 1970.
    async fn ended(store: &Store, id: &str, hour: u64) {
        let attempt = fixture::attempt(id);
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.started_unix_ms = hour * 3_600_000;
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, &[Sample::default()]).unwrap();
        store.commit(batch).await.unwrap();
        store::seal(store, &attempt, &summary).await.unwrap();
    }

    #[tokio::test]
    async fn summaries_go_after_the_time_that_was_said_with_all_that_belongs_to_them() {
        let store = Store::memory();
        for n in 0..100 {
            ended(&store, &format!("old-{n}"), 10).await;
        }
        ended(&store, "young", 1000).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let now = 1001 * 3_600_000;
        worker.forget_step(now).await;
        let all = store.scan(&[], None, Limit::PAGE).await.unwrap().entries.len();
        worker.parts.retain =
            Retain { summaries_for: Some(Duration::from_hours(900)), ..worker.parts.retain };
        for _step in 0..10 {
            worker.forget_step(now).await;
        }
        let left = store.scan(&[], None, Limit::PAGE).await.unwrap().entries;
        assert!(all > 200, "nothing goes unless somebody says so: {all}");
        assert_eq!(left.len(), 2, "the summary and the block of the young one");
        assert_eq!(worker.parts.metrics.summaries_removed.get(), 100);
        assert!(worker.walk.rest_until_unix_ms > now);
    }
}
