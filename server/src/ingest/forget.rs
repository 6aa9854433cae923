//! What happens to the summaries of attempts that ended long ago: nothing, unless the operator says after which time they go.
//!
//! A walk over all of them goes on in small steps, in turn with those over the samples, and rests when it is through: an hour, or a
//! tenth of that time if that is shorter. What goes, goes with its samples and verdicts; its summary last, so that a walk that was cut short finds it again. Statistics no longer
//! count it then; the history in memory holds it until the next start. Behind the summaries the walk goes over the verdicts: those on
//! attempts that nobody measured go after the same time.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{
    aging::{REST_MS, ms},
    stage::VERDICTS,
    worker::Worker,
};
use crate::{
    domain::AttemptId,
    store::{self, CommitError, SealError, Store, StoreError},
};

/// Attempts that are removed at once: what they wait for is the disk, and their commits share a sync.
const AT_ONCE: usize = 16;

/// How far the walk is.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Over attempts with verdicts; before that over summaries.
    over_verdicts: bool,
    after: Option<Vec<u8>>,
    rest_until_unix_ms: u64,
}

impl Worker {
    /// The walk has something to do.
    pub(super) fn is_forgetting(&self, now: u64) -> bool {
        self.parts.retain.summaries_for.is_some() && now >= self.walk.rest_until_unix_ms
    }

    /// One step of the walk, if it is not resting.
    pub(super) async fn forget_step(&mut self, now: u64) {
        let Some(keep_for) = self.parts.retain.summaries_for.filter(|_| self.is_forgetting(now)) else {
            return;
        };
        if let Err(error) = self.forget_page(now, keep_for).await {
            tracing::warn!(%error, "could not look after old summaries; tried again in an hour");
            self.walk = Walk { rest_until_unix_ms: now.saturating_add(REST_MS), ..Walk::default() };
        }
    }

    async fn forget_page(&mut self, now: u64, keep_for: Duration) -> Result<(), SealError> {
        let (store, over_verdicts) = (&self.parts.store, self.walk.over_verdicts);
        let since = now.saturating_sub(u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX));
        let after = self.walk.after.as_deref();
        let (ids, next) = if over_verdicts {
            store::judged_after(store, after).await?
        } else {
            store::ended_after(store, after).await?
        };
        let mut old = Vec::new();
        for id in ids {
            let summary = store::read_summary(store, &id).await?;
            if over_verdicts && summary.is_none() && !self.sessions.contains_key(&id) {
                self.forget_stray(&id, since).await?;
            } else if summary.is_some_and(|summary| summary.ended_unix_ms() < since) {
                old.push(id);
            }
        }
        self.forget_all(old).await?;
        let through = over_verdicts && next.is_none();
        let rest = if through { now.saturating_add(rest_ms(keep_for)) } else { 0 };
        let over_verdicts = over_verdicts != next.is_none();
        self.walk = Walk { over_verdicts, after: next, rest_until_unix_ms: rest };
        Ok(())
    }

    /// Removes ended attempts as a whole. An error leaves some of them for the next walk.
    async fn forget_all(&self, ids: Vec<AttemptId>) -> Result<(), SealError> {
        let mut forgetting = JoinSet::new();
        let mut ids = ids.into_iter();
        loop {
            for id in ids.by_ref().take(AT_ONCE - forgetting.len()) {
                forgetting.spawn(forgotten(self.parts.store.clone(), id));
            }
            let Some(forgotten) = forgetting.join_next().await else { return Ok(()) };
            let id = forgotten
                .map_err(|error| StoreError::Unavailable(format!("forgetting failed: {error}")))??;
            self.parts.learned.removed(&id);
            self.parts.metrics.summaries_removed.inc();
        }
    }

    /// Removes the verdicts on an attempt that nobody measured, if the last was given before this time.
    async fn forget_stray(&self, id: &AttemptId, since_unix_ms: u64) -> Result<(), SealError> {
        let given = store::read_verdicts(&self.parts.store, id, VERDICTS).await?;
        // those of earlier releases have no time and are the oldest
        let last = given.iter().map(|verdict| verdict.given_unix_ms.unwrap_or(0)).max();
        if last.is_some_and(|last| last < since_unix_ms) {
            store::forget_verdicts_on(&self.parts.store, id).await?;
        }
        Ok(())
    }
}

async fn forgotten(store: Store, id: AttemptId) -> Result<AttemptId, CommitError> {
    store::forget(&store, &id).await.map(|()| id)
}

/// How long the walk rests for attempts that are kept for this long.
fn rest_ms(keep_for: Duration) -> u64 {
    REST_MS.min(ms(keep_for) / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Attempt, Bytes, Sample, Verdict, test_summary},
        ingest::{Retain, fixture, session::Session},
        store::{Batch, Limit},
    };

    /// Puts an attempt with a sample into the store that ended so many hours after 1970.
    async fn ended(store: &Store, id: &str, hour: u64) {
        let attempt = fixture::attempt(id);
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.started_unix_ms = hour * 3_600_000;
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, [Sample::default()]).unwrap();
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

    #[tokio::test]
    async fn summaries_go_also_while_there_are_always_too_many_samples() {
        let store = Store::memory();
        ended(&store, "old", 10).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let max_bytes = Some(Bytes(0));
        worker.parts.retain =
            Retain { summaries_for: Some(Duration::from_hours(900)), max_bytes, ..worker.parts.retain };
        for _step in 0..4 {
            worker.pass.rest_until_unix_ms = 0;
            worker.retain_step().await;
        }
        assert_eq!(worker.parts.metrics.summaries_removed.get(), 1);
    }

    #[test]
    fn the_walk_rests_for_less_than_what_is_kept_gets_old_in() {
        assert_eq!(rest_ms(Duration::from_mins(2)), 12_000);
        assert_eq!(rest_ms(Duration::from_hours(24 * 365)), REST_MS);
    }

    #[tokio::test]
    async fn verdicts_on_attempts_that_nobody_measured_go_after_the_same_time_while_the_server_runs() {
        let (store, hour) = (Store::memory(), 3_600_000);
        ended(&store, "measured", 990).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let [open, old, young, measured] = ["open", "old", "young", "measured"].map(fixture::attempt);
        let mut batch = Batch::default();
        for (attempt, given) in [(&open, 1), (&old, 1), (&young, 990), (&measured, 1)] {
            let verdict = Verdict { given_unix_ms: Some(given * hour), ..fixture::verdict(&attempt.id) };
            store::put_verdict(&mut batch, 7, &verdict).unwrap();
        }
        store.commit(batch).await.unwrap();
        worker.sessions.insert(open.id.clone(), Session::new(open.clone().into(), worker.now()));
        worker.parts.retain =
            Retain { summaries_for: Some(Duration::from_hours(900)), ..worker.parts.retain };
        for _step in 0..3 {
            worker.forget_step(1000 * hour).await;
        }
        let holds =
            async |attempt: &Attempt| store::count_verdicts(&store, &attempt.id, 9).await.unwrap() == 1;
        assert!(holds(&open).await && holds(&young).await && holds(&measured).await);
        assert!(!holds(&old).await);
    }
}
