//! The samples of long attempts become sealed blocks while their attempts run, so that an open one never has many loose ones.
//!
//! This goes on beside the requests: a roll takes what is acknowledged, and what is appended meanwhile lies behind it. One roll of
//! an attempt at a time, and none while it ends. If packing falls behind, the answers of that attempt wait, and so its agent does.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::task::{self, JoinError, JoinSet};

use super::{round::Promise, worker::Worker};
use crate::{
    domain::AttemptId,
    store::{self, SealError, Store},
};

/// Samples of an open attempt that are left loose before they become sealed blocks.
const ROLL_AFTER: u64 = 900;

/// Loose samples of one attempt at which its answers wait for its roll: a reader holds all of them at once. What its stream may
/// have on the way comes on top.
const FAR_BEHIND: u64 = 8 * ROLL_AFTER;

/// Attempts that are packed at once: while one waits for the disk, another one keeps a core busy, and no more than that.
const AT_ONCE: usize = 2;

/// What became of a roll: whose, how many samples were loose when it began, and why it failed.
type Rolled = (AttemptId, u64, Result<(), SealError>);

/// The rolls that run and those that wait.
#[derive(Debug, Default)]
pub(super) struct Rolling {
    tasks: JoinSet<Rolled>,
    running: HashMap<AttemptId, task::Id>,
    waiting: VecDeque<AttemptId>,
    /// Those in `waiting`.
    asked: HashSet<AttemptId>,
    /// Answers of attempts that are far behind. All they say is on disk. As many as their streams have on the way.
    held: Vec<Promise>,
}

impl Rolling {
    /// The next roll that ends; never comes if none runs. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Rolled, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    fn ask(&mut self, id: AttemptId) {
        if !self.running.contains_key(&id) && self.asked.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    fn is_busy_with(&self, id: &AttemptId) -> bool {
        self.running.contains_key(id) || self.asked.contains(id)
    }

    /// Gives the answers that were held for a roll that has ended.
    fn release(&mut self) {
        for promise in std::mem::take(&mut self.held) {
            if promise.attempt().is_some_and(|id| self.is_busy_with(id)) {
                self.held.push(promise);
            } else {
                promise.keep();
            }
        }
    }

    /// Gives all answers that are held.
    pub(super) fn release_all(&mut self) {
        self.held.drain(..).for_each(Promise::keep);
    }
}

impl Worker {
    /// Begins to roll those of the changed attempts that have many loose samples.
    pub(super) fn roll_long(&mut self, changed: &[AttemptId]) {
        for id in changed {
            if self.loose(id) >= ROLL_AFTER {
                self.rolling.ask(id.clone());
            }
        }
        self.begin_rolls();
    }

    fn loose(&self, id: &AttemptId) -> u64 {
        self.sessions.get(id).map_or(0, |session| session.loose)
    }

    /// Gives an answer, unless its attempt has far too many loose samples and its agent would send still more: then it is given when
    /// the roll has ended, well or not. All others go on meanwhile.
    pub(super) fn keep_or_hold(&mut self, promise: Promise) {
        let behind = |id: &AttemptId| self.loose(id) >= FAR_BEHIND && self.rolling.is_busy_with(id);
        if promise.attempt().is_some_and(behind) {
            self.rolling.held.push(promise);
        } else {
            promise.keep();
        }
    }

    fn begin_rolls(&mut self) {
        while self.rolling.tasks.len() < AT_ONCE {
            let Some(id) = self.rolling.waiting.pop_front() else { return };
            self.rolling.asked.remove(&id);
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let loose = std::mem::take(&mut session.loose);
            let roll = roll(self.parts.store.clone(), id.clone(), session.acknowledged, loose);
            let task = self.rolling.tasks.spawn(roll).id();
            self.rolling.running.insert(id, task);
        }
    }

    /// Takes in what became of a roll, and begins the next one.
    pub(super) fn rolled(&mut self, ended: Result<Rolled, JoinError>) {
        match ended {
            Ok((id, loose, Ok(()))) => {
                self.rolling.running.remove(&id);
                self.pass.add(&self.parts.retain, loose);
            }
            Ok((id, loose, Err(error))) => {
                // the samples stay where they are, and the next batch tries again
                tracing::warn!(attempt = %id, %error, "could not seal the first part of a long attempt");
                self.rolling.running.remove(&id);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.loose = session.loose.saturating_add(loose);
                }
            }
            // a panic: what is loose is sealed when the attempt ends
            Err(error) => {
                tracing::error!(%error, "sealing a part of a long attempt ended badly");
                self.rolling.running.retain(|_, task| *task != error.id());
            }
        }
        self.rolling.release();
        self.begin_rolls();
    }

    /// Waits until these attempts are not rolled any more: whoever seals them reads what is loose.
    pub(super) async fn stop_rolling<'a>(&mut self, ids: impl Iterator<Item = &'a AttemptId>) {
        for id in ids {
            if self.rolling.asked.remove(id) {
                self.rolling.waiting.retain(|waiting| waiting != id);
            }
            while self.rolling.running.contains_key(id) {
                let ended = self.rolling.next().await;
                self.rolled(ended);
            }
        }
        self.rolling.release();
    }
}

/// Rolls the samples of an attempt up to the number `acknowledged`.
async fn roll(store: Store, id: AttemptId, acknowledged: u64, loose: u64) -> Rolled {
    let rolled = async {
        loop {
            let roll = store::roll_up_to(&store, &id, acknowledged).await?;
            store.commit(roll.batch).await?;
            if !roll.more {
                return Ok(());
            }
        }
    };
    let rolled = rolled.await;
    (id, loose, rolled)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        domain::{Millis, Sample, test_summary},
        ingest::{fixture, session::Session},
        store::{Batch, MemoryStore},
    };

    /// A worker with an attempt that has so many loose samples on disk.
    async fn with_loose(memory: &MemoryStore, samples: u64) -> (Worker, AttemptId) {
        let store = Store::Memory(memory.clone());
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let attempt = fixture::attempt("a");
        let mut session = Session::new(attempt.clone().into(), worker.now());
        (session.acknowledged, session.loose) = (samples, samples);
        worker.sessions.insert(attempt.id.clone(), session);
        append(&store, &attempt.id, 1, samples).await;
        (worker, attempt.id)
    }

    async fn append(store: &Store, id: &AttemptId, first: u64, last: u64) {
        let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
        let samples: Vec<Sample> = (first..=last).map(sample).collect();
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, id, first, 0, samples).unwrap();
        store.commit(batch).await.unwrap();
    }

    #[tokio::test]
    async fn requests_go_on_while_a_long_attempt_is_rolled_and_no_sample_is_lost() {
        let memory = MemoryStore::default();
        let (mut worker, id) = with_loose(&memory, ROLL_AFTER).await;
        worker.roll_long(slice::from_ref(&id));
        assert_eq!((worker.rolling.running.len(), worker.sessions[&id].loose), (1, 0), "it has only begun");
        let store = Store::Memory(memory);
        append(&store, &id, ROLL_AFTER + 1, 1000).await;
        let ended = worker.rolling.next().await;
        worker.rolled(ended);
        assert!(worker.rolling.running.is_empty());
        let extent = store::read_series(&store, &id).await.unwrap().extent;
        assert_eq!((extent.samples, extent.lost, extent.loose), (1000, 0, 100));
    }

    #[tokio::test]
    async fn an_attempt_ends_after_its_roll() {
        let memory = MemoryStore::default();
        let (mut worker, id) = with_loose(&memory, ROLL_AFTER).await;
        worker.roll_long(slice::from_ref(&id));
        worker.stop_rolling([&id].into_iter()).await;
        assert!(!worker.rolling.is_busy_with(&id));
        let store = Store::Memory(memory);
        store::seal(&store, &worker.sessions[&id].attempt, &test_summary("a", "zlib", "1", 1)).await.unwrap();
        let extent = store::read_series(&store, &id).await.unwrap().extent;
        assert_eq!((extent.samples, extent.lost, extent.loose), (ROLL_AFTER, 0, 0));
    }

    #[tokio::test]
    async fn only_the_answers_of_an_attempt_far_behind_wait_for_its_roll_also_for_one_that_fails() {
        let memory = MemoryStore::default();
        let (mut worker, id) = with_loose(&memory, FAR_BEHIND).await;
        memory.refuse_commits("the disk is full");
        worker.roll_long(slice::from_ref(&id));
        assert_eq!(worker.loose(&id), 0, "begun");
        // more came meanwhile
        worker.sessions.get_mut(&id).unwrap().loose = FAR_BEHIND;
        let mut answered = [id.clone(), fixture::attempt("b").id].map(|id| {
            let (answer, answered) = oneshot::channel();
            worker.keep_or_hold(Promise::Acknowledged(id, answer, 5));
            answered
        });
        let said = answered.each_mut().map(|answered| answered.try_recv().ok());
        assert_eq!(said, [None, Some(Ok(5))], "others go on");
        let ended = worker.rolling.next().await;
        worker.rolled(ended);
        assert_eq!(worker.loose(&id), 2 * FAR_BEHIND, "all is still to be rolled");
        assert_eq!(answered[0].try_recv(), Ok(Ok(5)), "what it says is on disk");
        memory.accept_commits();
        worker.roll_long(slice::from_ref(&id));
        worker.stop_rolling([&id].into_iter()).await;
        assert_eq!(worker.loose(&id), 0);
        let store = Store::Memory(memory);
        assert_eq!(store::read_series(&store, &id).await.unwrap().extent.loose, 0);
    }
}
