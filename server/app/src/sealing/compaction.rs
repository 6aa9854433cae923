//! The samples of long attempts become sealed blocks while their attempts run, so that an open one never has many loose ones.
//!
//! This goes on beside the requests: a roll takes what is acknowledged, and what is appended meanwhile lies behind it. One roll of
//! an attempt at a time, and none while it ends. If packing falls behind, the answers of that attempt wait, and so its agent does.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::{self as store, SealError, Store};
use tokio::task::{self, JoinError, JoinSet};

/// Samples of an open attempt that are left loose before they become sealed blocks.
pub(crate) const ROLL_AFTER: u64 = 900;

/// Loose samples of one attempt at which its answers wait for its roll: a reader holds all of them at once. What its stream may
/// have on the way comes on top.
pub(crate) const FAR_BEHIND: u64 = 8 * ROLL_AFTER;

/// Attempts that are packed at once: while one waits for the disk, another one keeps a core busy, and no more than that.
const AT_ONCE: usize = 2;

/// The samples of an attempt that a roll takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseSamples {
    /// Everything up to this number is on disk.
    pub(crate) acknowledged: u64,
    /// How many are in no sealed block.
    pub(crate) count: u64,
}

/// What became of a roll.
#[derive(Debug)]
pub(crate) struct EndedRoll {
    attempt: AttemptId,
    /// Samples that were loose when it began.
    loose: u64,
    result: Result<(), SealError>,
}

/// What the owner of the attempts makes of a roll that has ended.
#[derive(Debug)]
pub(crate) enum RollOutcome {
    /// So many samples are in sealed blocks.
    Sealed(u64),
    /// So many samples of the attempt are as loose as they were.
    StillLoose(AttemptId, u64),
    /// What is loose is sealed when the attempt ends.
    Aborted,
}

/// The rolls that run and those that wait.
#[derive(Debug)]
pub(crate) struct RollQueue {
    store: Store,
    tasks: JoinSet<EndedRoll>,
    running: HashMap<AttemptId, task::Id>,
    waiting: VecDeque<AttemptId>,
    /// Those in `waiting`.
    asked: HashSet<AttemptId>,
}

impl RollQueue {
    /// No roll runs.
    pub(crate) fn new(store: Store) -> Self {
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self { store, tasks, running, waiting: VecDeque::new(), asked: HashSet::new() }
    }

    /// The next roll that ends; never comes if none runs. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<EndedRoll, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Has an attempt rolled that has so many loose samples, if these are many.
    pub(crate) fn ask(&mut self, id: &AttemptId, loose: u64) {
        if loose >= ROLL_AFTER && !self.running.contains_key(id) && self.asked.insert(id.clone()) {
            self.waiting.push_back(id.clone());
        }
    }

    /// Whether the attempt is rolled, or waits for it.
    pub(crate) fn is_busy_with(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id) || self.asked.contains(id)
    }

    /// Whether the attempt is rolled now.
    pub(crate) fn is_running(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id)
    }

    /// Whether so many samples of an attempt are far too many, and its roll goes on or waits.
    pub(crate) fn is_far_behind(&self, id: &AttemptId, loose: u64) -> bool {
        loose >= FAR_BEHIND && self.is_busy_with(id)
    }

    /// Begins rolls that wait, as many as there is room for. `take` gives the loose samples of an open attempt, which counts them no more.
    pub(crate) fn begin(&mut self, mut take: impl FnMut(&AttemptId) -> Option<LooseSamples>) {
        while self.tasks.len() < AT_ONCE {
            let Some(id) = self.waiting.pop_front() else { return };
            self.asked.remove(&id);
            let Some(loose) = take(&id) else { continue };
            let task = self.tasks.spawn(roll(self.store.clone(), id.clone(), loose)).id();
            self.running.insert(id, task);
        }
    }

    /// Takes in what became of a roll.
    pub(crate) fn ended(&mut self, ended: Result<EndedRoll, JoinError>) -> RollOutcome {
        match ended {
            Ok(EndedRoll { attempt, loose, result: Ok(()) }) => {
                self.running.remove(&attempt);
                RollOutcome::Sealed(loose)
            }
            Ok(EndedRoll { attempt, loose, result: Err(error) }) => {
                // the samples stay where they are, and the next batch tries again
                tracing::warn!(%attempt, %error, "could not seal the first part of a long attempt");
                self.running.remove(&attempt);
                RollOutcome::StillLoose(attempt, loose)
            }
            // a panic
            Err(error) => {
                tracing::error!(%error, "sealing a part of a long attempt failed unexpectedly");
                self.running.retain(|_, task| *task != error.id());
                RollOutcome::Aborted
            }
        }
    }

    /// The attempt waits for no roll any more. One that runs goes on.
    pub(crate) fn forget(&mut self, id: &AttemptId) {
        if self.asked.remove(id) {
            self.waiting.retain(|waiting| waiting != id);
        }
    }
}

/// Rolls the samples of an attempt up to the number that is acknowledged.
async fn roll(store: Store, attempt: AttemptId, loose: LooseSamples) -> EndedRoll {
    let rolled = async {
        loop {
            let roll = store::roll_up_to(&store, &attempt, loose.acknowledged).await?;
            store.commit(roll.batch).await?;
            if !roll.more {
                return Ok(());
            }
        }
    };
    let result = rolled.await;
    EndedRoll { attempt, loose: loose.count, result }
}
