//! What happens to the summaries of attempts that ended long ago, and to lines of logs in verdicts: nothing, unless the operator says
//! after which time they go.
//!
//! A walk over all of them goes on in small steps, in turn with those over the samples, and rests when it is through: an hour, or a
//! tenth of the shorter time if that is less. What goes, goes with its samples and verdicts; its summary last, so that a walk that
//! was cut short finds it again. Statistics no longer count it then; the history in memory holds it until the next start. Behind the summaries the walk goes over the verdicts: those on
//! attempts that nobody measured go after the same time, and all lose their lines of logs after the time of those, from the disk
//! and from what failures are known by in memory.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{
    aging::{REST_MS, Retain, ms},
    known_verdicts::VERDICTS,
    worker::Worker,
};
use crate::{
    domain::{AttemptId, Verdict},
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
        shorter(&self.parts.retain).is_some() && now >= self.walk.rest_until_unix_ms
    }

    /// One step of the walk, if it is not resting.
    pub(super) async fn forget_step(&mut self, now: u64) {
        if !self.is_forgetting(now) {
            return;
        }
        // no summary goes: the verdicts are all there is to walk over
        self.walk.over_verdicts |= self.parts.retain.summaries_for.is_none();
        if let Err(error) = self.forget_page(now).await {
            tracing::warn!(%error, "could not look after old summaries; tried again in an hour");
            self.walk = Walk { rest_until_unix_ms: now.saturating_add(REST_MS), ..Walk::default() };
        }
    }

    async fn forget_page(&mut self, now: u64) -> Result<(), SealError> {
        let (store, over_verdicts) = (&self.parts.store, self.walk.over_verdicts);
        let Retain { summaries_for, log_lines_for, .. } = self.parts.retain;
        // nothing is older than the beginning of 1970
        let before = |kept: Option<Duration>| kept.map_or(0, |kept| now.saturating_sub(ms(kept)));
        let (since, lines_since) = (before(summaries_for), before(log_lines_for));
        let after = self.walk.after.as_deref();
        let (ids, next) = if over_verdicts {
            store::judged_after(store, after).await?
        } else {
            store::ended_after(store, after).await?
        };
        if over_verdicts && lines_since > 0 {
            self.drop_lines(&ids, lines_since).await?;
        }
        let mut old = Vec::new();
        for id in ids.into_iter().filter(|_id| since > 0) {
            let summary = match store::read_summary(store, &id).await {
                // it and its verdicts stay; all others go as if it were whole
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::error!(attempt = %id, %error, "kept an attempt whose summary is damaged");
                    continue;
                }
                read => read?,
            };
            if over_verdicts && summary.is_none() && !self.sessions.contains_key(&id) {
                self.forget_stray(&id, since).await?;
            } else if summary.is_some_and(|summary| summary.ended_unix_ms() < since) {
                old.push(id);
            }
        }
        self.forget_all(old).await?;
        let through = over_verdicts && next.is_none();
        let rest = if through { now.saturating_add(rest_ms(&self.parts.retain)) } else { 0 };
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
                forgetting.spawn(forget(self.parts.store.clone(), id));
            }
            let Some(ended) = forgetting.join_next().await else { return Ok(()) };
            let id =
                ended.map_err(|error| StoreError::Unavailable(format!("forgetting failed: {error}")))??;
            self.parts.learned.removed(&id);
            self.parts.metrics.summaries_removed.inc();
        }
    }

    /// Takes the lines of logs out of verdicts on these attempts that were given before this time.
    async fn drop_lines(&self, ids: &[AttemptId], since_unix_ms: u64) -> Result<(), SealError> {
        let mut changed = Vec::new();
        for id in ids {
            // those of earlier releases have no time and are the oldest
            let drop = |verdict: &mut Verdict| {
                verdict.given_unix_ms.unwrap_or(0) < since_unix_ms && verdict.drop_log_lines()
            };
            changed.extend(store::change_verdicts(&self.parts.store, id, drop).await?);
        }
        if !changed.is_empty() {
            self.parts.judging.drop_lines(&changed);
            self.parts.metrics.log_lines_removed.inc_by(changed.len() as u64);
        }
        Ok(())
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

async fn forget(store: Store, id: AttemptId) -> Result<AttemptId, CommitError> {
    store::forget(&store, &id).await.map(|()| id)
}

/// The shorter of the times after which something goes; `None` if nothing does.
fn shorter(retain: &Retain) -> Option<Duration> {
    retain.summaries_for.into_iter().chain(retain.log_lines_for).min()
}

/// How long the walk rests: less than what is kept takes to get old.
fn rest_ms(retain: &Retain) -> u64 {
    shorter(retain).map_or(REST_MS, |time| REST_MS.min(ms(time) / 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Attempt, Bytes, EvidenceLine, EvidenceSource, Key, Sample, test_summary},
        ingest::{fixture, session::Session},
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

    #[tokio::test]
    async fn a_damaged_summary_keeps_no_other_attempt_and_no_samples_from_going() {
        let store = Store::memory();
        let ids = ["a", "b", "c"];
        for id in ids {
            ended(&store, id, 10).await;
        }
        let ids = ids.map(|id| fixture::attempt(id).id);
        fixture::damage_summary(&store, &ids[1]).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.parts.retain.keep_for = Duration::from_hours(1);
        worker.retain_step().await;
        assert!(worker.pass.after.is_none() && worker.pass.rest_until_unix_ms > 0, "it is through");
        let mut extents = Vec::new();
        for id in &ids {
            extents.push(store::read_series(&store, id).await.unwrap().extent.samples);
        }
        assert_eq!(extents, [0, 1, 0]);
        worker.parts.retain.summaries_for = Some(Duration::from_hours(1));
        worker.forget_step(1000 * 3_600_000).await;
        assert_eq!(worker.parts.metrics.summaries_removed.get(), 2);
        let refused = store::read_summary(&store, &ids[1]).await.unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    }

    #[test]
    fn the_walk_rests_for_less_than_what_is_kept_gets_old_in() {
        let of = |summaries_for, log_lines_for| Retain { summaries_for, log_lines_for, ..Retain::default() };
        let [short, long] = [Duration::from_mins(2), Duration::from_hours(24 * 365)].map(Some);
        assert_eq!([of(long, short), of(short, None)].map(|retain| rest_ms(&retain)), [12_000; 2]);
        assert_eq!([of(long, None), of(None, None)].map(|retain| rest_ms(&retain)), [REST_MS; 2]);
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

    #[tokio::test]
    async fn lines_of_logs_go_after_their_time_and_verdict_and_summary_stay() {
        let (store, hour) = (Store::memory(), 3_600_000);
        ended(&store, "a", 1).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let id = fixture::attempt("a").id;
        let line = |source, text: &str| EvidenceLine { source, text: text.into(), supports: true };
        // so long that its record has several parts, of which none may be left behind
        let said = "one secret line of the log ".repeat(500);
        let given = |hours: u64| Verdict {
            given_unix_ms: Some(hours * hour),
            evidence: vec![line(EvidenceSource::Log, &said), line(EvidenceSource::Exit, "exit code 2")],
            reason: format!("the log says {said}"),
            ..fixture::verdict(&id)
        };
        let (old, young) = (given(10), given(990));
        let mut batch = Batch::default();
        for (fingerprint, verdict) in [(7, &old), (8, &young)] {
            store::put_verdict(&mut batch, fingerprint, verdict).unwrap();
            worker.parts.judging.learn(&Key::default(), verdict);
        }
        store.commit(batch).await.unwrap();
        worker.forget_step(1000 * hour).await;
        assert_eq!(
            store::read_verdict(&store, &id, 7).await.unwrap().as_ref(),
            Some(&old),
            "nothing was said"
        );

        worker.parts.retain =
            Retain { log_lines_for: Some(Duration::from_hours(900)), ..worker.parts.retain };
        let before = store.scan(&[], None, Limit::PAGE).await.unwrap().entries.len();
        worker.forget_step(1000 * hour).await;
        let kept = store::read_verdict(&store, &id, 7).await.unwrap().unwrap();
        let texts: Vec<&str> = kept.evidence.iter().map(|line| line.text.as_str()).collect();
        let signature = kept.outlook.signature.as_ref().unwrap();
        assert_eq!((texts[1], &*signature.line, &*signature.first), ("exit code 2", "", ""));
        assert!(!texts[0].contains("secret") && !kept.reason.contains("secret"), "{}", kept.reason);
        assert_eq!((kept.cause, kept.action, kept.given_unix_ms), (old.cause, old.action, old.given_unix_ms));
        assert_eq!(store::read_verdict(&store, &id, 8).await.unwrap().as_ref(), Some(&young));
        let left = store.scan(&[], None, Limit::PAGE).await.unwrap().entries;
        assert!(left.len() + 5 < before, "no part is left behind: {} of {before}", left.len());
        assert!(store::read_summary(&store, &id).await.unwrap().is_some());
        assert_eq!(worker.parts.metrics.log_lines_removed.get(), 1);
        worker.walk = Walk::default();
        worker.forget_step(1000 * hour).await;
        assert_eq!(worker.parts.metrics.log_lines_removed.get(), 1, "once");
    }
}
