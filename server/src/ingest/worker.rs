//! The task that owns the open attempts and is the only one that writes what attempts are made of.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{
    Parts,
    again::ShortOfMemory,
    aging::Pass,
    close::Ending,
    flight::Flight,
    forget::Walk,
    request::{Change, Request, Running},
    retain,
    roll::Rolling,
    round::{RESERVE_OPERATIONS, Round},
    session::{Heard, Session, StreamHandle},
    settle::Remembered,
    shares::Shares,
    unsettled::Unsettled,
};
use crate::{domain::AttemptId, identity::Identity, store::BATCH_OPERATIONS};

/// Requests taken at once: as many appends of one fragment as one commit holds. A disk that is slow to sync is then asked
/// ten times a second, and not forty times, for ten thousand samples.
const GATHER: usize = BATCH_OPERATIONS - RESERVE_OPERATIONS;

/// Requests that are worked on, and answers that are given, before others get their turn: each answer wakes a stream, and a
/// prediction must not wait behind a thousand of them. A batch of a hundred samples takes some tens of microseconds.
pub(super) const TURN: usize = 16;

/// How often silent attempts are looked for, at least; more often if silence is short.
const SWEEP: Duration = Duration::from_mins(1);

/// When the next step of such a search follows, if there are more than one step takes: requests come first.
const SWEEP_ON: Duration = Duration::from_millis(100);

/// An agent that is there says something every few seconds.
const SILENT: Duration = Duration::from_mins(2);

/// The owner of the open attempts.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) parts: Parts,
    queue: mpsc::Receiver<Request>,
    /// As they are on disk.
    pub(super) sessions: HashMap<AttemptId, Session>,
    /// Who has how many of them.
    pub(super) shares: Shares,
    /// What goes to the disk next. Empty while requests are worked on, which have it then.
    pub(super) round: Round,
    /// What is on its way there.
    pub(super) flight: Flight,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) remembered: Remembered,
    /// Ended attempts that the counters of the fleet wait for.
    pub(super) unsettled: Unsettled,
    /// Long attempts whose samples are being sealed.
    pub(super) rolling: Rolling,
    /// The walk over old samples.
    pub(super) pass: Pass,
    /// The walk over old summaries.
    pub(super) walk: Walk,
    /// When the store was last seen to take nothing: what agents said until then may have reached nobody.
    pub(super) refused: Option<Instant>,
    /// Jobs that memory ended, which a start reads; shared with the handle.
    pub(super) short_of_memory: Arc<Mutex<ShortOfMemory>>,
    /// Who is told of attempts that ended after a verdict on them.
    pub(super) judged_early: Option<mpsc::Sender<AttemptId>>,
}

impl Worker {
    pub(super) fn new(
        parts: Parts,
        queue: mpsc::Receiver<Request>,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self {
            parts,
            queue,
            sessions: HashMap::new(),
            shares: Shares::default(),
            round: Round::default(),
            flight: Flight::default(),
            changes,
            remembered: Remembered::default(),
            unsettled: Unsettled::default(),
            rolling: Rolling::default(),
            pass: Pass::default(),
            walk: Walk::default(),
            refused: None,
            short_of_memory: Arc::default(),
            judged_early: None,
        }
    }

    /// Works until `stop`, then answers what is queued, and ends.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut sweep = tokio::time::interval(self.between_sweeps());
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut retain = tokio::time::interval(retain::STEP);
        retain.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut requests = Vec::with_capacity(GATHER);
        loop {
            tokio::select! {
                outcome = self.flight.outcome() => {
                    let mut round = std::mem::take(&mut self.round);
                    self.landed(outcome, &mut round).await;
                }
                taken = self.queue.recv_many(&mut requests, GATHER) => {
                    if taken == 0 {
                        self.commit_all().await;
                        return self.rolling.release_all();
                    }
                    self.parts.metrics.queue.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
                    self.work(requests.drain(..)).await;
                }
                rolled = self.rolling.next() => self.rolled(rolled),
                _ = sweep.tick() => {
                    self.count_silent();
                    self.free_silent();
                    self.count_lost();
                    let more = self.close_abandoned().await;
                    // the file of pools may say another time by now
                    sweep.reset_after(if more { SWEEP_ON } else { self.between_sweeps() });
                }
                _ = retain.tick() => self.retain_step().await,
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
            }
        }
    }

    /// Whatever silence ends is ended after at most twice that silence.
    fn between_sweeps(&self) -> Duration {
        let of_tickets = self.parts.placing.now().terms().patience.silent_within_ms;
        self.parts.abandon_after.min(Duration::from_millis(of_tickets)).clamp(SWEEP_ON, SWEEP)
    }

    pub(super) async fn work(&mut self, requests: impl Iterator<Item = Request>) {
        let mut round = std::mem::take(&mut self.round);
        let (mut finishing, mut settling) = (Vec::new(), Vec::new());
        for (n, request) in requests.enumerate() {
            if n % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            match request {
                // needs the samples of this round on disk
                Request::Finish { finish, stream, answer } => {
                    self.hear(&finish.attempt, &stream);
                    finishing.push(Ending { finish, stream: Some(stream), answer: Some(answer) });
                }
                // needs to know which attempts are open, and is known when one of them ends
                Request::Settle { told, answer } => settling.push((told, answer)),
                Request::Open { attempt, stream, answer } => {
                    self.stage_open(&mut round, *attempt, &stream, answer).await;
                }
                Request::Append { append, stream, answer } => {
                    self.hear(&append.attempt, &stream);
                    self.stage_append(&mut round, append, &stream, answer);
                }
                Request::Record { fingerprint, verdict, answer } => {
                    self.stage_verdict(&mut round, fingerprint, &verdict, answer).await;
                }
                Request::Recause { attempt, found, answer } => {
                    self.stage_cause(&mut round, &attempt, found, answer).await;
                }
                Request::Leave { stream, attempts } => self.release(&mut round, &stream, &attempts),
                Request::Watch { answer } => {
                    let running = self.sessions.values().map(running).collect();
                    drop(answer.send(Ok((running, self.changes.subscribe()))));
                }
                Request::Highest { most, caller, answer } => {
                    drop(answer.send(Ok(self.highest(most, &caller))));
                }
                Request::Find { id, answer } => drop(answer.send(Ok(self.sessions.get(&id).map(running)))),
            }
            if round.is_full() {
                self.launch(&mut round).await;
            }
        }
        if self.flight.is_empty() {
            self.launch(&mut round).await;
        }
        // what is full was handed to the store
        debug_assert!(!round.is_full(), "the next requests find room");
        self.round = round;
        if finishing.is_empty() && settling.is_empty() {
            return self.count_open();
        }
        self.commit_all().await;
        self.settle_all(settling).await;
        self.seal_all(finishing).await;
        self.count_open();
    }

    /// Only what is shown is copied: pages ask for it every few seconds.
    fn highest(&self, most: usize, caller: &Identity) -> (Vec<Running>, usize) {
        let seen = self.sessions.values().filter(|session| caller.sees(&session.attempt.key.project));
        if most == 0 {
            return (Vec::new(), seen.count());
        }
        let mut seen: Vec<&Session> = seen.collect();
        let count = seen.len();
        seen.sort_unstable_by_key(|session| std::cmp::Reverse(session.progress.need_peak));
        (seen.into_iter().take(most).map(running).collect(), count)
    }

    pub(super) fn count_open(&self) {
        self.parts.metrics.open_attempts.set(i64::try_from(self.sessions.len()).unwrap_or(i64::MAX));
    }

    /// Counts the open attempts whose agent may be gone or stuck, long before they are closed for it.
    fn count_silent(&self) {
        let now = self.now().moment;
        let silent = self.sessions.values().filter(|session| session.is_silent(now, SILENT)).count();
        self.parts.metrics.silent_attempts.set(i64::try_from(silent).unwrap_or(i64::MAX));
    }

    /// Notes that the agent of an attempt spoke, whatever becomes of what it said.
    pub(super) fn hear(&mut self, id: &AttemptId, stream: &StreamHandle) {
        let now = self.now();
        if let Some(session) = self.sessions.get_mut(id).filter(|s| s.check_holder(stream).is_ok()) {
            session.heard = now;
        }
    }

    pub(super) fn now(&self) -> Heard {
        Heard { unix_ms: self.parts.clock.now_unix_ms(), moment: Instant::now() }
    }
}

pub(super) fn running(session: &Session) -> Running {
    Running { attempt: Arc::clone(&session.attempt), progress: session.progress.clone() }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        domain::Sample,
        ingest::{Append, Refusal, fixture},
        store::Store,
    };

    #[tokio::test]
    async fn a_page_gets_the_highest_needs_that_its_reader_may_see_and_their_number() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
        for (id, project, need) in [("a", "x", 1), ("b", "x", 3), ("c", "y", 9), ("d", "x", 2)] {
            let mut attempt = fixture::attempt(id);
            attempt.key.project = project.into();
            let mut session = Session::new(attempt.clone().into(), worker.now());
            session.progress.need_peak = crate::domain::Bytes(need);
            worker.sessions.insert(attempt.id, session);
        }
        let reader =
            Identity { projects: vec!["x".to_owned()].into(), ..Identity::clone(&Identity::anyone()) };
        let (shown, count) = worker.highest(2, &reader);
        let shown: Vec<&str> = shown.iter().map(|one| one.attempt.id.as_str()).collect();
        assert_eq!((shown, count), (vec!["b", "d"], 3));
        assert_eq!(worker.highest(0, &Identity::anyone()).1, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_whose_samples_the_store_refuses_is_not_silent() {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        let (attempt, stream) = (fixture::attempt("a"), StreamHandle::new());
        let mut session = Session::new(attempt.clone().into(), worker.now());
        session.take(&attempt, &stream).unwrap();
        worker.sessions.insert(attempt.id.clone(), session);
        memory.refuse_commits("the disk is full");
        tokio::time::advance(fixture::PATIENCE * 2).await;
        let (answer, answered) = oneshot::channel();
        let samples = vec![Sample::default()];
        let append = Append { attempt: attempt.id.clone(), first_sequence: 1, lost: 0, samples };
        worker.work([Request::Append { append, stream, answer }].into_iter()).await;
        worker.commit_all().await;
        assert!(matches!(answered.await.unwrap(), Err(Refusal::Unwritable(_))));
        let session = &worker.sessions[&attempt.id];
        assert_eq!(
            (session.acknowledged, session.is_silent(worker.now().moment, fixture::PATIENCE)),
            (0, false)
        );
    }
}
