//! The open attempts at a start: where the disk says they are.

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};

use super::{session::Session, worker::Worker};
use crate::{
    domain::{Attempt, AttemptId},
    store::{self, Store, StoreError},
};

/// Open attempts of which is asked at once whether they have samples: each that has none costs no visit of its own.
const ASKED_AT_ONCE: usize = 500;

/// Attempts whose samples are read at once. Ten thousand builds may run while a server starts anew, each with some hundreds of
/// fragments: while the engine looks for those of one, a core understands those of another. Each holds its fragments in memory.
const READ_AT_ONCE: usize = 8;

impl Worker {
    /// Takes the open attempts up, each where it was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn take_up_all(&mut self, open: Vec<Attempt>) -> Result<(), StoreError> {
        let mut reading = JoinSet::new();
        for attempts in open.chunks(ASKED_AT_ONCE) {
            let ids: Vec<&AttemptId> = attempts.iter().map(|attempt| &attempt.id).collect();
            let fed = store::have_samples(&self.parts.store, &ids).await?;
            for (attempt, fed) in attempts.iter().zip(fed) {
                let place = self.parts.placing.hold(attempt);
                let share = self.shares.of_taken_up(attempt);
                let session = Session { place, share, ..Session::new(Arc::new(attempt.clone()), self.now()) };
                let store = fed.then(|| self.parts.store.clone());
                self.begin_to_take_up(store, session, &mut reading).await?;
            }
        }
        while !reading.is_empty() {
            self.taken_up(reading.join_next().await)?;
        }
        Ok(())
    }

    /// Takes an attempt up as it is, or reads it from `store` beside others, if it was fed.
    async fn begin_to_take_up(
        &mut self,
        store: Option<Store>,
        session: Session,
        reading: &mut JoinSet<Result<Session, StoreError>>,
    ) -> Result<(), StoreError> {
        let Some(store) = store else {
            self.sessions.insert(session.attempt.id.clone(), session);
            return Ok(());
        };
        if reading.len() >= READ_AT_ONCE {
            self.taken_up(reading.join_next().await)?;
        }
        reading.spawn(take_up(store, session));
        Ok(())
    }

    fn taken_up(
        &mut self,
        read: Option<Result<Result<Session, StoreError>, JoinError>>,
    ) -> Result<(), StoreError> {
        let Some(read) = read else { return Ok(()) };
        let session = read.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        self.sessions.insert(session.attempt.id.clone(), session);
        Ok(())
    }
}

/// Reads how far an attempt had come.
async fn take_up(store: Store, mut session: Session) -> Result<Session, StoreError> {
    let (id, progress) = (session.attempt.id.clone(), &mut session.progress);
    // a run at a time: an attempt that never ends has more samples than memory
    let extent = store::each_run(&store, &id, |run| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Millis, Sample},
        ingest::fixture,
        store::Batch,
    };

    #[tokio::test]
    async fn each_of_many_open_attempts_goes_on_where_it_was() {
        let store = Store::memory();
        let numbers = 0..READ_AT_ONCE as u64 * 5;
        for n in numbers.clone() {
            let (attempt, mut batch) = (fixture::attempt(&n.to_string()), Batch::default());
            store::put_attempt(&mut batch, &attempt).unwrap();
            let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
            // every fifth was never fed
            let samples: Vec<Sample> = (1..=n % 5).map(sample).collect();
            store::append_fragment(&mut batch, &attempt.id, 1, 0, samples).unwrap();
            store.commit(batch).await.unwrap();
        }
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.resume().await.unwrap();
        assert_eq!(worker.sessions.len() as u64, numbers.end);
        for n in numbers {
            let session = &worker.sessions[&fixture::attempt(&n.to_string()).id];
            assert_eq!(
                (session.acknowledged, session.loose, session.progress.samples),
                (n % 5, n % 5, n % 5)
            );
        }
    }
}
