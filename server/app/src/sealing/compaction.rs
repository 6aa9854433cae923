//! Compacts fragments of long attempts into sealed blocks while they run, so that an open attempt never has many fragments.
//!
//! This runs beside requests: a compaction covers acknowledged samples, and samples appended meanwhile come after them. There is one
//! compaction of an attempt at a time, and none while it ends. If compaction falls behind, the acknowledgements of that attempt wait, and
//! so does its agent.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::{self, JoinError, JoinSet};

/// Samples in fragments of an open attempt that start a compaction.
pub(crate) const COMPACT_AFTER: u64 = 900;

/// Samples in fragments of one attempt at which its acknowledgements wait for the compaction: a reader loads all of them at once. Samples
/// in flight on its stream are added to these.
pub(crate) const FAR_BEHIND: u64 = 8 * COMPACT_AFTER;

/// Attempts packed at once: while one waits for the disk, another one uses a core; more cores are not used.
const COMPACTIONS_AT_ONCE: usize = 2;

/// The samples covered by a compaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseSamples {
    /// Everything up to this number is on disk.
    pub(crate) acknowledged: u64,
    /// Number of samples that are in no sealed block.
    pub(crate) count: u64,
}

/// Result of a compaction.
#[derive(Debug)]
pub(crate) struct EndedCompaction {
    attempt: AttemptId,
    /// Samples in fragments when it started.
    loose: u64,
    result: Result<(), SealError>,
}

/// The result of a compaction, for the owner of the attempt.
#[derive(Debug)]
pub(crate) enum CompactionOutcome {
    /// This many samples were sealed into blocks.
    Sealed(u64),
    /// The compaction failed: this many samples of the attempt are still in fragments.
    StillLoose(AttemptId, u64),
    /// The compaction was aborted: the rest is sealed at the end of the attempt.
    Aborted,
}

/// Running and waiting compactions.
#[derive(Debug)]
pub(crate) struct CompactionQueue {
    store: Store,
    tasks: JoinSet<EndedCompaction>,
    running: HashMap<AttemptId, task::Id>,
    waiting: VecDeque<AttemptId>,
    /// The attempts in `waiting`.
    asked: HashSet<AttemptId>,
}

impl CompactionQueue {
    /// A queue in which no compaction runs.
    pub(crate) fn new(store: Store) -> Self {
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self { store, tasks, running, waiting: VecDeque::new(), asked: HashSet::new() }
    }

    /// Waits for the next compaction to end; forever if none runs. The future may be dropped and the method called again.
    pub(crate) async fn next(&mut self) -> Result<EndedCompaction, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Requests the compaction of an attempt with `loose` samples in fragments, if these are many.
    pub(crate) fn ask(&mut self, id: &AttemptId, loose: u64) {
        if loose >= COMPACT_AFTER && !self.running.contains_key(id) && self.asked.insert(id.clone()) {
            self.waiting.push_back(id.clone());
        }
    }

    /// Whether the attempt is being compacted, or waits for it.
    pub(crate) fn is_busy_with(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id) || self.asked.contains(id)
    }

    /// Whether the attempt is compacted now.
    pub(crate) fn is_running(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id)
    }

    /// Whether an attempt has far too many samples in fragments, and its compaction runs or waits.
    pub(crate) fn is_far_behind(&self, id: &AttemptId, loose: u64) -> bool {
        loose >= FAR_BEHIND && self.is_busy_with(id)
    }

    /// Starts waiting compactions, up to the bound. `take` returns the samples of an open attempt in fragments, and resets their count.
    pub(crate) fn begin(&mut self, mut take: impl FnMut(&AttemptId) -> Option<LooseSamples>) {
        while self.tasks.len() < COMPACTIONS_AT_ONCE {
            let Some(id) = self.waiting.pop_front() else { return };
            self.asked.remove(&id);
            let Some(loose) = take(&id) else { continue };
            let task = self.tasks.spawn(compact(self.store.clone(), id.clone(), loose)).id();
            self.running.insert(id, task);
        }
    }

    /// Processes the result of a compaction.
    pub(crate) fn finish(&mut self, ended: Result<EndedCompaction, JoinError>) -> CompactionOutcome {
        match ended {
            Ok(EndedCompaction { attempt, loose, result: Ok(()) }) => {
                self.running.remove(&attempt);
                CompactionOutcome::Sealed(loose)
            }
            Ok(EndedCompaction { attempt, loose, result: Err(error) }) => {
                // the samples stay in fragments, and the next batch tries again
                tracing::warn!(%attempt, %error, "could not seal the first part of a long attempt");
                self.running.remove(&attempt);
                CompactionOutcome::StillLoose(attempt, loose)
            }
            // a panic
            Err(error) => {
                tracing::error!(%error, "sealing a part of a long attempt failed unexpectedly");
                self.running.retain(|_, task| *task != error.id());
                CompactionOutcome::Aborted
            }
        }
    }

    /// Removes a waiting compaction. A running one continues.
    pub(crate) fn forget(&mut self, id: &AttemptId) {
        if self.asked.remove(id) {
            self.waiting.retain(|waiting| waiting != id);
        }
    }
}

/// Compacts the samples of an attempt up to the number that is acknowledged.
async fn compact(store: Store, attempt: AttemptId, loose: LooseSamples) -> EndedCompaction {
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
