//! What the worker does with a request before the commit: check it against the attempt as it will be, add its writes to the
//! round, and promise the answer.

use std::{fmt::Display, sync::Arc};

use super::{
    refusal::Refusal,
    request::{Answer, Opened},
    round::{Promise, Round},
    session::{Append, Session, StreamHandle},
    worker::Worker,
};
use crate::{
    domain::{Attempt, AttemptId, Cause, EvidenceSource, Summary, Verdict},
    store::{self, StoreError},
};

impl Worker {
    /// The attempt as it will be when the round, and the one before it, are on disk.
    fn latest(&self, round: &Round, id: &AttemptId) -> Option<Session> {
        let staged = round.staged.get(id).or_else(|| self.flight.staged(id));
        staged.map(|staged| &staged.session).or_else(|| self.sessions.get(id)).cloned()
    }

    /// Opens an attempt, or hands it to a newer stream of its agent.
    pub(super) async fn stage_open(
        &mut self,
        round: &mut Round,
        attempt: Attempt,
        stream: &StreamHandle,
        answer: Answer<Opened>,
    ) {
        let result = match self.latest(round, &attempt.id) {
            Some(open) if open.attempt.yields_to(&attempt) => match self.oust_open(round, &attempt).await {
                Ok(()) => self.first_opening(round, &attempt, stream).await,
                Err(refusal) => Err(refusal),
            },
            Some(session) => Ok(Some(session)),
            None => self.first_opening(round, &attempt, stream).await,
        };
        let result = match result {
            Ok(Some(mut session)) => session.take(&attempt, stream).map(|()| Some(session)),
            other => other,
        };
        match result {
            Ok(Some(mut session)) => {
                session.heard = self.now();
                session.share = self.shares.known(session.share.take(), stream);
                if let Some(open) = self.sessions.get_mut(&attempt.id) {
                    // also if this round cannot be put on disk
                    open.heard = session.heard;
                }
                let opened = Opened { acknowledged: session.acknowledged, sealed: false };
                round.stage(session, 0);
                round.promises.push(Promise::Opened(attempt.id, answer, opened));
            }
            Ok(None) => drop(answer.send(Ok(Opened { acknowledged: 0, sealed: true }))),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// A session for an attempt that is not open; `None` if it is sealed already.
    async fn first_opening(
        &mut self,
        round: &mut Round,
        attempt: &Attempt,
        stream: &StreamHandle,
    ) -> Result<Option<Session>, Refusal> {
        match self.sealed(&attempt.id).await? {
            // its agent has not seen the end of the delivery
            Some(sealed) if sealed.is_of(attempt) => return Ok(None),
            Some(sealed) if sealed.yields_to(attempt) => {
                self.oust_ended(round, attempt, &sealed.key.project).await?;
            }
            Some(_) => return Err(Refusal::Held(attempt.id.clone())),
            None => {}
        }
        // what has begun in either round is a session when that is on the disk
        let open = self.sessions.len() + round.begun.len() + self.flight.begun();
        if open >= self.parts.open_attempts {
            return Err(Refusal::Full(self.parts.open_attempts));
        }
        let share = self.shares.of_new(attempt, stream, self.parts.open_attempts)?;
        store::put_attempt(&mut round.batch, attempt).map_err(unwritable)?;
        let mut session = Session::new(Arc::new(attempt.clone()), self.now());
        session.share = Some(share);
        round.begun.push(Arc::clone(&session.attempt));
        session.told = self.remembered.of(&attempt.id).cloned();
        session.place = self.parts.placing.hold(attempt);
        Ok(Some(session))
    }

    async fn sealed(&self, id: &AttemptId) -> Result<Option<Arc<Summary>>, Refusal> {
        let summary = store::read_summary(&self.parts.store, id).await.map_err(|error| unreadable(&error))?;
        Ok(summary.map(Arc::new))
    }

    /// Takes samples in.
    pub(super) fn stage_append(
        &self,
        round: &mut Round,
        append: Append,
        stream: &StreamHandle,
        answer: Answer<u64>,
    ) {
        let id = append.attempt.clone();
        let accepted =
            self.latest(round, &id).ok_or_else(|| Refusal::NotOpen(id.clone())).and_then(|mut session| {
                session.check_holder(stream)?;
                let (repeated, mut fresh) = (append.samples.len() as u64, 0);
                match session.accept(append)? {
                    Some(new) => {
                        fresh = new.samples.len() as u64;
                        round.samples += fresh;
                        round.lost += new.lost;
                        let (first, batch) = (new.first_sequence, &mut round.batch);
                        store::append_fragment(batch, &id, first, new.lost, new.samples)
                            .map_err(unwritable)?;
                    }
                    None => drop(self.parts.metrics.samples_repeated.inc_by(repeated)),
                }
                session.heard = self.now();
                Ok((session, fresh))
            });
        match accepted {
            Ok((session, fresh)) => {
                round.promises.push(Promise::Acknowledged(id, answer, session.acknowledged));
                round.stage(session, fresh);
            }
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// Keeps a verdict, unless there is one on the same evidence, and writes its cause into the summary of its attempt.
    pub(super) async fn stage_verdict(
        &mut self,
        round: &mut Round,
        evidence: u64,
        verdict: &Verdict,
        answer: Answer<Verdict>,
    ) {
        self.commit_verdict_before(round, &verdict.attempt).await;
        let stored = store::read_verdict(&self.parts.store, &verdict.attempt, evidence).await;
        let staged = match stored.map_err(|error| unreadable(&error)) {
            Ok(Some(first)) => return drop(answer.send(Ok(first))),
            Ok(None) => self.cause_change(verdict).await,
            Err(refusal) => Err(refusal),
        };
        let put = staged.and_then(|change| {
            store::put_verdict(&mut round.batch, evidence, verdict).map_err(unwritable)?;
            round.judged.insert(verdict.attempt.clone());
            round.change_cause(change)
        });
        match put {
            Ok(()) => round.promises.push(Promise::Recorded(answer, Box::new(verdict.clone()))),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// Writes a cause into the summary of an attempt.
    pub(super) async fn stage_cause(
        &mut self,
        round: &mut Round,
        attempt: &AttemptId,
        found: (Cause, Option<EvidenceSource>),
        answer: Answer<()>,
    ) {
        self.commit_verdict_before(round, attempt).await;
        let change = self.change_cause(attempt, found, true).await;
        round.judged.insert(attempt.clone());
        match change.and_then(|change| round.change_cause(change)) {
            Ok(()) => round.promises.push(Promise::Caused(answer)),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// What an earlier verdict on the attempt wrote is on disk before the next one is looked at.
    async fn commit_verdict_before(&mut self, round: &mut Round, attempt: &AttemptId) {
        if round.judged.contains(attempt) || self.flight.holds_verdict_on(attempt) {
            self.commit(round).await;
        }
    }

    /// Takes attempts from a stream that has ended.
    pub(super) fn release(&mut self, round: &mut Round, stream: &StreamHandle, attempts: &[AttemptId]) {
        for id in attempts {
            // staged in this round: the commit will bring it over
            let staged = round.staged.get_mut(id).into_iter().chain(self.flight.staged_mut(id));
            let sessions = staged.map(|staged| &mut staged.session).chain(self.sessions.get_mut(id));
            for session in sessions {
                session.holder.take_if(|holder| holder == stream);
            }
        }
    }
}

pub(super) fn unwritable(error: impl Display) -> Refusal {
    Refusal::Unwritable(error.to_string())
}

pub(super) fn unreadable(error: &StoreError) -> Refusal {
    Refusal::Unreadable(error.to_string())
}
