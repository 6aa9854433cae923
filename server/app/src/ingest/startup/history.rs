//! Loads the newest finished attempts, and the verdicts on them, into the history when the server
//! starts.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::{
    domain::{AttemptId, Key, Summary, Verdict},
    shared_history::SharedHistory,
};
use plimsoll_store::{self as store, LoadReport, Store, StoreError};

use super::{
    in_force::{LearnableVerdicts, VerdictsInForce, is_learnable},
    newest::NewestAttempts,
    unmeasured::UnmeasuredVerdicts,
};
use crate::{causes::FailureClassifier, runtime::metrics::Metrics};

/// How far in the future an attempt may have ended, milliseconds: correcting a clock moves it by
/// less, unless it was wrong.
const MAX_AHEAD_MS: u64 = 24 * 3_600_000;

/// Replaces impossible ends of attempts. An end in the future was recorded while this machine's
/// clock was wrong. Its true time is unknown, so the attempt counts as the oldest: it weighs less
/// than attempts recorded after the clock was corrected, and is evicted first.
#[derive(Debug)]
struct PossibleEnds {
    now_unix_ms: u64,
    /// Number of attempts that ended in the future.
    ahead: u64,
}

impl PossibleEnds {
    fn possible_end<'s>(&mut self, summary: &'s Summary) -> Cow<'s, Summary> {
        if summary.ended_unix_ms() <= self.now_unix_ms.saturating_add(MAX_AHEAD_MS) {
            return Cow::Borrowed(summary);
        }
        self.ahead += 1;
        Cow::Owned(Summary { started_unix_ms: 0, ..summary.clone() })
    }
}

/// State while all summaries are read.
struct HistoryReading {
    ends: PossibleEnds,
    judged: LearnableVerdicts,
    /// Trusted and untrusted attempts: untrusted ones never displace trusted ones.
    newest: [NewestAttempts; 2],
    metrics: Arc<Metrics>,
}

impl HistoryReading {
    fn take_summary(&mut self, summary: &Summary) {
        let summary = &*self.ends.possible_end(summary);
        self.judged.note_summary(summary);
        self.metrics.add_past_attempt(summary);
        let [trusted, untrusted] = &mut self.newest;
        (if summary.opening.untrusted { untrusted } else { trusted }).take(summary);
    }
}

/// Loads the history from disk.
#[derive(Debug)]
pub(crate) struct HistoryLoader {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) classifier: FailureClassifier,
    pub(crate) now_unix_ms: u64,
}

#[derive(Debug)]
pub(crate) struct LoadedHistory {
    pub(crate) report: LoadReport,
    /// Verdicts on attempts without a summary.
    pub(crate) unmeasured: UnmeasuredVerdicts,
}

impl HistoryLoader {
    /// Loads the newest finished attempts, and the verdicts on them.
    pub(crate) async fn load(&self) -> Result<LoadedHistory, StoreError> {
        let room = self.history.capacity();
        let mut judged = LearnableVerdicts::of(room[0].attempts);
        let stats = self.history.stats();
        let take = |verdict: Verdict, is_only: bool| {
            self.classifier.recall(&verdict);
            let refuses = verdict.avoids_retry();
            if refuses || !is_only {
                stats.expect_refused(&verdict.attempt, &verdict.basis.reported.project, refuses);
            }
            judged.note_verdict(&verdict);
        };
        let mut in_force = VerdictsInForce::of_projects(take);
        // later reports by untrusted callers do not change what is known about an attempt's memory
        let mut trusted =
            VerdictsInForce::of_askers(|verdict, _is_only| self.history.note_memory_end(&verdict));
        let take = |verdict: Verdict| {
            if !verdict.basis.by_untrusted {
                trusted.push(verdict.clone());
            }
            in_force.push(verdict);
        };
        store::load(&self.store, take).await?;
        trusted.finish();
        in_force.finish();
        self.classifier.count_corrections();
        let newest = room.map(|room| NewestAttempts::of(room, stats.clone()));
        let metrics = Arc::clone(&self.metrics);
        let ends = PossibleEnds { now_unix_ms: self.now_unix_ms, ahead: 0 };
        let recalled = Arc::new(Mutex::new(HistoryReading { ends, judged, newest, metrics }));
        let taking = Arc::clone(&recalled);
        // locked only here until loading has ended
        let take = move |summary: &Summary| {
            taking.lock().unwrap_or_else(PoisonError::into_inner).take_summary(summary);
        };
        let report = store::each_summary(&self.store, take).await?;
        let recalled = Arc::into_inner(recalled)
            .ok_or_else(|| StoreError::Unavailable("it is still read".to_owned()))?;
        let HistoryReading { ends, judged, newest, .. } =
            recalled.into_inner().unwrap_or_else(PoisonError::into_inner);
        if ends.ahead > 0 {
            let attempts = ends.ahead;
            tracing::warn!(
                attempts,
                "attempts ended in the future, because the clock was wrong; they count as the oldest"
            );
        }
        let [_, known] = newest.map(|newest| self.history.learn_all(newest.finish()));
        self.metrics.history_attempts.set(i64::try_from(known).unwrap_or(i64::MAX));
        let LearnableVerdicts { loaded, unmeasured, .. } = judged;
        self.load_verdicts_of(loaded).await?;
        Ok(LoadedHistory { report, unmeasured })
    }

    /// Loads the verdicts on these attempts, in the order of their ids. Only verdicts on attempts
    /// in memory are used.
    async fn load_verdicts_of(&self, loaded: Vec<(u64, AttemptId, Key)>) -> Result<(), StoreError> {
        let known: HashMap<AttemptId, Key> = loaded
            .into_iter()
            .filter(|(_, attempt, _)| self.history.knows(attempt))
            .map(|(_, attempt, key)| (attempt, key))
            .collect();
        if known.is_empty() {
            return Ok(());
        }
        let counts = |verdict: &Verdict| {
            known.get(&verdict.attempt).is_some_and(|key| verdict.counts_for(&key.project))
        };
        let take = |verdict: Verdict, _is_only: bool| {
            if let Some(key) = known.get(&verdict.attempt).filter(|_| is_learnable(&verdict)) {
                self.classifier.learn(key, &verdict);
            }
        };
        let mut in_force = VerdictsInForce::new(take);
        let take = |verdict: Verdict| {
            if counts(&verdict) {
                in_force.push(verdict);
            }
        };
        store::load(&self.store, take).await?;
        in_force.finish();
        Ok(())
    }
}

#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
mod tests;
