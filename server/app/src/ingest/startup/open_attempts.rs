//! Reads the progress of open attempts from disk when the server starts.

use plimsoll_core::domain::{Attempt, AttemptId, SampleAccumulator};
use plimsoll_store::{self as store, SeriesExtent, Store, StoreError};
use tokio::task::{JoinError, JoinSet};

/// Open attempts for which one call checks whether they have samples; attempts without samples need
/// no call of their own.
const ASKED_AT_ONCE: usize = 500;

/// Number of attempts that are read at the same time: while the storage engine reads the fragments
/// of one attempt, a core decodes those of another. Ten thousand builds may run while a server
/// restarts, each with some hundreds of fragments. Each read holds its fragments in memory.
const READ_AT_ONCE: usize = 8;

/// Progress of an open attempt, as stored.
#[derive(Debug)]
pub(crate) struct StoredProgress {
    pub(crate) attempt: AttemptId,
    pub(crate) progress: SampleAccumulator,
    pub(crate) extent: SeriesExtent,
}

type Reading = JoinSet<Result<StoredProgress, StoreError>>;

/// Passes the progress of each open attempt with samples to `take`.
/// Errors: the store cannot be read.
pub(crate) async fn read_open(
    store: &Store,
    open: &[Attempt],
    mut take: impl FnMut(StoredProgress),
) -> Result<(), StoreError> {
    let mut reading = Reading::new();
    for attempts in open.chunks(ASKED_AT_ONCE) {
        let ids: Vec<&AttemptId> = attempts.iter().map(|attempt| &attempt.id).collect();
        let fed = store::have_samples(store, &ids).await?;
        for (id, _fed) in ids.into_iter().zip(fed).filter(|(_id, fed)| *fed) {
            if reading.len() >= READ_AT_ONCE
                && let Some(read) = reading.join_next().await
            {
                take(of(read)?);
            }
            reading.spawn(read_progress(store.clone(), id.clone()));
        }
    }
    while let Some(read) = reading.join_next().await {
        take(of(read)?);
    }
    Ok(())
}

fn of(read: Result<Result<StoredProgress, StoreError>, JoinError>) -> Result<StoredProgress, StoreError> {
    read.map_err(|error| StoreError::Unavailable(error.to_string()))?
}

async fn read_progress(store: Store, attempt: AttemptId) -> Result<StoredProgress, StoreError> {
    let mut progress = SampleAccumulator::default();
    // reads one run of samples at a time, because an attempt that never ends has more samples than
    // fit into memory
    let extent = store::each_run_past_damage(&store, &attempt, |run| {
        for fault in run.samples.iter().filter_map(|sample| progress.add(sample).err()) {
            // samples are checked before they are stored, so only damage can cause this
            tracing::warn!(%attempt, %fault, "a stored sample is out of order");
        }
    });
    let extent = extent.await?;
    Ok(StoredProgress { attempt, progress, extent })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Millis, Sample};
    use plimsoll_store::Batch;

    use super::*;
    use crate::ingest::fixture;

    #[tokio::test]
    async fn many_open_attempts_resume_where_they_were() {
        let store = Store::memory();
        let numbers = 0..READ_AT_ONCE as u64 * 5;
        for n in numbers.clone() {
            let (attempt, mut batch) = (fixture::attempt(&n.to_string()), Batch::default());
            store::put(&mut batch, &attempt).unwrap();
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
            assert_eq!(session.acknowledged, n % 5);
            assert_eq!(session.loose, n % 5);
            assert_eq!(session.progress.samples, n % 5);
        }
    }
}
