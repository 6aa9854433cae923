//! The worker: the task that owns the open attempts. Only this task writes attempts.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::AttemptId;
use plimsoll_store::BATCH_OPERATIONS;
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinError,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{
    IngestParts,
    agent_clocks::{self, AgentClocks},
    ci_reports::CiReports,
    commit::{pipeline::CommitPipeline, staged::RESERVE_OPERATIONS},
    compaction::Compactions,
    open_quota::OpenQuota,
    request::{AttemptChange, CiReport, EndRequest, Request},
    session::{LastMessage, Session},
    table::SessionTable,
};
use crate::ingest::{
    compaction_queue::{CompactionQueue, EndedCompaction},
    ended_counters::EndedCounters,
    retention::{self, Retention},
};
use crate::runtime::clock_check;

/// Most requests taken from the queue at once: as many appends of one fragment as fit into a
/// commit. On a disk with slow syncs that makes ten commits a second instead of forty, for ten
/// thousand samples a second.
const GATHERED_REQUESTS: usize = BATCH_OPERATIONS - RESERVE_OPERATIONS;

/// Number of requests handled, or answers sent, before other tasks may run. Each answer wakes a
/// stream, and a prediction must not wait behind a thousand of them. A batch of a hundred samples
/// takes some tens of microseconds.
pub(crate) const REQUESTS_PER_TURN: usize = 16;

/// Longest interval between searches for silent attempts; the interval is shorter if a time limit
/// is shorter.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Interval between steps of a search for abandoned attempts that is not finished. Requests are
/// handled in between.
const SWEEP_STEP_INTERVAL: Duration = Duration::from_millis(100);

/// Silence after which an agent counts as silent in metrics. An agent that works sends something
/// every few seconds.
const SILENCE_LIMIT: Duration = Duration::from_mins(2);

/// The task's state: an event loop over parts that each own their state.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) parts: IngestParts,
    queue: mpsc::Receiver<Request>,
    /// The open attempts, in the state that is on disk.
    pub(crate) sessions: SessionTable,
    /// Limits of open attempts.
    pub(super) quota: OpenQuota,
    /// Commits to the disk.
    pub(super) commits: CommitPipeline,
    pub(super) changes: broadcast::Sender<AttemptChange>,
    /// Reports of the CI system.
    pub(super) ci_reports: CiReports,
    /// Which attempts the fleet's metrics have counted.
    pub(super) fleet: EndedCounters,
    /// Compactions of long attempts.
    pub(super) compactions: Compactions,
    /// The clocks of agents, compared with the server's.
    pub(super) agent_clocks: AgentClocks,
    /// Deletion of old data.
    pub(crate) retention: Retention,
    /// Sends attempts that ended and have a verdict from before their end, so that they get a new
    /// one.
    pub(crate) judged_early: Option<mpsc::Sender<AttemptId>>,
}

impl Worker {
    pub(super) fn new(
        parts: IngestParts,
        queue: mpsc::Receiver<Request>,
        changes: broadcast::Sender<AttemptChange>,
    ) -> Self {
        let (store, history) = (&parts.store, &parts.history);
        let metrics = || Arc::clone(&parts.metrics);
        Self {
            sessions: SessionTable::default(),
            quota: OpenQuota::default(),
            commits: CommitPipeline::new(store.clone(), metrics()),
            ci_reports: CiReports::new(store.clone(), history.clone(), metrics()),
            fleet: EndedCounters::new(history.clone(), metrics()),
            compactions: Compactions::new(CompactionQueue::new(store.clone())),
            agent_clocks: AgentClocks::default(),
            retention: Retention::new(retention::RetentionParts {
                store: store.clone(),
                history: history.clone(),
                metrics: metrics(),
                classifier: parts.classifier.clone(),
                clock: parts.clock,
                policy: parts.retain,
            }),
            judged_early: None,
            parts,
            queue,
            changes,
        }
    }

    /// Runs until `stop`; then answers what is queued, and ends.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut sweep = tokio::time::interval(self.between_sweeps());
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut retain = tokio::time::interval(retention::STEP_INTERVAL);
        retain.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut clocks = tokio::time::interval(agent_clocks::COMPARED_EVERY);
        clocks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut requests = Vec::with_capacity(GATHERED_REQUESTS);
        loop {
            tokio::select! {
                outcome = self.commits.outcome() => self.commit_ended(outcome).await,
                taken = self.queue.recv_many(&mut requests, GATHERED_REQUESTS) => {
                    if taken == 0 {
                        self.commit_all().await;
                        return self.compactions.release_all();
                    }
                    self.parts.metrics.queue.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
                    self.handle_requests(requests.drain(..)).await;
                }
                ended = self.compactions.next() => self.compaction_ended(ended),
                _ = sweep.tick() => {
                    self.count_silent();
                    self.free_silent();
                    self.fleet.count_overdue();
                    let more = self.close_abandoned().await;
                    // the pools file may have changed how long tickets wait for silent agents
                    sweep.reset_after(if more { SWEEP_STEP_INTERVAL } else { self.between_sweeps() });
                }
                _ = retain.tick() => self.retain_step().await,
                _ = clocks.tick() => {
                    let ahead_ms = self.agent_clocks.ahead_ms(self.sessions.values(), Instant::now());
                    clock_check::note(&self.parts.metrics, clock_check::AGENTS, ahead_ms);
                }
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
            }
        }
    }

    /// Interval between searches for abandoned attempts. An abandoned attempt ends within twice its
    /// time limit.
    fn between_sweeps(&self) -> Duration {
        let of_tickets = self.parts.pools.now().terms().timeouts.silent_within_ms;
        self.parts
            .abandon_after
            .min(Duration::from_millis(of_tickets))
            .clamp(SWEEP_STEP_INTERVAL, SWEEP_INTERVAL)
    }

    pub(crate) async fn handle_requests(&mut self, requests: impl Iterator<Item = Request>) {
        let (mut finishing, mut reported) = (Vec::new(), Vec::new());
        for (n, request) in requests.enumerate() {
            if n % REQUESTS_PER_TURN == REQUESTS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            match request {
                // handled after the commit, because it needs the samples of this round on disk
                Request::Finish { finish, stream, answer } => {
                    self.sessions.note_message(&finish.attempt, &stream, self.now());
                    finishing.push(EndRequest {
                        finish: *finish,
                        stream: Some(stream),
                        answer: Some(answer),
                    });
                }
                // handled after the commit: it needs the attempts opened in this round
                Request::Report(report) => reported.push(report),
                Request::Open { attempt, stream, takes_new_id, answer } => {
                    self.stage_open(*attempt, (&stream, takes_new_id), answer).await;
                }
                Request::Append { append, stream, answer } => {
                    self.sessions.note_message(&append.attempt, &stream, self.now());
                    self.stage_append(append, &stream, answer);
                }
                Request::Record { fingerprint, verdict, answer } => {
                    self.stage_verdict(fingerprint, &verdict, answer).await;
                }
                Request::NotePod { pod, forgotten } => self.commits.filling().stage_pod(&pod, &forgotten),
                Request::Leave { stream, attempts } => self.release(&stream, &attempts),
                Request::Watch { answer } => {
                    drop(answer.send(Ok((self.sessions.running(), self.changes.subscribe()))));
                }
                Request::Highest { most, caller, answer } => {
                    drop(answer.send(Ok(self.sessions.highest(most, &caller))));
                }
                Request::Find { id, answer } => {
                    drop(answer.send(Ok(self.sessions.get(&id).map(Session::running))));
                }
            }
            if self.commits.is_full() {
                self.send_commit().await;
            }
        }
        if self.commits.is_idle() {
            self.send_commit().await;
        }
        // a full commit was sent to the store in the loop
        debug_assert!(!self.commits.is_full(), "the next requests find room");
        if finishing.is_empty() && reported.is_empty() {
            return self.count_open();
        }
        self.commit_all().await;
        self.apply_reports(reported).await;
        self.seal_all(finishing).await;
        self.count_open();
    }

    /// Takes a request from the queue, for tests.
    #[cfg(test)]
    pub(crate) fn next_queued(&mut self) -> Option<Request> {
        self.queue.try_recv().ok()
    }

    pub(crate) fn count_open(&self) {
        self.parts.metrics.open_attempts.set(i64::try_from(self.sessions.len()).unwrap_or(i64::MAX));
    }

    /// Counts the open attempts whose agent has probably died or hangs, long before they are
    /// closed.
    fn count_silent(&self) {
        let silent = self.sessions.silent(Instant::now(), SILENCE_LIMIT);
        self.parts.metrics.silent_attempts.set(i64::try_from(silent).unwrap_or(i64::MAX));
    }

    /// Handles the result of a compaction.
    pub(super) fn compaction_ended(&mut self, ended: Result<EndedCompaction, JoinError>) {
        let sealed = self.compactions.finish_and_start_next(&mut self.sessions, ended);
        self.note_compacted(sealed);
    }

    /// Waits until none of these attempts is being compacted.
    pub(super) async fn stop_compactions<'a>(&mut self, ids: impl Iterator<Item = &'a AttemptId>) {
        let sealed = self.compactions.stop(&mut self.sessions, ids).await;
        self.note_compacted(sealed);
    }

    fn note_compacted(&mut self, sealed: u64) {
        if sealed > 0 {
            self.retention.samples_sealed(sealed);
        }
    }

    /// Applies reports of the CI system: at once, or when their attempts end.
    pub(super) async fn apply_reports(&mut self, reports: Vec<CiReport>) {
        self.ci_reports.apply(reports, &mut self.sessions, &mut self.fleet).await;
    }

    /// Does one step of the retention.
    pub(crate) async fn retain_step(&mut self) {
        let sessions = &self.sessions;
        self.retention.step(&|id| sessions.running_since(id)).await;
    }

    pub(crate) fn now(&self) -> LastMessage {
        LastMessage { unix_ms: self.parts.clock.now_unix_ms(), moment: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::Sample;
    use plimsoll_store::Store;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        access::identity::Identity,
        ingest::{Append, Refusal, StreamHandle, fixture},
    };

    #[tokio::test]
    async fn the_reader_gets_the_highest_visible_needs() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
        for (id, project, need) in [("a", "x", 1), ("b", "x", 3), ("c", "y", 9), ("d", "x", 2)] {
            let mut attempt = fixture::attempt(id);
            attempt.key.project = project.into();
            let mut session = Session::new(attempt.clone().into(), worker.now());
            session.progress.need_peak = plimsoll_core::domain::Bytes(need);
            worker.sessions.insert(session);
        }
        let reader =
            Identity { projects: vec!["x".to_owned()].into(), ..Identity::clone(&Identity::anyone()) };
        let (shown, count) = worker.sessions.highest(2, &reader);
        let shown: Vec<&str> = shown.iter().map(|one| one.attempt.id.as_str()).collect();
        assert_eq!((shown, count), (vec!["b", "d"], 3));
        assert_eq!(worker.sessions.highest(0, &Identity::anyone()).1, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_samples_do_not_make_an_agent_silent() {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        let (attempt, stream) = (fixture::attempt("a"), StreamHandle::new());
        let mut session = Session::new(attempt.clone().into(), worker.now());
        session.hand_to(&attempt, &stream).unwrap();
        worker.sessions.insert(session);
        memory.refuse_commits("the disk is full");
        tokio::time::advance(fixture::ABANDON_AFTER * 2).await;
        let (answer, answered) = oneshot::channel();
        let samples = vec![Some(Sample::default())];
        let append = Append { attempt: attempt.id.clone(), first_sequence: 1, lost: 0, samples, acts: None };
        worker.handle_requests([Request::Append { append, stream, answer }].into_iter()).await;
        worker.commit_all().await;
        assert!(matches!(answered.await.unwrap(), Err(Refusal::Unwritable(_))));
        let session = &worker.sessions[&attempt.id];
        assert_eq!(session.acknowledged, 0);
        assert!(!session.is_silent(worker.now().moment, fixture::ABANDON_AFTER));
    }
}
