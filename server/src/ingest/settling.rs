//! Settles many attempts at once: the ends of a canceled pipeline's thousand jobs cost one sync, and not a thousand during which
//! nobody's samples are acknowledged.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::oneshot;

use super::{
    refusal::Refusal,
    request::Settled,
    round::is_full,
    settle::settled,
    stage::{unreadable, unwritable},
    worker::Worker,
};
use crate::{
    domain::{AttemptId, Summary, Told},
    metrics::Kind,
    store::{self, Batch, StoreError},
};

/// What a CI system tells of one job, and who wants to know what became of it.
pub(super) type Word = (Told, Option<oneshot::Sender<Settled>>);

/// Attempts that are settled when the batch is on disk.
#[derive(Debug, Default)]
struct Ends {
    batch: Batch,
    settled: HashMap<AttemptId, Summary>,
    waiting: Vec<Option<oneshot::Sender<Settled>>>,
}

impl Worker {
    /// Settles the attempts that are meant, now or when they end.
    pub(super) async fn settle_all(&mut self, words: Vec<Word>) {
        let mut ends = Ends::default();
        for (told, answer) in words {
            // of two words on one attempt the first stands: the second is held against what it left on the disk
            if is_full(&ends.batch) || told.attempts.iter().any(|id| ends.settled.contains_key(id)) {
                self.put(std::mem::take(&mut ends)).await;
            }
            match self.weigh_word(&told, &mut ends).await {
                Ok(Settled::Now) => ends.waiting.push(answer),
                Ok(settled) => self.answer(answer, settled),
                Err(refusal) => {
                    tracing::warn!(attempt = ?told.attempts.first(), error = %refusal, "could not settle an attempt");
                    self.answer(answer, Settled::Unwritable);
                }
            }
        }
        self.put(ends).await;
    }

    /// What becomes of one word: [`Settled::Now`] when the batch is on disk.
    async fn weigh_word(&mut self, told: &Told, ends: &mut Ends) -> Result<Settled, Refusal> {
        for id in told.attempts.iter().filter(|id| !self.sessions.contains_key(*id)) {
            let summary = match store::read_summary(&self.parts.store, id).await {
                Ok(Some(summary)) => summary,
                Ok(None) => continue,
                // no later try would find it whole
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::error!(attempt = %id, %error, "cannot settle an attempt whose summary is damaged");
                    return Ok(Settled::Known);
                }
                Err(error) => return Err(unreadable(&error)),
            };
            let Some(settled) = settled(&summary, told) else { return Ok(Settled::Known) };
            store::put_summary(&mut ends.batch, &settled).map_err(unwritable)?;
            ends.settled.insert(id.clone(), settled);
            return Ok(Settled::Now);
        }
        self.remember(told);
        Ok(Settled::Remembered)
    }

    /// Keeps a word until its attempt ends: with the attempt if it is open, however many jobs end meanwhile.
    fn remember(&mut self, told: &Told) {
        let told = Arc::new(told.clone());
        for id in &told.attempts {
            match self.sessions.get_mut(id) {
                Some(session) => drop(session.told.get_or_insert_with(|| Arc::clone(&told))),
                None => self.remembered.keep(id.clone(), &told),
            }
        }
    }

    /// Puts ends on the disk, and says so.
    async fn put(&mut self, ends: Ends) {
        let Ends { batch, settled, waiting } = ends;
        if waiting.is_empty() {
            return;
        }
        let became = match self.parts.store.commit(batch).await {
            Ok(_committed) => {
                for summary in settled.into_values() {
                    self.note_settled(&summary);
                }
                Settled::Now
            }
            Err(error) => {
                tracing::warn!(attempts = waiting.len(), %error, "could not settle how attempts ended");
                Settled::Unwritable
            }
        };
        for answer in waiting {
            self.answer(answer, became);
        }
    }

    fn note_settled(&mut self, settled: &Summary) {
        let cause = settled.cause.map_or("none", |cause| cause.as_str());
        let (attempt, outcome) = (&settled.attempt, settled.outcome);
        tracing::info!(%attempt, ?outcome, cause, "settled how an attempt ended");
        if self.unsettled.settle(attempt) {
            self.parts.metrics.ended(settled, self.parts.learned.is_retry(settled));
        }
        self.parts.learned.settle(settled);
    }

    /// Says and counts what became of a word. Nobody need wait for it.
    fn answer(&self, answer: Option<oneshot::Sender<Settled>>, settled: Settled) {
        self.parts.metrics.hooks.get_or_create(&Kind::of(settled.as_str())).inc();
        let _told = answer.map(|answer| answer.send(settled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Cause, End, Outcome, test_summary},
        ingest::{
            close::{Ending, tests::held},
            fixture,
            session::StreamHandle,
            silence::abandoned,
        },
        store::{MemoryStore, Store},
    };

    fn word(id: &str, end: End) -> (Word, oneshot::Receiver<Settled>) {
        let (answer, answered) = oneshot::channel();
        let (attempts, reason) = (vec![AttemptId::parse(id).unwrap()], String::new());
        ((Told { attempts, end, reason, cause: None, unneeded: false }, Some(answer)), answered)
    }

    /// A store with ended attempts of which nobody saw how.
    async fn with_lost(ids: impl Iterator<Item = String>) -> (MemoryStore, Store) {
        let memory = MemoryStore::default();
        let store = Store::Memory(memory.clone());
        for id in ids {
            let mut batch = Batch::default();
            let lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary(&id, "zlib", "1", 10) };
            store::put_summary(&mut batch, &lost).unwrap();
            store.commit(batch).await.unwrap();
        }
        (memory, store)
    }

    #[tokio::test]
    async fn a_canceled_pipeline_costs_one_commit_and_each_word_is_answered_when_it_is_on_disk() {
        let (memory, store) = with_lost((0..100).map(|n| n.to_string())).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let before = store.status().commits;
        let (words, answers): (Vec<_>, Vec<_>) =
            (0..101).map(|n| word(&n.to_string(), End::Canceled)).unzip();
        memory.refuse_commits("the disk is full");
        let (refused, told) = word("0", End::Canceled);
        worker.settle_all(vec![refused]).await;
        assert_eq!(told.await, Ok(Settled::Unwritable));
        memory.accept_commits();
        worker.settle_all(words).await;
        assert_eq!(store.status().commits, before + 1);
        for (n, answer) in answers.into_iter().enumerate() {
            let settled = answer.await.unwrap();
            assert_eq!((settled == Settled::Now, settled == Settled::Remembered), (n < 100, n == 100), "{n}");
        }
        let summary = store::read_summary(&store, &AttemptId::parse("99").unwrap()).await.unwrap().unwrap();
        assert_eq!(summary.cause, Some(Cause::Canceled));
    }

    #[tokio::test]
    async fn a_word_on_an_attempt_whose_summary_is_damaged_is_not_told_again_for_ever() {
        let (_memory, store) = with_lost(["a".to_owned()].into_iter()).await;
        fixture::damage_summary(&store, &fixture::attempt("a").id).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let (word, became) = word("a", End::Failed);
        worker.settle_all(vec![word]).await;
        assert_eq!(became.await, Ok(Settled::Known));
    }

    #[tokio::test]
    async fn of_two_words_on_one_attempt_the_first_stands() {
        let (_memory, store) = with_lost(["a".to_owned()].into_iter()).await;
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let [(first, of_first), (second, of_second)] =
            [End::Succeeded, End::Failed].map(|end| word("a", end));
        worker.settle_all(vec![first, second]).await;
        assert_eq!((of_first.await, of_second.await), (Ok(Settled::Now), Ok(Settled::Known)));
        let summary = store::read_summary(&store, &AttemptId::parse("a").unwrap()).await.unwrap().unwrap();
        assert_eq!(summary.outcome, Outcome::Succeeded);
    }

    #[tokio::test]
    async fn the_word_on_an_open_attempt_outlasts_those_on_any_number_of_jobs_that_nobody_measures() {
        let (store, stream) = (Store::memory(), StreamHandle::new());
        let (mut worker, _new) = held(&store, &stream);
        let mut preempted = word("a", End::Failed).0;
        "runner_system_failure".clone_into(&mut preempted.0.reason);
        worker.settle_all(vec![preempted, word("later", End::Canceled).0]).await;
        let others = (0..30_000).map(|n| word(&n.to_string(), End::Succeeded).0);
        worker.settle_all(others.collect()).await;
        let finish = abandoned(&worker.sessions.values().next().unwrap().clone());
        let (id, ending) = (finish.attempt.clone(), Ending { finish, stream: None, answer: None });
        worker.seal_all(vec![ending]).await;
        let summary = store::read_summary(&store, &id).await.unwrap().unwrap();
        assert_eq!((summary.outcome, summary.cause), (Outcome::Failed, Some(Cause::Infra)));
        assert!(worker.remembered.of(&AttemptId::parse("later").unwrap()).is_none());
    }
}
