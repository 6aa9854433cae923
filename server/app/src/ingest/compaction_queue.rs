//! Compacts fragments of long attempts into sealed blocks while they run, so that an open attempt never has many fragments.
//!
//! Fragments are the records in which samples are first stored, one for each batch. A compaction
//! covers the samples acknowledged when it starts; samples appended meanwhile come after them. An
//! attempt has at most one compaction at a time, and none while it ends. If compaction falls
//! behind, the acknowledgements of that attempt wait, and so does its agent.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::{self, JoinError, JoinSet};

/// Number of samples in fragments of an open attempt at which it is compacted.
pub(crate) const COMPACT_AFTER: u64 = 900;

/// Number of samples in fragments of an attempt at which its acknowledgements wait for the
/// compaction: a reader loads all of them at once. Samples on their way from the agent come on top.
pub(crate) const MAX_FRAGMENT_SAMPLES: u64 = 8 * COMPACT_AFTER;

/// Attempts compacted at the same time: while one waits for the disk, the other uses a core. More
/// cores are not used.
const COMPACTIONS_AT_ONCE: usize = 2;

/// The samples that a compaction covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseSamples {
    /// All samples up to this sequence number are on disk.
    pub(crate) acknowledged: u64,
    /// Number of samples that are not yet in a sealed block.
    pub(crate) count: u64,
}

/// Result of a compaction.
#[derive(Debug)]
pub(crate) struct EndedCompaction {
    attempt: AttemptId,
    /// Samples in fragments when the compaction started.
    loose: u64,
    result: Result<(), SealError>,
}

/// The result of a compaction, for the task that owns the open attempt.
#[derive(Debug)]
pub(crate) enum CompactionOutcome {
    /// This many samples were sealed into blocks.
    Sealed(u64),
    /// The compaction failed: this many samples of the attempt are still in fragments.
    StillLoose(AttemptId, u64),
    /// The compaction panicked: the samples are sealed at the end of the attempt.
    Aborted,
}

/// Running and waiting compactions.
#[derive(Debug)]
pub(crate) struct CompactionQueue {
    store: Store,
    tasks: JoinSet<EndedCompaction>,
    running_tasks: HashMap<AttemptId, task::Id>,
    waiting_attempts: VecDeque<AttemptId>,
    /// The attempts in `waiting`.
    requested: HashSet<AttemptId>,
}

impl CompactionQueue {
    /// Starts without compactions.
    pub(crate) fn new(store: Store) -> Self {
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self {
            store,
            tasks,
            running_tasks: running,
            waiting_attempts: VecDeque::new(),
            requested: HashSet::new(),
        }
    }

    /// Waits for the next compaction to end; waits for ever if none runs. The future may be dropped
    /// and the method called again.
    pub(crate) async fn next(&mut self) -> Result<EndedCompaction, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Requests the compaction of an attempt with `loose` samples in fragments, if there are enough
    /// of them.
    pub(crate) fn request(&mut self, id: &AttemptId, loose: u64) {
        if loose >= COMPACT_AFTER && !self.running_tasks.contains_key(id) && self.requested.insert(id.clone())
        {
            self.waiting_attempts.push_back(id.clone());
        }
    }

    /// Whether the attempt is being compacted, or waits for its compaction.
    pub(crate) fn is_busy_with(&self, id: &AttemptId) -> bool {
        self.running_tasks.contains_key(id) || self.requested.contains(id)
    }

    /// Whether the attempt is being compacted.
    pub(crate) fn is_running(&self, id: &AttemptId) -> bool {
        self.running_tasks.contains_key(id)
    }

    /// Whether the attempt has too many samples in fragments while its compaction runs or waits.
    pub(crate) fn has_too_many_fragments(&self, id: &AttemptId, loose: u64) -> bool {
        loose >= MAX_FRAGMENT_SAMPLES && self.is_busy_with(id)
    }

    /// Starts waiting compactions, up to the bound. `take` returns the samples of an open attempt
    /// that are in fragments, and resets their count.
    pub(crate) fn start_waiting(&mut self, mut take: impl FnMut(&AttemptId) -> Option<LooseSamples>) {
        while self.tasks.len() < COMPACTIONS_AT_ONCE {
            let Some(id) = self.waiting_attempts.pop_front() else { return };
            self.requested.remove(&id);
            let Some(loose) = take(&id) else { continue };
            let task = self.tasks.spawn(compact_attempt(self.store.clone(), id.clone(), loose)).id();
            self.running_tasks.insert(id, task);
        }
    }

    /// Processes the result of a compaction.
    pub(crate) fn finish(&mut self, ended: Result<EndedCompaction, JoinError>) -> CompactionOutcome {
        match ended {
            Ok(EndedCompaction { attempt, loose, result: Ok(()) }) => {
                self.running_tasks.remove(&attempt);
                CompactionOutcome::Sealed(loose)
            }
            Ok(EndedCompaction { attempt, loose, result: Err(error) }) => {
                // the samples stay in fragments; the next batch requests a compaction again
                tracing::warn!(%attempt, %error, "could not seal the first part of a long attempt");
                self.running_tasks.remove(&attempt);
                CompactionOutcome::StillLoose(attempt, loose)
            }
            // the task panicked
            Err(error) => {
                tracing::error!(%error, "sealing a part of a long attempt failed unexpectedly");
                self.running_tasks.retain(|_, task| *task != error.id());
                CompactionOutcome::Aborted
            }
        }
    }

    /// Removes a waiting compaction. A compaction that runs continues.
    pub(crate) fn forget(&mut self, id: &AttemptId) {
        if self.requested.remove(id) {
            self.waiting_attempts.retain(|waiting| waiting != id);
        }
    }
}

/// Compacts the samples of an attempt up to the acknowledged sequence number.
async fn compact_attempt(store: Store, attempt: AttemptId, loose: LooseSamples) -> EndedCompaction {
    let compacted = async {
        loop {
            let compaction = store::compact_samples_up_to(&store, &attempt, loose.acknowledged).await?;
            store.commit(compaction.batch).await?;
            if !compaction.more {
                return Ok(());
            }
        }
    };
    let result = compacted.await;
    EndedCompaction { attempt, loose: loose.count, result }
}
