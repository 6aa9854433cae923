//! What the ingest knows when it starts: finished attempts to learn from, and open ones to go on with.

use std::sync::Arc;

use super::{session::Session, worker::Worker};
use crate::{
    domain::{Attempt, Progress, Summary},
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
        self.count_open();
        Ok(())
    }

    async fn take_up(&self, attempt: Attempt) -> Result<Session, StoreError> {
        let mut session = Session::new(Arc::new(attempt), self.now());
        let (id, mut progress, mut loose) = (session.attempt.id.clone(), Progress::default(), 0);
        // a page at a time: nobody knows how long it ran
        let extent = store::each_run(&self.parts.store, &id, |run| {
            for sample in &run.samples {
                loose += 1;
                // the samples were checked before they were stored: only a damaged record can bring this about
                let odd = |fault| tracing::warn!(attempt = %id, %fault, "a stored sample is out of order");
                progress.add(sample).unwrap_or_else(odd);
            }
        });
        let extent = extent.await?;
        (session.acknowledged, session.lost) = (extent.last_sequence, extent.lost);
        (session.progress, session.loose) = (progress, loose);
        Ok(session)
    }
}
