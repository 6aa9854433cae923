//! Runs queries over all attempts: a few at once, some more in a queue, and refuses the rest. They
//! share threads with allocations, verdicts and the store, which must always find a free thread.
//! Each query reserves its memory before it starts.

use std::sync::Arc;

use plimsoll_core::domain::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::{
    access::{Refusal, Reply},
    runtime::answer_memory::AnswerMemory,
};

/// Queries that run at once: each uses a core.
const QUERIES_AT_ONCE: usize = 4;
/// Most queries that run or wait at the same time.
const MAX_QUESTIONS: usize = 64;
/// Most queries for proposals at once: each holds the attempts of its packages in memory until its
/// rows are read from disk.
pub(super) const PROPOSALS_AT_ONCE: usize = 4;

/// The slots for queries, and the memory that they reserve. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct QuestionSlots {
    accepted_slots: Arc<Semaphore>,
    working_slots: Arc<Semaphore>,
    pub(super) proposal_slots: Arc<Semaphore>,
    pub(super) memory: AnswerMemory,
}

impl QuestionSlots {
    /// Creates the slots for queries, which reserve their memory from `memory`.
    pub(crate) fn new(memory: AnswerMemory) -> Self {
        Self {
            accepted_slots: Arc::new(Semaphore::new(MAX_QUESTIONS)),
            working_slots: Arc::new(Semaphore::new(QUERIES_AT_ONCE)),
            proposal_slots: Arc::new(Semaphore::new(PROPOSALS_AT_ONCE)),
            memory,
        }
    }

    /// Takes a slot for a query for proposals.
    /// Errors: all of them are taken.
    pub(super) fn take_proposal(&self) -> Reply<OwnedSemaphorePermit> {
        let full = |_| Refusal::Crowded { what: "questions about proposals", most: PROPOSALS_AT_ONCE };
        Arc::clone(&self.proposal_slots).try_acquire_owned().map_err(full)
    }

    /// Runs `work`, which needs this much memory, on a blocking thread.
    /// Errors: the queue is full, there is too little memory, or the work panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        needed: Bytes,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Reply<T> {
        let held = Arc::clone(&self.accepted_slots).try_acquire_owned();
        let held = held.map_err(|_full| Refusal::Crowded {
            what: "questions about all attempts",
            most: MAX_QUESTIONS,
        })?;
        let working = Arc::clone(&self.working_slots).acquire_owned().await;
        let working = working.map_err(|_closed| Refusal::Stopping)?;
        let memory = self.memory.take("a look at all attempts", needed)?;
        // the work itself holds its slots and memory, because it continues after its caller has
        // disconnected
        let counted = task::spawn_blocking(move || {
            let _places = (held, working, memory);
            work()
        });
        counted.await.map_err(|error| Refusal::Panicked(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::runtime::answer_memory::tests::kernel;

    #[tokio::test]
    async fn queries_beyond_available_memory_are_refused() {
        let (_root, memory) = kernel(100);
        let counting = QuestionSlots::new(memory);
        let refused = counting.run(Bytes(101 << 20), || ()).await;
        assert!(matches!(refused, Err(Refusal::TooLittleMemory(_))), "{refused:?}");
        counting.run(Bytes(10 << 20), || ()).await.unwrap();
        assert_eq!(counting.working_slots.available_permits(), QUERIES_AT_ONCE);
        assert_eq!(counting.accepted_slots.available_permits(), MAX_QUESTIONS);
    }

    #[tokio::test]
    async fn abandoned_queries_hold_slots_and_excess_is_refused() {
        let counting = QuestionSlots::new(AnswerMemory::below("/nowhere".into()));
        let (go, wait) = mpsc::channel::<()>();
        let (counts, tasks) = (counting.clone(), TaskTracker::new());
        let asked = tasks.spawn(async move { counts.run(Bytes(0), move || wait.recv()).await });
        while counting.working_slots.available_permits() == QUERIES_AT_ONCE {
            task::yield_now().await;
        }
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        assert_eq!(counting.working_slots.available_permits(), 3);
        assert_eq!(counting.accepted_slots.available_permits(), 63);
        let others = Arc::clone(&counting.accepted_slots).try_acquire_many_owned(63).unwrap();
        assert!(matches!(
            counting.run(Bytes(0), || ()).await,
            Err(Refusal::Crowded { most: MAX_QUESTIONS, .. })
        ));
        drop((others, go));
        counting.run(Bytes(0), || ()).await.unwrap();
        while counting.working_slots.available_permits() < QUERIES_AT_ONCE {
            task::yield_now().await;
        }
        let panicked = counting.run(Bytes(0), || panic!("on purpose")).await.map(|()| 0);
        assert!(matches!(panicked, Err(Refusal::Panicked(_))));
        assert_eq!(counting.accepted_slots.available_permits(), MAX_QUESTIONS);
    }
}
