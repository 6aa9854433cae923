//! Restores the state when the server starts: the history and the open attempts.

use std::sync::Arc;

use plimsoll_core::domain::Attempt;
use plimsoll_store::{self as store, StoreError};

use super::{IngestParts, session::Session, worker::Worker};
use crate::ingest::startup::{
    history::{HistoryLoader, LoadedHistory},
    open_attempts::{StoredProgress, read_open},
    unmeasured::{MAX_KEPT, UnmeasuredBound},
};

impl Worker {
    pub(crate) fn open(&self) -> impl Iterator<Item = &Attempt> {
        self.sessions.values().map(|session| &*session.attempt)
    }

    /// Loads the finished attempts into the history, and restores the open ones from disk.
    /// Errors: the store cannot be read. A single damaged record is logged and skipped.
    pub(crate) async fn resume(&mut self) -> Result<(), StoreError> {
        if let Err(error) = store::finish_rename(&self.parts.store).await {
            tracing::error!(%error, "the rename of a project is not finished; the next start goes on with it");
        }
        let LoadedHistory { report, unmeasured } = self.history_loader().load().await?;
        self.parts.job_pods.load(&self.parts.store, self.parts.clock.now_unix_ms()).await?;
        let swept = store::sweep_late_fragments(&self.parts.store).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "could not remove what a crash left behind; it is harmless and tried again");
        }
        let open = store::open_attempts(&self.parts.store).await?;
        let since_unix_ms = self.retention.summaries_since();
        let bound = UnmeasuredBound { attempts: MAX_KEPT, since_unix_ms };
        unmeasured.drop_oldest(&self.parts.store, &open, bound).await;
        tracing::info!(
            finished = report.records,
            damaged = report.damaged,
            unreadable = report.unreadable,
            open = open.len(),
            "history read"
        );
        self.resume_open(&open).await?;
        self.count_open();
        Ok(())
    }

    /// The loader for finished attempts.
    pub(crate) fn history_loader(&self) -> HistoryLoader {
        let IngestParts { store, history, metrics, classifier, clock, .. } = &self.parts;
        HistoryLoader {
            store: store.clone(),
            history: history.clone(),
            metrics: Arc::clone(metrics),
            classifier: classifier.clone(),
            now_unix_ms: clock.now_unix_ms(),
        }
    }

    /// Restores the open attempts, each with its last stored sequence number.
    async fn resume_open(&mut self, open: &[Attempt]) -> Result<(), StoreError> {
        for attempt in open {
            let place = self.parts.pools.hold(attempt);
            let share = self.quota.of_resumed(attempt);
            let session = Session {
                slot: place,
                quota_share: share,
                ..Session::new(Arc::new(attempt.clone()), self.now())
            };
            self.sessions.insert(session);
        }
        let sessions = &mut self.sessions;
        let take = |read: StoredProgress| {
            let Some(session) = sessions.get_mut(&read.attempt) else { return };
            session.progress = read.progress;
            session.loose = read.extent.loose;
            session.acknowledged = read.extent.last_sequence;
            session.lost = read.extent.lost;
        };
        read_open(&self.parts.store, open, take).await
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Millis, Sample};
    use plimsoll_store::{Batch, Store};

    use super::*;
    use crate::ingest::fixture;

    #[tokio::test]
    async fn samples_outside_sealed_blocks_resume_as_loose() {
        let (store, attempt) = (Store::memory(), fixture::attempt("a"));
        let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
        let samples: Vec<Sample> = (1..=15).map(sample).collect();
        let mut batch = Batch::default();
        store::put(&mut batch, &attempt).unwrap();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, &samples[..10]).unwrap();
        store.commit(batch).await.unwrap();
        let mut batch = store::compact_samples(&store, &attempt.id).await.unwrap().batch;
        store::append_fragment(&mut batch, &attempt.id, 11, 0, &samples[10..]).unwrap();
        store.commit(batch).await.unwrap();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.resume().await.unwrap();
        let session = &worker.sessions[&attempt.id];
        assert_eq!((session.acknowledged, session.progress.samples, session.loose), (15, 15, 5));
    }
}
