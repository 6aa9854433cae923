//! What the ingest knows when it starts: finished attempts to learn from, and open ones to go on with.

use super::{strays, worker::Worker};
use crate::store::{self, StoreError};

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
        self.take_up_all(open).await?;
        self.count_open();
        Ok(())
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
