//! Prepares a request for the commit: checks it against the state that the attempt will have, adds
//! its writes to the batch, and queues the answer.

use std::sync::Arc;

use plimsoll_core::domain::{Attempt, AttemptId, Summary, Verdict};
use plimsoll_store as store;

use super::{
    Refusal, Reply,
    causes::{self, CauseChange},
    commit::staged::PromisedAnswer,
    request::{AnswerSender, Append, OpenedAttempt},
    session::Session,
    stream_handle::StreamHandle,
    unwritable,
    worker::Worker,
};
use crate::runtime::skipped_facts::SkippedFacts;

/// What the server has of an attempt that its agent opens.
enum FoundAttempt {
    Open(Box<Session>),
    Sealed(Arc<Summary>),
}

impl Worker {
    /// The attempt as it will be when both commits are on disk.
    pub(super) fn latest(&self, id: &AttemptId) -> Option<Session> {
        let staged = self.commits.staged_session(id);
        staged.map(|staged| &staged.session).or_else(|| self.sessions.get(id)).cloned()
    }

    /// Opens an attempt, or hands an open one over to a newer stream of its agent. If another run
    /// has the id and the agent accepts another one, the attempt gets a new id.
    pub(super) async fn stage_open(
        &mut self,
        attempt: Attempt,
        (stream, takes_new_id): (&StreamHandle, bool),
        answer: AnswerSender<OpenedAttempt>,
    ) {
        let asked = attempt.id.clone();
        let attempt = match self.with_own_id(attempt, takes_new_id).await {
            Ok(attempt) => attempt,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        match self.opened(&attempt, &asked, stream).await {
            Ok(FoundAttempt::Open(mut session)) => {
                session.last_message = self.now();
                session.quota_share = self.quota.of_returned(session.quota_share.take(), stream);
                if let Some(open) = self.sessions.get_mut(&attempt.id) {
                    // set here too, so that it is kept even if this commit fails
                    open.last_message = session.last_message;
                }
                let id = attempt.id.clone();
                let opened = OpenedAttempt { acknowledged: session.acknowledged, sealed: false, attempt: id };
                self.commits.filling().stage(*session, 0);
                self.commits
                    .filling()
                    .promised_answers
                    .push(PromisedAnswer::Opened(attempt.id, answer, opened));
            }
            Ok(FoundAttempt::Sealed(sealed)) => {
                // every number up to the end is in the store, or declared lost
                let acknowledged = sealed.samples.saturating_add(sealed.samples_lost);
                drop(answer.send(Ok(OpenedAttempt { acknowledged, sealed: true, attempt: attempt.id })));
            }
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// The session of an attempt, which `stream` may write to, or its summary if it is sealed
    /// already. `asked`: the id that its agent requested.
    async fn opened(
        &mut self,
        attempt: &Attempt,
        asked: &AttemptId,
        stream: &StreamHandle,
    ) -> Reply<FoundAttempt> {
        let mut found = match self.latest(&attempt.id) {
            Some(open) if open.attempt.yields_to(attempt) => {
                self.take_over_open(attempt).await?;
                self.first_opening(attempt, asked, stream).await?
            }
            Some(session) => FoundAttempt::Open(Box::new(session)),
            None => self.first_opening(attempt, asked, stream).await?,
        };
        if let FoundAttempt::Open(session) = &mut found {
            session.hand_to(attempt, stream)?;
        }
        Ok(found)
    }

    /// A new session for an attempt that is not open, or its summary if it is sealed already.
    async fn first_opening(
        &mut self,
        attempt: &Attempt,
        asked: &AttemptId,
        stream: &StreamHandle,
    ) -> Reply<FoundAttempt> {
        match self.sealed_summary(&attempt.id).await? {
            // the attempt is sealed, but its agent did not get the answer to its end
            Some(sealed) if sealed.is_of(attempt) => return Ok(FoundAttempt::Sealed(sealed)),
            Some(sealed) if sealed.yields_to(attempt) => {
                self.take_over_ended(attempt, &sealed.key.project).await?;
            }
            Some(_) => return Err(Refusal::Held(attempt.id.clone())),
            None => {}
        }
        // attempts in the two commits are counted, too: they become sessions when the commit is on
        // disk
        let open = self.sessions.len() + self.commits.new_attempts();
        if open >= self.parts.open_attempts {
            return Err(Refusal::Full(self.parts.open_attempts));
        }
        let share = self.quota.of_new(attempt, stream, self.parts.open_attempts)?;
        store::put(&mut self.commits.filling().batch, attempt).map_err(unwritable)?;
        let mut session = Session::new(Arc::new(attempt.clone()), self.now());
        session.quota_share = Some(share);
        self.commits.filling().new_attempts.push(Arc::clone(&session.attempt));
        // a report is about the requested id, which an attempt of another project may have
        let waiting = |id| self.ci_reports.waiting_for(id, &attempt.key.project);
        session.reported = waiting(&attempt.id).or_else(|| waiting(asked));
        session.slot = self.parts.pools.hold(attempt);
        Ok(FoundAttempt::Open(Box::new(session)))
    }

    pub(super) async fn sealed_summary(&self, id: &AttemptId) -> Reply<Option<Arc<Summary>>> {
        let summary = store::read_summary(&self.parts.store, id).await?;
        Ok(summary.map(Arc::new))
    }

    /// Stores samples.
    pub(super) fn stage_append(&mut self, append: Append, stream: &StreamHandle, answer: AnswerSender<u64>) {
        let id = append.attempt.clone();
        match self.accept(append, stream) {
            Ok((session, fresh)) => {
                let filling = self.commits.filling();
                filling.promised_answers.push(PromisedAnswer::Acknowledged(id, answer, session.acknowledged));
                filling.stage(session, fresh);
            }
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// The attempt with the new samples applied, and their number.
    fn accept(&mut self, append: Append, stream: &StreamHandle) -> Reply<(Session, u64)> {
        let id = append.attempt.clone();
        let mut session = self.latest(&id).ok_or_else(|| Refusal::NotOpen(id.clone()))?;
        session.check_holder(stream)?;
        let (repeated, mut fresh) = (append.samples.len() as u64, 0);
        let mut skipped = SkippedFacts::default();
        let accepted = session.accept_batch(append, &mut skipped)?;
        skipped.note(&self.parts.metrics, "batch", id.as_str());
        match accepted {
            Some(new) => {
                fresh = new.samples.len() as u64;
                let filling = self.commits.filling();
                filling.samples += fresh;
                filling.samples_lost += new.lost;
                let (first, batch) = (new.first_sequence, &mut filling.batch);
                store::append_fragment(batch, &id, first, new.lost, new.samples).map_err(unwritable)?;
            }
            None => drop(self.parts.metrics.samples_repeated.inc_by(repeated)),
        }
        session.last_message = self.now();
        Ok((session, fresh))
    }

    /// Stores a verdict, unless one on the same evidence is stored already, and writes its cause
    /// into the attempt's summary.
    pub(super) async fn stage_verdict(
        &mut self,
        evidence: u64,
        verdict: &Verdict,
        answer: AnswerSender<Verdict>,
    ) {
        self.commit_earlier_verdict(&verdict.attempt).await;
        let stored = store::read_verdict(&self.parts.store, &verdict.attempt, evidence).await;
        let staged = match stored.map_err(Refusal::from) {
            Ok(Some(first)) => return drop(answer.send(Ok(first))),
            Ok(None) => self.change_by_verdict(verdict).await,
            Err(refusal) => Err(refusal),
        };
        let put = staged.and_then(|change| {
            store::put_verdict(&mut self.commits.filling().batch, evidence, verdict).map_err(unwritable)?;
            self.commits.filling().newly_judged.insert(verdict.attempt.clone());
            self.commits.filling().change_cause(change)
        });
        match put {
            Ok(()) => self
                .commits
                .filling()
                .promised_answers
                .push(PromisedAnswer::Recorded(answer, Box::new(verdict.clone()))),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// Writes an earlier verdict on the attempt to disk, so that the next one is compared with it.
    async fn commit_earlier_verdict(&mut self, attempt: &AttemptId) {
        if self.commits.holds_verdict_on(attempt) {
            self.commit_all().await;
        }
    }

    /// The change of an attempt's summary by a new verdict; `None` if the attempt is open, has no
    /// summary yet, or its summary stays the same.
    async fn change_by_verdict(&self, verdict: &Verdict) -> Reply<Option<CauseChange>> {
        if self.sessions.contains(&verdict.attempt) {
            return Ok(None);
        }
        let change = causes::change_by_verdict(&self.parts.store, verdict).await;
        change.map_err(Refusal::from)
    }

    /// Releases attempts held by a stream that has ended.
    pub(super) fn release(&mut self, stream: &StreamHandle, attempts: &[AttemptId]) {
        for id in attempts {
            // an attempt in a commit has a second copy of its state, so that is released, too
            let staged = self.commits.staged_sessions_mut(id).map(|staged| &mut staged.session);
            for session in staged.chain(self.sessions.get_mut(id)) {
                session.holder.take_if(|holder| holder == stream);
            }
        }
    }
}
