//! The samples of long attempts become sealed blocks while their attempts run, so that an open one never has many loose ones.
//!
//! This goes on beside the requests: a compaction takes what is acknowledged, and what is appended meanwhile lies behind it. One compaction of
//! an attempt at a time, and none while it ends. If packing falls behind, the answers of that attempt wait, and so its agent does.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::{self, JoinError, JoinSet};

/// Samples of an open attempt that are left loose before they become sealed blocks.
pub(crate) const COMPACT_AFTER: u64 = 900;

/// Loose samples of one attempt at which its answers wait for its compaction: a reader holds all of them at once. What its stream may
/// have on the way comes on top.
pub(crate) const FAR_BEHIND: u64 = 8 * COMPACT_AFTER;

/// Attempts that are packed at once: while one waits for the disk, another one keeps a core busy, and no more than that.
const AT_ONCE: usize = 2;

/// The samples of an attempt that a compaction takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseSamples {
    /// Everything up to this number is on disk.
    pub(crate) acknowledged: u64,
    /// How many are in no sealed block.
    pub(crate) count: u64,
}

/// What became of a compaction.
#[derive(Debug)]
pub(crate) struct EndedCompaction {
    attempt: AttemptId,
    /// Samples that were loose when it began.
    loose: u64,
    result: Result<(), SealError>,
}

/// What the owner of the attempts makes of a compaction that has ended.
#[derive(Debug)]
pub(crate) enum CompactionOutcome {
    /// So many samples are in sealed blocks.
    Sealed(u64),
    /// So many samples of the attempt are as loose as they were.
    StillLoose(AttemptId, u64),
    /// What is loose is sealed when the attempt ends.
    Aborted,
}

/// The compactions that run and those that wait.
#[derive(Debug)]
pub(crate) struct CompactionQueue {
    store: Store,
    tasks: JoinSet<EndedCompaction>,
    running: HashMap<AttemptId, task::Id>,
    waiting: VecDeque<AttemptId>,
    /// Those in `waiting`.
    asked: HashSet<AttemptId>,
}

impl CompactionQueue {
    /// No compaction runs.
    pub(crate) fn new(store: Store) -> Self {
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self { store, tasks, running, waiting: VecDeque::new(), asked: HashSet::new() }
    }

    /// The next compaction that ends; never comes if none runs. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<EndedCompaction, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Has an attempt compacted that has so many loose samples, if these are many.
    pub(crate) fn ask(&mut self, id: &AttemptId, loose: u64) {
        if loose >= COMPACT_AFTER && !self.running.contains_key(id) && self.asked.insert(id.clone()) {
            self.waiting.push_back(id.clone());
        }
    }

    /// Whether the attempt is compacted, or waits for it.
    pub(crate) fn is_busy_with(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id) || self.asked.contains(id)
    }

    /// Whether the attempt is compacted now.
    pub(crate) fn is_running(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id)
    }

    /// Whether so many samples of an attempt are far too many, and its compaction goes on or waits.
    pub(crate) fn is_far_behind(&self, id: &AttemptId, loose: u64) -> bool {
        loose >= FAR_BEHIND && self.is_busy_with(id)
    }

    /// Begins compactions that wait, as many as there is room for. `take` gives the loose samples of an open attempt, which counts them no more.
    pub(crate) fn begin(&mut self, mut take: impl FnMut(&AttemptId) -> Option<LooseSamples>) {
        while self.tasks.len() < AT_ONCE {
            let Some(id) = self.waiting.pop_front() else { return };
            self.asked.remove(&id);
            let Some(loose) = take(&id) else { continue };
            let task = self.tasks.spawn(compact(self.store.clone(), id.clone(), loose)).id();
            self.running.insert(id, task);
        }
    }

    /// Takes in what became of a compaction.
    pub(crate) fn ended(&mut self, ended: Result<EndedCompaction, JoinError>) -> CompactionOutcome {
        match ended {
            Ok(EndedCompaction { attempt, loose, result: Ok(()) }) => {
                self.running.remove(&attempt);
                CompactionOutcome::Sealed(loose)
            }
            Ok(EndedCompaction { attempt, loose, result: Err(error) }) => {
                // the samples stay where they are, and the next batch tries again
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

    /// The attempt waits for no compaction any more. One that runs goes on.
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
