//! Ends an attempt: its fragments become sealed blocks, and in the same commit its summary replaces
//! the record of the open attempt. Only then is it added to the history.

use std::collections::HashSet;

use plimsoll_core::{
    domain::{Attempt, AttemptId, Outcome, Summary},
    predict, retry,
    shared_history::HistoryUpdate,
};

use super::{
    Refusal, Reply,
    request::{AnswerSender, AttemptChange, EndRequest, Finish},
    seal_queue::{ClosedAttempt, SealQueue, SealedAttempt},
    session::Session,
    stream_handle::StreamHandle,
    unwritable,
    worker::Worker,
};
use crate::{
    ingest::{ci_outcomes::with_report, start_time::start},
    runtime::{metrics::KindLabel, skipped_facts::SkippedFacts},
};

impl Worker {
    /// Ends attempts. Everything staged must be on disk. No samples are appended meanwhile, because
    /// the worker waits for this.
    pub(crate) async fn seal_all(&mut self, endings: Vec<EndRequest>) {
        self.stop_compactions(endings.iter().map(|ending| &ending.finish.attempt)).await;
        let mut begun = HashSet::new();
        let mut waiting = Vec::new();
        for ending in endings {
            let open = !begun.contains(&ending.finish.attempt);
            if let Some(closed) = self.closed(ending, open) {
                // only the first permitted end counts; an end from a stream that was replaced is
                // not permitted
                begun.insert(closed.session.attempt.id.clone());
                waiting.push(closed);
            }
        }
        let mut sealing = SealQueue::new(&self.parts, waiting);
        while let Some(sealed) = sealing.next().await {
            self.handle_sealed(sealed);
        }
    }

    /// The attempt of `ending`, ready to be sealed. `None` if it cannot be ended; then the caller
    /// has been answered. `open`: whether the attempt is not being ended already.
    fn closed(&self, ending: EndRequest, open: bool) -> Option<ClosedAttempt> {
        let EndRequest { finish, stream, answer } = ending;
        match self.close_session(&finish, stream.as_ref(), open) {
            Ok((session, summary, start_is_from_agent)) => Some(ClosedAttempt {
                session,
                summary,
                start_is_from_agent,
                keeps_ticket: finish.keeps_ticket,
                answer,
            }),
            Err(refusal) => {
                answer_end(answer, &finish.attempt, Err(refusal));
                None
            }
        }
    }

    fn close_session(
        &self,
        finish: &Finish,
        stream: Option<&StreamHandle>,
        open: bool,
    ) -> Reply<(Session, Summary, bool)> {
        let id = &finish.attempt;
        let session = self.sessions.get(id).filter(|_| open).cloned();
        let mut session = session.ok_or_else(|| Refusal::NotOpen(id.clone()))?;
        if let Some(stream) = stream {
            session.check_holder(stream)?;
        }
        session.close(finish)?;
        // an abandoned attempt counts as ended when its agent sent its last message
        let received =
            if stream.is_some() { self.parts.clock.now_unix_ms() } else { session.last_message.unix_ms };
        let mut skipped = SkippedFacts::default();
        let wall = session.wall(finish, &mut skipped);
        skipped.note(&self.parts.metrics, "finish", id.as_str());
        let Session { attempt, progress, lost, .. } = &session;
        let mut summary = Summary::of(attempt, progress, &finish.totals, wall, finish.exit);
        let (started, start_is_from_agent) = start(attempt.started_unix_ms, wall, received);
        summary = summary.with_phases(finish.phases.clone());
        summary.started_unix_ms = started;
        summary.offloaded_to.clone_from(&finish.offloaded_to);
        summary.largest_process.clone_from(&finish.largest_process);
        summary.rescue.clone_from(&finish.rescue);
        if finish.ended && finish.exit.is_none() {
            summary.outcome = Outcome::Ended;
        }
        summary.samples_lost = *lost;
        (summary.cause, summary.cause_source) =
            retry::cause_of(&summary).map_or((None, None), |(cause, source)| (Some(cause), source));
        summary.censored = retry::is_censored(&summary, summary.cause);
        // the CI system may have reported the end before the agent did
        let reported = session.reported.as_ref().and_then(|reported| with_report(&summary, reported));
        Ok((session, reported.unwrap_or(summary), start_is_from_agent))
    }

    /// Continues after an ended attempt's summary and blocks were written, or could not be written:
    /// updates history and tickets, and answers the agent.
    fn handle_sealed(&mut self, sealed: SealedAttempt) {
        let SealedAttempt { closed, was_judged, result } = sealed;
        let ClosedAttempt { session, summary, start_is_from_agent, keeps_ticket, answer } = closed;
        let Session { attempt, acknowledged, loose, .. } = session;
        let result = result.map(|()| acknowledged).map_err(unwritable);
        if result.is_ok() {
            if !start_is_from_agent {
                self.note_wrong_clock(&attempt, summary.started_unix_ms);
            }
            self.learn(&summary);
            self.retention.samples_sealed(loose);
            self.sessions.remove(&attempt.id);
            self.parts.tickets.end(&attempt, keeps_ticket);
            if was_judged {
                self.judge_after_end(&attempt.id);
            }
        }
        answer_end(answer, &attempt.id, result);
    }

    /// Requests a new verdict on an attempt that has a verdict from before its end. If the queue is
    /// full, the next question about the attempt leads to the new verdict.
    pub(crate) fn judge_after_end(&self, attempt: &AttemptId) {
        let Some(judged_early) = &self.judged_early else { return };
        if judged_early.try_send(attempt.clone()).is_err() {
            self.parts.metrics.verdicts_left_old.inc();
        }
    }

    fn note_wrong_clock(&self, attempt: &Attempt, started_unix_ms: u64) {
        self.parts.metrics.starts_estimated.inc();
        tracing::warn!(
            attempt = %attempt.id,
            reported_unix_ms = attempt.started_unix_ms,
            started_unix_ms,
            "the agent's clock is wrong: kept the server's estimate of the start"
        );
    }

    fn learn(&mut self, summary: &Summary) {
        let kind = summary.cause.map_or("none", |cause| cause.as_str());
        let (attempt, wall, need) = (summary.attempt.clone(), summary.wall, summary.need_peak);
        tracing::info!(%attempt, package = summary.key.package, %wall, %need, cause = kind, "attempt ended");
        self.fleet.attempt_ended(summary);
        let HistoryUpdate { known, retries } = self.parts.history.learn(summary);
        self.fleet.count_retries(&retries);
        self.count_taken_back(summary);
        self.parts.metrics.sealed.get_or_create(&KindLabel::of(kind)).inc();
        self.parts.metrics.history_attempts.set(i64::try_from(known).unwrap_or(i64::MAX));
        drop(self.changes.send(AttemptChange::Ended(attempt)));
    }

    /// Counts the lowering of memory that the end of this attempt takes back, if it does. The history must know the attempt.
    pub(crate) fn count_taken_back(&self, summary: &Summary) {
        let found = self.parts.history.read(|history| predict::taken_back_by(history, &summary.attempt));
        if let Some(found) = found {
            self.parts.metrics.lowering_taken_back(summary, &found);
        }
    }
}

/// Sends the result of an end to the caller; without a caller, logs an error.
fn answer_end(answer: Option<AnswerSender<u64>>, attempt: &AttemptId, result: Reply<u64>) {
    match (answer, result) {
        // the caller may no longer wait
        (Some(answer), result) => drop(answer.send(result)),
        (None, Err(error)) => tracing::warn!(%attempt, %error, "could not close an abandoned attempt"),
        (None, Ok(_)) => {}
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use plimsoll_core::domain::{Bytes, Cause, JobStatus, ReportedOutcome, test_report, test_summary};
    use plimsoll_store::Store;
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;
    use crate::ingest::{abandoned::end_of_abandoned, fixture, request::CiReport};

    /// A worker with an open attempt, and the stream that took it over from `old`.
    pub(crate) fn held(store: &Store, old: &StreamHandle) -> (Worker, StreamHandle) {
        let (_ingest, mut worker) = fixture::ingest(store, 10);
        let (attempt, new) = (fixture::attempt("a"), StreamHandle::new());
        let mut session = Session::new(attempt.clone().into(), worker.now());
        for stream in [old, &new] {
            session.hand_to(&attempt, stream).unwrap();
        }
        worker.sessions.insert(session);
        (worker, new)
    }

    #[tokio::test]
    async fn a_lowering_taken_back_is_counted_once() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
        let ended = |n: u64, gib: u64| {
            let mut summary = test_summary(&n.to_string(), "zlib", "1", 1000);
            summary.resources.memory_limit = Some(Bytes(gib << 30));
            summary
        };
        let killed =
            Summary { outcome: Outcome::Failed, cause: Some(Cause::Oom), censored: true, ..ended(3, 3) };
        for summary in [ended(1, 6), ended(2, 6), killed, ended(4, 6)] {
            worker.learn(&summary);
        }
        let count =
            |kind| worker.parts.metrics.lowerings_taken_back.get_or_create(&KindLabel::of(kind)).get();
        assert_eq!([count("killed"), count("failed")], [1, 0]);
    }

    fn ending(worker: &Worker, stream: &StreamHandle) -> (EndRequest, Receiver<Reply<u64>>) {
        let (answer, answered) = oneshot::channel();
        let finish = end_of_abandoned(worker.sessions.values().next().unwrap());
        (EndRequest { finish, stream: Some(stream.clone()), answer: Some(answer) }, answered)
    }

    #[tokio::test]
    async fn an_end_from_a_replaced_stream_is_refused() {
        let old = StreamHandle::new();
        let (mut worker, new) = held(&Store::memory(), &old);
        let (of_old, reported_old) = ending(&worker, &old);
        let (of_new, reported_new) = ending(&worker, &new);
        let (again, reported_again) = ending(&worker, &new);
        worker.seal_all(vec![of_old, of_new, again]).await;
        assert!(matches!(reported_old.await.unwrap(), Err(Refusal::Replaced(_))));
        assert_eq!(reported_new.await.unwrap(), Ok(0));
        assert!(matches!(reported_again.await.unwrap(), Err(Refusal::NotOpen(_))), "it ends once");
    }

    /// Attempts that the fleet's metrics count as succeeded and as lost.
    fn counted(worker: &Worker) -> [String; 2] {
        let text = worker.parts.metrics.encode().unwrap();
        ["succeeded", "lost"].map(|outcome| {
            let of = format!("plimsoll_fleet_attempts_total{{outcome=\"{outcome}\",");
            let line = text.lines().find(|line| line.starts_with(&of)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn unseen_ends_count_when_reported_else_as_lost() {
        for (reported, expected) in [(&["a"][..], ["1", "0"]), (&[], ["0", "1"])] {
            let (mut worker, stream) = held(&Store::memory(), &StreamHandle::new());
            let (end, _applied) = ending(&worker, &stream);
            worker.seal_all(vec![end]).await;
            assert_eq!(counted(&worker), ["0", "0"], "its end was not seen");
            let attempts = reported.iter().map(|id| AttemptId::parse(id).unwrap()).collect();
            let reported = ReportedOutcome { attempts, ..test_report("a", JobStatus::Succeeded) };
            worker.apply_reports(vec![CiReport { reported, answer: None }]).await;
            tokio::time::advance(Duration::from_hours(2)).await;
            worker.fleet.count_overdue();
            assert_eq!(counted(&worker), expected, "it is counted once");
        }
    }
}
