//! Rounds on their way to the disk: one that the store has, and behind it the one that is filled meanwhile.
//!
//! The second goes to the store only when the first is on the disk, because its writes stand on those of the first. If that failed
//! and this one did not, the numbers of an attempt would have a hole that no agent fills. So they fail together, and whoever waits
//! for either is told.

use tokio::time::Instant;

use super::{
    refusal::Refusal,
    request::Change,
    round::{Round, Staged},
    worker::{TURN, Worker, running},
};
use crate::{
    domain::AttemptId,
    store::{CommitError, Committing},
};

/// The round that the store has, if there is one.
#[derive(Debug, Default)]
pub(super) struct Flight(Option<Flying>);

#[derive(Debug)]
struct Flying {
    /// Without its batch.
    round: Round,
    began: Instant,
    /// `None` if there was nothing to write.
    committing: Option<Committing>,
}

/// How a commit ended.
pub(super) type Outcome = Result<(), CommitError>;

impl Flight {
    /// The store has none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How the commit of the round ended; never comes if there is none. May be dropped and called again, until it has come.
    pub(super) async fn outcome(&mut self) -> Outcome {
        match &mut self.0 {
            Some(Flying { committing: Some(committing), .. }) => committing.done().await.map(drop),
            Some(_) => Ok(()),
            None => std::future::pending().await,
        }
    }

    /// An attempt of the round.
    pub(super) fn staged(&self, id: &AttemptId) -> Option<&Staged> {
        self.0.as_ref()?.round.staged.get(id)
    }

    /// The same, to be changed.
    pub(super) fn staged_mut(&mut self, id: &AttemptId) -> Option<&mut Staged> {
        self.0.as_mut()?.round.staged.get_mut(id)
    }

    /// How many attempts of the round are new.
    pub(super) fn begun(&self) -> usize {
        self.0.as_ref().map_or(0, |flying| flying.round.begun.len())
    }

    /// A verdict on this attempt waits to be on disk.
    pub(super) fn holds_verdict_on(&self, id: &AttemptId) -> bool {
        self.0.as_ref().is_some_and(|flying| flying.round.judged.contains(id))
    }
}

impl Worker {
    /// Puts everything that is staged on the disk.
    pub(super) async fn commit_all(&mut self) {
        let mut round = std::mem::take(&mut self.round);
        self.commit(&mut round).await;
    }

    /// Puts the round, and the one before it, on the disk.
    pub(super) async fn commit(&mut self, round: &mut Round) {
        self.launch(round).await;
        if !self.flight.is_empty() {
            let outcome = self.flight.outcome().await;
            self.landed(outcome, &mut Round::default()).await;
        }
    }

    /// Hands the round to the store, as soon as the one before it is on the disk.
    pub(super) async fn launch(&mut self, round: &mut Round) {
        if self.flight.is_empty() {
            return self.begin(std::mem::take(round)).await;
        }
        let outcome = self.flight.outcome().await;
        self.landed(outcome, round).await;
    }

    /// The commit that was on its way has ended: `next` follows it, and whoever waits for it is answered.
    pub(super) async fn landed(&mut self, outcome: Outcome, next: &mut Round) {
        let Some(Flying { mut round, began, committing }) = self.flight.0.take() else { return };
        if committing.is_some() {
            self.parts.metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
        }
        let next = std::mem::take(next);
        if let Err(error) = outcome {
            let refusal = self.failed(&error, round.promises.len() + next.promises.len());
            round.refuse(&refusal);
            return next.refuse(&refusal);
        }
        self.parts.metrics.samples.inc_by(round.samples);
        self.parts.metrics.samples_lost.inc_by(round.lost);
        let changed: Vec<AttemptId> = round.staged.keys().cloned().collect();
        round.staged.drain().for_each(|(id, staged)| self.take_over(id, staged));
        self.count_open();
        round.begun.iter().for_each(|attempt| self.parts.ticketing.begin(attempt));
        round.causes.iter().for_each(|change| self.note_cause(change));
        // the disk has something to do again before anybody hears of this
        self.begin(next).await;
        self.tell(round, changed).await;
    }

    /// Hands a round to the store, which has none.
    async fn begin(&mut self, mut round: Round) {
        if round.is_empty() {
            return;
        }
        let (batch, began) = (std::mem::take(&mut round.batch), Instant::now());
        let committing =
            if batch.is_empty() { Ok(None) } else { self.parts.store.begin(batch).await.map(Some) };
        match committing {
            Ok(committing) => self.flight.0 = Some(Flying { round, began, committing }),
            Err(error) => {
                let refusal = self.failed(&error, round.promises.len());
                round.refuse(&refusal);
            }
        }
    }

    /// Takes note of a commit that failed; gives what those are told who waited for it.
    fn failed(&mut self, error: &CommitError, promises: usize) -> Refusal {
        let refused = matches!(error, CommitError::Unavailable(_)).then(Instant::now);
        self.refused = refused.or(self.refused);
        tracing::error!(%error, promises, "commit failed, nothing is acknowledged");
        Refusal::Unwritable(error.to_string())
    }

    /// An attempt is on disk as it was staged. What came over it meanwhile stays: a roll, and a word of its agent.
    fn take_over(&mut self, id: AttemptId, staged: Staged) {
        let Staged { mut session, fresh } = staged;
        if let Some(before) = self.sessions.get(&id) {
            session.loose = before.loose;
            if before.heard.moment > session.heard.moment {
                session.heard = before.heard;
            }
        }
        session.loose = session.loose.saturating_add(fresh);
        self.sessions.insert(id, session);
    }

    /// Answers all who waited for a round that is on disk, but for those whose rolls are far behind.
    async fn tell(&mut self, round: Round, changed: Vec<AttemptId>) {
        self.roll_long(&changed);
        for (n, promise) in round.promises.into_iter().enumerate() {
            self.keep_or_hold(promise);
            if n % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        for session in changed.iter().filter_map(|id| self.sessions.get(id)) {
            if self.changes.receiver_count() > 0 {
                drop(self.changes.send(Change::Running(Box::new(running(session)))));
            }
        }
    }
}

#[cfg(test)]
mod tests;
