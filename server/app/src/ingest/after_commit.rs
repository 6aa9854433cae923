//! What follows a commit: staged changes become current, the next commit starts, and waiting
//! callers are answered.

use plimsoll_core::domain::AttemptId;

use super::{
    commit::{CommitOutcome, staged::StagedCommit},
    request::AttemptChange,
    session::Session,
    worker::{REQUESTS_PER_TURN, Worker},
};

impl Worker {
    /// Writes everything staged to disk, and waits for it.
    pub(crate) async fn commit_all(&mut self) {
        self.send_commit().await;
        if !self.commits.is_idle() {
            let outcome = self.commits.outcome().await;
            self.commit_ended(outcome).await;
        }
    }

    /// Sends staged changes to the store. If the previous commit is still being written, waits for
    /// it first.
    pub(crate) async fn send_commit(&mut self) {
        if self.commits.is_idle() {
            return self.commits.send().await;
        }
        let outcome = self.commits.outcome().await;
        self.commit_ended(outcome).await;
    }

    /// Handles the end of the running commit: starts the next one, and answers all callers that
    /// waited for it.
    pub(crate) async fn commit_ended(&mut self, outcome: CommitOutcome) {
        let Some(mut landed) = self.commits.end_commit(outcome) else { return };
        let changed: Vec<AttemptId> = landed.staged_sessions.keys().cloned().collect();
        landed
            .staged_sessions
            .drain()
            .for_each(|(_id, staged)| self.sessions.replace(staged.session, staged.fresh));
        self.count_open();
        landed.new_attempts.iter().for_each(|attempt| self.parts.tickets.begin(attempt));
        for change in &landed.causes {
            self.fleet.cause_changed(&change.before, &change.summary);
            self.parts.history.replace_summary(&change.summary);
            if change.summary.censored && !change.before.censored {
                self.count_taken_back(&change.summary);
            }
        }
        // sent first, so that the disk works while callers are answered
        self.commits.send().await;
        self.answer_callers(landed, &changed).await;
    }

    /// Answers the callers of a commit that is on disk. Answers about attempts whose compaction is
    /// far behind are delayed.
    async fn answer_callers(&mut self, landed: StagedCommit, changed: &[AttemptId]) {
        self.compactions.compact_long(&mut self.sessions, changed);
        for (n, promise) in landed.promised_answers.into_iter().enumerate() {
            self.compactions.answer_or_hold(&self.sessions, promise);
            if n % REQUESTS_PER_TURN == REQUESTS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        for session in changed.iter().filter_map(|id| self.sessions.get(id)) {
            if self.changes.receiver_count() > 0 {
                drop(self.changes.send(AttemptChange::Running(Box::new(Session::running(session)))));
            }
        }
    }
}

#[cfg(test)]
mod tests;
