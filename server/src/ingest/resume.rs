//! What the ingest knows when it starts: finished attempts to learn from, and open ones to go on with.

use std::sync::Arc;

use super::{session::Session, strays, worker::Worker};
use crate::{
    domain::AttemptId,
    store::{self, StoreError},
};

/// Open attempts of which is asked at once whether they have samples: each that has none costs no visit of its own.
const TAKEN_UP_AT_ONCE: usize = 500;

impl Worker {
    /// Reads the finished attempts into the history and takes the open ones up where the disk says they are.
    ///
    /// # Errors
    /// The store cannot be read. A single damaged record is logged and skipped.
    pub(crate) async fn resume(&mut self) -> Result<(), StoreError> {
        let (loaded, strays) = self.recall().await?;
        let swept = store::sweep(&self.parts.store).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "could not remove what a crash left behind; it is harmless and tried again");
        }
        let open = store::open_attempts(&self.parts.store).await?;
        self.drop_strays(strays, &open, strays::KEPT).await;
        tracing::info!(
            finished = loaded.records,
            damaged = loaded.damaged,
            open = open.len(),
            "history read"
        );
        for attempts in open.chunks(TAKEN_UP_AT_ONCE) {
            let ids: Vec<&AttemptId> = attempts.iter().map(|attempt| &attempt.id).collect();
            let fed = store::have_samples(&self.parts.store, &ids).await?;
            for (attempt, fed) in attempts.iter().zip(fed) {
                let place = self.parts.placing.places().hold(&attempt.opening.pool);
                let new = Session { place, ..Session::new(Arc::new(attempt.clone()), self.now()) };
                let session = self.take_up(new, fed).await?;
                self.sessions.insert(attempt.id.clone(), session);
            }
        }
        self.count_open();
        Ok(())
    }

    /// Reads how far an attempt had come, if it was fed at all.
    async fn take_up(&self, mut session: Session, fed: bool) -> Result<Session, StoreError> {
        if !fed {
            return Ok(session);
        }
        let (id, progress) = (session.attempt.id.clone(), &mut session.progress);
        // a run at a time: an attempt that never ends has more samples than memory
        let extent = store::each_run(&self.parts.store, &id, |run| {
            for fault in run.samples.iter().filter_map(|sample| progress.add(sample).err()) {
                // the samples were checked before they were stored: only a damaged record can bring this about
                tracing::warn!(attempt = %id, %fault, "a stored sample is out of order");
            }
        });
        let extent = extent.await?;
        session.loose = extent.loose;
        session.acknowledged = extent.last_sequence;
        session.lost = extent.lost;
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Millis, Sample},
        ingest::fixture,
        store::{Batch, Store},
    };

    #[tokio::test]
    async fn a_start_counts_samples_as_loose_that_are_in_no_sealed_block() {
        let (store, attempt) = (Store::memory(), fixture::attempt("a"));
        let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
        let samples: Vec<Sample> = (1..=15).map(sample).collect();
        let mut batch = Batch::default();
        store::put_attempt(&mut batch, &attempt).unwrap();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, &samples[..10]).unwrap();
        store.commit(batch).await.unwrap();
        let mut batch = store::roll(&store, &attempt.id).await.unwrap().batch;
        store::append_fragment(&mut batch, &attempt.id, 11, 0, &samples[10..]).unwrap();
        store.commit(batch).await.unwrap();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.resume().await.unwrap();
        let session = &worker.sessions[&attempt.id];
        assert_eq!((session.acknowledged, session.progress.samples, session.loose), (15, 15, 5));
    }
}
