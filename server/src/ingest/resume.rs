//! What the ingest knows when it starts: finished attempts to learn from, and open ones to go on with.

use std::sync::Arc;

use super::{session::Session, worker::Worker};
use crate::{
    domain::{Attempt, Summary},
    store::{self, StoreError},
};

/// The newest summaries out of many that come in any order, in bounded memory.
struct Newest {
    capacity: usize,
    kept: Vec<Arc<Summary>>,
}

impl Newest {
    fn of(capacity: usize) -> Self {
        Self { capacity, kept: Vec::new() }
    }

    fn take(&mut self, summary: Summary) {
        self.kept.push(Arc::new(summary));
        // cutting now and then costs less than keeping order all the time
        if self.kept.len() >= self.capacity.saturating_add(self.capacity / 8).saturating_add(1024) {
            self.cut();
        }
    }

    /// Leaves the newest, in no order.
    fn cut(&mut self) {
        if self.kept.len() > self.capacity {
            let newest_first = |summary: &Arc<Summary>| std::cmp::Reverse(summary.ended_unix_ms());
            self.kept.select_nth_unstable_by_key(self.capacity, newest_first);
            self.kept.truncate(self.capacity);
        }
    }

    /// The newest is learnt last, so that it weighs most.
    fn oldest_first(mut self) -> impl Iterator<Item = Arc<Summary>> {
        self.cut();
        // equal ends keep one order, whatever was cut
        self.kept.sort_by(|a, b| (a.ended_unix_ms(), &a.attempt).cmp(&(b.ended_unix_ms(), &b.attempt)));
        self.kept.into_iter()
    }
}

impl Worker {
    /// Reads the finished attempts into the history and takes the open ones up where the disk says they are.
    ///
    /// # Errors
    /// The store cannot be read. A single damaged record is logged and skipped.
    pub(crate) async fn resume(&mut self) -> Result<(), StoreError> {
        let mut newest = Newest::of(self.parts.learned.capacity());
        let loaded = store::load_summaries(&self.parts.store, |summary| newest.take(summary)).await?;
        for summary in newest.oldest_first() {
            let known = self.parts.learned.learn(summary);
            self.parts.metrics.history_attempts.set(i64::try_from(known).unwrap_or(i64::MAX));
        }
        let (learned, judging) = (self.parts.learned.clone(), self.parts.judging.clone());
        let failures = store::load_verdicts(&self.parts.store, |verdict| {
            // a verdict on an attempt that is remembered no longer has nothing to say about the next one
            if let Some(summary) = learned.get(&verdict.attempt) {
                judging.learn(&summary.key, &verdict);
            }
        });
        failures.await?;
        let swept = store::sweep(&self.parts.store).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "could not remove what a crash left behind; it is harmless and tried again");
        }
        let open = store::open_attempts(&self.parts.store).await?;
        tracing::info!(
            finished = loaded.records,
            damaged = loaded.damaged,
            open = open.len(),
            "history read"
        );
        for attempt in open {
            let session = self.take_up(attempt).await?;
            self.sessions.insert(session.attempt.id.clone(), session);
        }
        self.parts.metrics.open_attempts.set(i64::try_from(self.sessions.len()).unwrap_or(i64::MAX));
        Ok(())
    }

    async fn take_up(&self, attempt: Attempt) -> Result<Session, StoreError> {
        let mut session = Session::new(Arc::new(attempt), self.parts.clock.now_unix_ms());
        let (id, progress, mut samples) = (session.attempt.id.clone(), &mut session.progress, 0);
        // a run at a time: an attempt that never ends has more samples than memory
        let extent = store::each_run(&self.parts.store, &id, |run| {
            samples += run.samples.len() as u64;
            for fault in run.samples.iter().filter_map(|sample| progress.add(sample).err()) {
                // the samples were checked before they were stored: only a damaged record can bring this about
                tracing::warn!(attempt = %id, %fault, "a stored sample is out of order");
            }
        });
        let extent = extent.await?;
        session.loose = samples;
        session.acknowledged = extent.last_sequence;
        session.lost = extent.lost;
        Ok(session)
    }
}
