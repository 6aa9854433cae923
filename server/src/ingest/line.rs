//! The line of those who ask for verdicts. Weighing a log keeps a core busy, and all questions share few turns: so nobody waits behind
//! more than a bounded number of them, and one attempt has a bounded number of verdicts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Ingest, refusal::Refusal, stage::unreadable};
use crate::{
    domain::AttemptId,
    metrics::{Kind, Metrics},
    store::{self, Store},
};

/// Questions that are judged or wait, at most: the longest logs take 0.15 s each on one of two cores, so the last one waits for 20 s.
const QUESTIONS: usize = 256;
/// Places that only trusted callers get: others, however many, do not keep them out.
const FOR_TRUSTED: usize = 64;

/// Verdicts that are kept of one attempt: a job, its hook and a person ask a handful of questions about it. All of them take 256
/// KiB to 1 MiB.
pub(super) const VERDICTS: usize = 64;

/// The line. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Line {
    places: Arc<Semaphore>,
    /// How many questions about an attempt are being judged of which the verdict will be kept.
    asked: Arc<Mutex<HashMap<AttemptId, usize>>>,
    metrics: Arc<Metrics>,
}

/// A place in the line, until it is dropped: whoever gives up waiting leaves it.
#[derive(Debug)]
pub(crate) struct InLine {
    metrics: Arc<Metrics>,
    #[expect(dead_code, reason = "held for its end")]
    place: OwnedSemaphorePermit,
}

/// A question about an attempt that may get one more verdict, until that is on disk.
#[derive(Debug)]
pub(super) struct About {
    attempt: AttemptId,
    asked: Arc<Mutex<HashMap<AttemptId, usize>>>,
}

impl Ingest {
    /// A place in the line of those who ask for verdicts, for somebody who is `trusted` or is not.
    ///
    /// # Errors
    /// As many are there as may be.
    pub(crate) fn line_up(&self, trusted: bool) -> Result<InLine, Refusal> {
        self.line.join(trusted)
    }
}

impl Line {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        metrics.verdicts_asked_max.set(i64::try_from(QUESTIONS).unwrap_or(i64::MAX));
        Self { places: Arc::new(Semaphore::new(QUESTIONS)), asked: Arc::default(), metrics }
    }

    fn join(&self, trusted: bool) -> Result<InLine, Refusal> {
        let kept_free = if trusted { 0 } else { FOR_TRUSTED };
        let is_room = self.places.available_permits() > kept_free;
        let place = Arc::clone(&self.places).try_acquire_owned().ok().filter(|_place| is_room);
        let Some(place) = place else { return Err(self.counted(Refusal::Crowded(QUESTIONS - kept_free))) };
        self.metrics.verdicts_asked.inc();
        Ok(InLine { metrics: Arc::clone(&self.metrics), place })
    }

    /// Takes note of a question that has no verdict yet, before anything is weighed for it. The worker, which everybody waits for, then has
    /// nothing to count.
    ///
    /// # Errors
    /// The attempt has as many verdicts as it may have, with those that are being given; or the store cannot be read.
    pub(super) async fn ask_about(&self, store: &Store, attempt: &AttemptId) -> Result<About, Refusal> {
        let (about, asked) = About::begin(attempt, &self.asked);
        // first: what leaves the questions meanwhile is on disk before it is counted there
        let given = store::count_verdicts(store, attempt, VERDICTS).await;
        if given.map_err(|error| self.counted(unreadable(&error)))?.saturating_add(asked) > VERDICTS {
            return Err(self.counted(Refusal::Judged { attempt: attempt.clone(), most: VERDICTS }));
        }
        Ok(about)
    }

    fn counted(&self, refusal: Refusal) -> Refusal {
        self.metrics.refusals.get_or_create(&Kind::of(refusal.kind())).inc();
        refusal
    }
}

impl About {
    /// The question, and how many there are with it.
    fn begin(attempt: &AttemptId, asked: &Arc<Mutex<HashMap<AttemptId, usize>>>) -> (Self, usize) {
        let mut all = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(attempt.clone()).or_default();
        *count += 1;
        (Self { attempt: attempt.clone(), asked: Arc::clone(asked) }, *count)
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.metrics.verdicts_asked.dec();
    }
}

impl Drop for About {
    fn drop(&mut self) {
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.attempt) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.attempt);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_bounded_and_untrusted_callers_keep_no_trusted_one_out_of_it() {
        let metrics = Arc::new(Metrics::new());
        let line = Line::new(Arc::clone(&metrics));
        let mut waiting: Vec<InLine> = std::iter::from_fn(|| line.join(false).ok()).take(QUESTIONS).collect();
        assert_eq!(waiting.len(), QUESTIONS - FOR_TRUSTED);
        waiting.extend(std::iter::from_fn(|| line.join(true).ok()).take(QUESTIONS));
        assert_eq!((waiting.len(), metrics.verdicts_asked.get()), (QUESTIONS, 256));
        let refused = line.join(true).unwrap_err();
        assert!(
            refused.retry_after().is_some() && refused.to_string().contains("256 questions"),
            "{refused}"
        );
        assert_eq!(metrics.refusals.get_or_create(&Kind::of("crowded")).get(), 2 + 1);
        waiting.clear();
        assert_eq!(metrics.verdicts_asked.get(), 0);
        assert!(line.join(false).is_ok());
    }

    #[tokio::test]
    async fn questions_that_are_being_judged_count_among_the_verdicts_of_their_attempt() {
        let (store, line) = (Store::memory(), Line::new(Arc::new(Metrics::new())));
        let about = |id: &str| AttemptId::parse(id).unwrap();
        let mut asked = Vec::new();
        for _ in 0..VERDICTS {
            asked.push(line.ask_about(&store, &about("a")).await.unwrap());
        }
        let refused = line.ask_about(&store, &about("a")).await.unwrap_err();
        assert_eq!(refused, Refusal::Judged { attempt: about("a"), most: VERDICTS });
        assert!(line.ask_about(&store, &about("b")).await.is_ok(), "of another one nothing is asked");
        asked.pop();
        assert!(line.ask_about(&store, &about("a")).await.is_ok());
        asked.clear();
        assert!(line.asked.lock().unwrap().is_empty(), "nothing is kept of what is over");
    }
}
