//! How an attempt ends: its loose samples become sealed blocks, and in the same commit its summary takes the place of the open
//! attempt. Only then the history learns it.

use super::{
    refusal::Refusal,
    request::Change,
    session::{Finish, Session, StreamHandle},
    settle::settled,
    stage::unwritable,
    start::start,
    worker::Worker,
};
use crate::{
    domain::{Attempt, AttemptId, Summary, Totals},
    metrics::Kind,
    retry,
    store::{self, SealError},
};

/// Samples of an open attempt that are left loose before they become sealed blocks.
const ROLL_AFTER: u64 = 900;

impl Worker {
    /// Turns the loose samples of a long attempt into sealed blocks, so that an open attempt never holds many.
    pub(super) async fn roll(&mut self, id: &AttemptId) {
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.loose >= ROLL_AFTER) else {
            return;
        };
        let rolled = async {
            let roll = store::roll(&self.parts.store, id).await?;
            self.parts.store.commit(roll.batch).await?;
            Ok::<_, SealError>(roll.more)
        };
        match rolled.await {
            // what is left is rolled with the next batch
            Ok(true) => {}
            Ok(false) => session.loose = 0,
            // the samples stay where they are, and the next batch tries again
            Err(error) => {
                tracing::warn!(attempt = %id, %error, "could not seal the first part of a long attempt");
            }
        }
    }

    /// Ends an attempt. Without a stream, the server itself does.
    pub(super) async fn seal(
        &mut self,
        finish: Finish,
        stream: Option<&StreamHandle>,
    ) -> Result<u64, Refusal> {
        let id = finish.attempt.clone();
        let mut session = self.sessions.get(&id).cloned().ok_or_else(|| Refusal::NotOpen(id.clone()))?;
        if let Some(stream) = stream {
            session.check_holder(stream)?;
        }
        session.close(&finish)?;
        // an attempt that is closed for its silence was received when it was last heard of
        let received = if stream.is_some() { self.parts.clock.now_unix_ms() } else { session.heard_unix_ms };
        let Session { attempt, progress, lost, acknowledged, .. } = &session;
        let mut summary = Summary::of(attempt, progress, &finish.totals, finish.wall, finish.exit);
        let (started, believed) = start(attempt.started_unix_ms, finish.wall, received);
        summary = summary.with_phases(finish.phases);
        summary.started_unix_ms = started;
        summary.samples_lost = *lost;
        summary.cause = retry::cause_of(&summary);
        summary.censored = retry::is_censored(&summary, summary.cause);
        // a CI system may have told the end before the agent did
        let told = self.remembered.of(&id).and_then(|told| settled(&summary, told));
        summary = told.unwrap_or(summary);
        store::seal(&self.parts.store, attempt, &summary).await.map_err(unwritable)?;
        if !believed {
            self.note_wrong_clock(attempt, started);
        }
        self.learn(summary);
        self.sessions.remove(&id);
        Ok(*acknowledged)
    }

    fn note_wrong_clock(&self, attempt: &Attempt, started_unix_ms: u64) {
        self.parts.metrics.starts_estimated.inc();
        tracing::warn!(
            attempt = %attempt.id,
            said_unix_ms = attempt.started_unix_ms,
            started_unix_ms,
            "the agent's clock is wrong: kept the server's estimate of the start"
        );
    }

    fn learn(&self, summary: Summary) {
        let kind = summary.cause.map_or("none", |cause| cause.as_str());
        let (attempt, wall, need) = (summary.attempt.clone(), summary.wall, summary.need_peak);
        tracing::info!(%attempt, package = summary.key.package, %wall, %need, cause = kind, "attempt ended");
        let known = self.parts.learned.learn(summary);
        self.parts.metrics.sealed.get_or_create(&Kind::of(kind)).inc();
        self.parts.metrics.history_attempts.set(i64::try_from(known).unwrap_or(i64::MAX));
        drop(self.changes.send(Change::Ended(attempt)));
    }

    /// Closes attempts whose agent has been silent for too long. Nobody saw their end.
    pub(super) async fn close_abandoned(&mut self) {
        let silence = u64::try_from(self.parts.abandon_after.as_millis()).unwrap_or(u64::MAX);
        let before = self.parts.clock.now_unix_ms().saturating_sub(silence);
        let silent = self.sessions.values().filter(|s| s.holder.is_none() && s.heard_unix_ms < before);
        let finishes: Vec<Finish> = silent.map(abandoned).collect();
        for finish in finishes {
            let id = finish.attempt.clone();
            if let Err(error) = self.seal(finish, None).await {
                tracing::warn!(attempt = %id, %error, "could not close an abandoned attempt");
            }
        }
    }
}

/// The end of an attempt as far as its samples tell.
fn abandoned(session: &Session) -> Finish {
    Finish {
        attempt: session.attempt.id.clone(),
        last_sequence: session.acknowledged,
        lost: 0,
        wall: session.progress.last.map(|last| last.elapsed).unwrap_or_default(),
        exit: None,
        totals: Totals::default(),
        phases: Vec::new(),
    }
}
