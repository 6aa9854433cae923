//! Queue of verdict requests. Matching a log uses a core, so only a few requests are judged at a
//! time. The queue is bounded, and requests about the same attempt are judged one after the other.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::domain::AttemptId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    access::{Refusal, Reply},
    runtime::metrics::{KindLabel, Metrics},
};

/// Most requests that run or wait: the longest logs take 0.15 s each on one of two cores, so the
/// last request waits for 20 s.
const MAX_QUESTIONS: usize = 256;
/// Slots reserved for trusted callers, so that others cannot fill the queue.
const TRUSTED_SLOTS: usize = 64;

/// Verdicts computed at once; others are queued. Matching a log uses a core, and more of them would
/// take the cores from predictions.
const WEIGHED_AT_ONCE: usize = 2;

/// The queue of questions for verdicts. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct VerdictQueue {
    slots: Arc<Semaphore>,
    /// One permit for each question that may use a core.
    cores: Arc<Semaphore>,
    turns: AttemptTurns,
    metrics: Arc<Metrics>,
}

/// A slot in the queue, freed on drop: also when its caller stops waiting.
#[derive(Debug)]
pub(crate) struct QueuedQuestion {
    metrics: Arc<Metrics>,
    #[expect(dead_code, reason = "held for its end")]
    slot: OwnedSemaphorePermit,
}

/// Attempts with requests: a semaphore for each, and the number of requests that hold or wait for
/// it.
type AttemptTurns = Arc<Mutex<HashMap<AttemptId, (Arc<Semaphore>, usize)>>>;

/// Exclusive right to judge an attempt. Held while a verdict is computed and stored, so that the
/// next request sees the result.
#[derive(Debug)]
pub(crate) struct AttemptTurn {
    attempt: AttemptId,
    turns: AttemptTurns,
    permit: Option<OwnedSemaphorePermit>,
}

impl VerdictQueue {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        metrics.verdicts_asked_max.set(i64::try_from(MAX_QUESTIONS).unwrap_or(i64::MAX));
        let (slots, cores) = (Semaphore::new(MAX_QUESTIONS), Semaphore::new(WEIGHED_AT_ONCE));
        Self { slots: Arc::new(slots), cores: Arc::new(cores), turns: Arc::default(), metrics }
    }

    /// Takes a slot in the queue, for a caller that is `trusted` or not.
    /// Errors: the queue is full.
    pub(super) fn take_slot(&self, trusted: bool) -> Reply<QueuedQuestion> {
        let kept_free = if trusted { 0 } else { TRUSTED_SLOTS };
        let is_room = self.slots.available_permits() > kept_free;
        let place = Arc::clone(&self.slots).try_acquire_owned().ok().filter(|_place| is_room);
        let Some(place) = place else {
            return Err(self.count_refusal(Refusal::TooManyVerdicts(MAX_QUESTIONS - kept_free)));
        };
        self.metrics.verdicts_asked.inc();
        Ok(QueuedQuestion { metrics: Arc::clone(&self.metrics), slot: place })
    }

    /// Waits until a question may use a core: while its secrets are masked, and while its log is matched. Never fails, because the
    /// semaphore is never closed.
    pub(super) async fn core(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.cores).acquire_owned().await.ok()
    }

    /// Waits until no other request about the attempt is judged.
    pub(crate) async fn wait_for_turn(&self, attempt: &AttemptId) -> AttemptTurn {
        let (mut turn, semaphore) = AttemptTurn::request_turn(attempt, &self.turns);
        turn.permit = Arc::clone(&semaphore).try_acquire_owned().ok();
        if turn.permit.is_none() {
            // never fails, because the semaphore is never closed
            turn.permit = semaphore.acquire_owned().await.ok();
        }
        turn
    }

    pub(crate) fn count_refusal(&self, refusal: Refusal) -> Refusal {
        self.metrics.refusals.get_or_create(&KindLabel::of(refusal.kind())).inc();
        refusal
    }
}

impl AttemptTurn {
    fn request_turn(attempt: &AttemptId, turns: &AttemptTurns) -> (Self, Arc<Semaphore>) {
        let mut all = turns.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || (Arc::new(Semaphore::new(1)), 0);
        let (semaphore, wanted) = all.entry(attempt.clone()).or_insert_with(new);
        *wanted += 1;
        let turn = Self { attempt: attempt.clone(), turns: Arc::clone(turns), permit: None };
        (turn, Arc::clone(semaphore))
    }
}

impl Drop for QueuedQuestion {
    fn drop(&mut self) {
        self.metrics.verdicts_asked.dec();
    }
}

impl Drop for AttemptTurn {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_semaphore, wanted)) = all.get_mut(&self.attempt) {
            *wanted = wanted.saturating_sub(1);
            if *wanted == 0 {
                all.remove(&self.attempt);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_with_slots_for_trusted() {
        let metrics = Arc::new(Metrics::new());
        let line = VerdictQueue::new(Arc::clone(&metrics));
        let mut waiting: Vec<QueuedQuestion> =
            std::iter::from_fn(|| line.take_slot(false).ok()).take(MAX_QUESTIONS).collect();
        assert_eq!(waiting.len(), MAX_QUESTIONS - TRUSTED_SLOTS);
        waiting.extend(std::iter::from_fn(|| line.take_slot(true).ok()).take(MAX_QUESTIONS));
        assert_eq!((waiting.len(), metrics.verdicts_asked.get()), (MAX_QUESTIONS, 256));
        let refused = line.take_slot(true).unwrap_err();
        assert!(refused.retry_after().is_some(), "{refused}");
        assert!(refused.to_string().contains("256 verdict requests"), "{refused}");
        assert_eq!(metrics.refusals.get_or_create(&KindLabel::of("crowded")).get(), 2 + 1);
        waiting.clear();
        assert_eq!(metrics.verdicts_asked.get(), 0);
        assert!(line.take_slot(false).is_ok());
    }

    #[tokio::test]
    async fn questions_about_one_attempt_are_judged_serially() {
        let line = VerdictQueue::new(Arc::new(Metrics::new()));
        let about = |id: &str| AttemptId::parse(id).unwrap();
        let a = about("a");
        let first = line.wait_for_turn(&a).await;
        let other = line.wait_for_turn(&about("b")).await;
        let mut second = Box::pin(line.wait_for_turn(&a));
        tokio::select! {
            biased;
            _turn = &mut second => panic!("the first one has the turn"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        let second = second.await;
        let given_up = line.wait_for_turn(&a);
        drop((given_up, second, other));
        assert!(line.turns.lock().unwrap().is_empty());
    }
}
