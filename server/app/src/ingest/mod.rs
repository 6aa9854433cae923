//! Writes everything except tickets: attempts, samples, ends and verdicts are on disk before their sender is answered.
//!
//! One task, the worker, owns the open attempts. All others send it requests over one bounded queue and wait for the answer. The worker
//! takes the queued requests, checks them, commits them with one sync, and then answers all of them. While the disk syncs, it checks the
//! next ones.
//!
//! | module | part of the worker | content |
//! |---|---|---|
//! | `table` | `SessionTable` | the open attempts, as they are on disk |
//! | `open_quota` | `OpenQuota` | limits of open attempts |
//! | `commit` | `CommitPipeline` | the commit being filled, and the one being written |
//! | `causes` | | the cause that a verdict writes into the attempt's summary |
//! | `job_pods` | | sizes of jobs' pods |
//! | `compaction` | `Compactions` | compactions of long attempts, and the answers that wait for them |
//! | `ci_reports` | `CiReports` | outcomes reported by the CI system |
//! | `seal_queue` | `SealQueue` | ended attempts that are sealed |
//! | `ended_counters` | `EndedCounters` | which ended attempts the fleet's metrics count |
//! | `retention` | `Retention` | deletion of old data |

mod abandoned;
mod after_commit;
mod agent_clocks;
pub(crate) mod causes;
pub(crate) mod ci_outcomes;
mod ci_reports;
mod commit;
mod compaction;
mod compaction_queue;
mod ended_counters;
mod ending;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod job_pods;
mod open_quota;
mod opening;
mod request;
mod resume;
mod retention;
mod run_ids;
mod seal_queue;
mod session;
mod staging;
mod start_time;
pub(crate) mod startup;
mod stream_handle;
mod table;
mod takeover;
mod worker;

use std::{sync::Arc, time::Duration};

use plimsoll_core::{
    domain::{
        Attempt, AttemptId, Bytes, FinalTotals, JobPod, Millis, Rescue, RetentionPolicy, Sample, Summary,
        TicketId, Verdict,
    },
    mask, predict,
    shared_history::SharedHistory,
};
use plimsoll_proto::v1::ActsNow;
use plimsoll_store::{self as store, SealError, Store, StoreError};
use request::{AnswerSender, Request};
pub(crate) use request::{Append, AttemptChange, Finish, OpenedAttempt, RunningAttempt};
pub(crate) use stream_handle::StreamHandle;
use tokio::sync::{broadcast, mpsc, oneshot};
pub(crate) use worker::Worker;

pub(crate) use crate::{
    access::refusal::{Refusal, Reply, unwritable},
    ingest::ci_outcomes::OutcomeStatus,
};

use crate::{
    access::identity::Identity,
    causes::FailureClassifier,
    ingest::{job_pods::JobPods, start_time::start},
    pools::PoolRegistry,
    runtime::{
        clock::Clock,
        metrics::{KindLabel, Metrics},
    },
    tickets::TicketRegistry,
};

/// Capacity of the worker's queue, in requests. While it is full, no more messages are read from
/// streams.
pub(crate) const QUEUE_CAPACITY: usize = 1024;

/// Number of changes by which a watcher may lag behind.
const CHANGES_CAPACITY: usize = 1024;

/// What the worker and [`Ingest`] are made of; outside of this room only a maker sees it.
#[derive(Debug, Clone)]
pub(crate) struct IngestParts {
    pub(crate) store: Store,
    pub(crate) history: SharedHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) classifier: FailureClassifier,
    pub(crate) job_pods: JobPods,
    pub(crate) pools: PoolRegistry,
    pub(crate) tickets: TicketRegistry,
    /// Most open attempts.
    pub(crate) open_attempts: usize,
    /// Retention of samples, summaries and log lines.
    pub(crate) retain: RetentionPolicy,
    /// Silence after which an attempt is closed as lost.
    pub(crate) abandon_after: Duration,
}

/// Sends requests to the worker and waits for the answers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Ingest {
    requests: mpsc::Sender<Request>,
    parts: IngestParts,
}

impl Ingest {
    /// Creates an [`Ingest`], and the worker, which the caller must run.
    pub(crate) fn new(parts: IngestParts) -> (Self, Worker) {
        let (requests, queue) = mpsc::channel(QUEUE_CAPACITY);
        let worker = Worker::new(parts.clone(), queue, broadcast::Sender::new(CHANGES_CAPACITY));
        (Self { requests, parts }, worker)
    }

    /// Opens an attempt for a stream, or hands an open attempt over to the stream. If another run
    /// has the id and `takes_new_id` is set, the attempt is opened under another id.
    pub(crate) async fn open(
        &self,
        mut attempt: Attempt,
        stream: &StreamHandle,
        takes_new_id: bool,
    ) -> Reply<OpenedAttempt> {
        mask::attempt(&mut attempt);
        let attempt = Box::new(self.with_prediction(attempt));
        let stream = stream.clone();
        self.ask_worker(|answer| Request::Open { attempt, stream, takes_new_id, answer }).await
    }

    /// Stores samples, in the order of the calls. The answer is the sequence number up to which
    /// everything is on disk. Waits only for space in the queue.
    pub(crate) async fn append(&self, append: Append, stream: &StreamHandle) -> Reply<PendingAnswer<u64>> {
        self.queue_request(|answer| Request::Append { append, stream: stream.clone(), answer }).await
    }

    /// Ends and seals an attempt; returns its last sequence number.
    pub(crate) async fn finish(&self, mut finish: Finish, stream: &StreamHandle) -> Reply<u64> {
        mask::phases(&mut finish.phases);
        mask::processes(finish.largest_process.as_mut(), finish.rescue.as_mut());
        let finish = Box::new(finish);
        self.ask_worker(|answer| Request::Finish { finish, stream: stream.clone(), answer }).await
    }

    /// Releases the attempts of a stream that has ended.
    pub(crate) async fn leave(&self, stream: StreamHandle, attempts: impl IntoIterator<Item = AttemptId>) {
        let attempts = attempts.into_iter().collect();
        // if the worker has stopped, there is nothing to release
        let _stopped = self.requests.send(Request::Leave { stream, attempts }).await;
    }

    /// All open attempts, and a receiver of the changes from then on.
    pub(crate) async fn watch(&self) -> Reply<(Vec<RunningAttempt>, broadcast::Receiver<AttemptChange>)> {
        self.ask_worker(|answer| Request::Watch { answer }).await
    }

    /// The `most` open attempts with the highest memory need that `caller` may see, highest first,
    /// and how many it may see in total.
    pub(crate) async fn highest(
        &self,
        most: usize,
        caller: Arc<Identity>,
    ) -> Reply<(Vec<RunningAttempt>, usize)> {
        self.ask_worker(|answer| Request::Highest { most, caller, answer }).await
    }

    /// The summary of an attempt, and whether the attempt is still open; `None` if it is unknown.
    pub(crate) async fn find(&self, id: &AttemptId) -> Reply<Option<(Arc<Summary>, bool)>> {
        if self.parts.history.knows(id) {
            return Ok(self.read(id).await?.map(|summary| (summary, false)));
        }
        let asked = id.clone();
        if let Some(running) = self.ask_worker(|answer| Request::Find { id: asked, answer }).await? {
            let now = self.parts.clock.now_unix_ms();
            return Ok(Some((Arc::new(running.so_far(now)), true)));
        }
        Ok(self.read(id).await?.map(|summary| (summary, false)))
    }

    /// The summary of an ended attempt for lists, without its phases. `None` if it is missing or
    /// damaged, so that the rest of the list is still shown.
    pub(crate) async fn listed(&self, id: &AttemptId) -> Reply<Option<Summary>> {
        match store::read_summary(&self.parts.store, id).await {
            Ok(summary) => Ok(summary.map(|summary| Summary { phases: Vec::new(), ..summary })),
            // the store has noted it
            Err(StoreError::Damaged { .. }) => Ok(None),
            Err(error) => Err(Refusal::Unreadable(error.to_string())),
        }
    }

    /// Reads the summary of an ended attempt from disk.
    async fn read(&self, id: &AttemptId) -> Reply<Option<Arc<Summary>>> {
        let summary = store::read_summary(&self.parts.store, id).await;
        Ok(summary?.map(Arc::new))
    }

    /// Passes the stored samples of an attempt to `take`, in order; returns their number.
    pub(crate) async fn series(
        &self,
        id: &AttemptId,
        mut take: impl FnMut(&Sample) + Send,
    ) -> Result<u64, StoreError> {
        let read = store::each_run(&self.parts.store, id, |run| run.samples.iter().for_each(&mut take));
        Ok(read.await?.samples)
    }

    /// The attempts that are predicted from.
    pub(crate) fn history(&self) -> &SharedHistory {
        &self.parts.history
    }

    /// Why an attempt's ticket gives it no place; `None` if it gives one.
    pub(crate) fn no_place(&self, ticket: &TicketId, attempt: &AttemptId, project: &str) -> Option<String> {
        self.parts.tickets.no_place(ticket, attempt, project)
    }

    /// Keeps the sizes of a job's pod. Never blocks: if the queue is full, they are kept only in
    /// memory.
    pub(crate) fn note_pod(&self, pod: JobPod) {
        let pod = JobPod { seen_unix_ms: self.parts.clock.now_unix_ms(), ..pod };
        let Some(id) = pod.id() else { return };
        let Some(forgotten) = self.parts.job_pods.note(id, pod.clone()) else { return };
        let request = Request::NotePod { pod: Box::new(pod), forgotten };
        if self.requests.try_send(request).is_err() {
            self.parts.metrics.pods_not_on_disk.inc();
            tracing::warn!("the sizes of a pod are not stored: too many requests wait for the writer");
        }
    }

    /// Writes a verdict to disk, and its cause into the attempt's summary. If one with this number was written already, returns that
    /// instead.
    pub(crate) async fn record(&self, number: u64, verdict: Verdict) -> Reply<Verdict> {
        let verdict = Box::new(verdict);
        self.ask_worker(|answer| Request::Record { fingerprint: number, verdict, answer }).await
    }

    /// Deletes those verdicts on an attempt for which `is_meant` returns true.
    /// Errors: the store cannot be read or written.
    pub(crate) async fn forget_verdicts(
        &self,
        attempt: &AttemptId,
        is_meant: impl Fn(&Verdict) -> bool,
    ) -> Result<(), SealError> {
        store::forget_verdicts_if(&self.parts.store, attempt, is_meant).await.map(drop)
    }

    async fn ask_worker<T>(&self, request: impl FnOnce(AnswerSender<T>) -> Request) -> Reply<T> {
        self.queue_request(request).await?.answer().await
    }

    async fn queue_request<T>(
        &self,
        request: impl FnOnce(AnswerSender<T>) -> Request,
    ) -> Reply<PendingAnswer<T>> {
        let (answer, answered) = oneshot::channel();
        let pending = PendingAnswer { answer_receiver: answered, metrics: Arc::clone(&self.parts.metrics) };
        match self.requests.send(request(answer)).await {
            Ok(()) => Ok(pending),
            Err(_stopped) => pending.count_refusal(Err(Refusal::Stopping)),
        }
    }
}

/// A request that the worker has not answered yet.
#[derive(Debug)]
pub(crate) struct PendingAnswer<T> {
    answer_receiver: oneshot::Receiver<Reply<T>>,
    metrics: Arc<Metrics>,
}

impl<T> PendingAnswer<T> {
    /// Waits for the answer. The future may be dropped and the method called again, until it has returned.
    pub(crate) async fn answer(&mut self) -> Reply<T> {
        let result = (&mut self.answer_receiver).await.unwrap_or(Err(Refusal::Stopping));
        self.count_refusal(result)
    }

    /// The answer if the worker has sent it already.
    pub(crate) fn answer_now(&mut self) -> Option<Reply<T>> {
        match self.answer_receiver.try_recv() {
            Ok(result) => Some(self.count_refusal(result)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(self.count_refusal(Err(Refusal::Stopping))),
        }
    }

    fn count_refusal<U>(&self, result: Reply<U>) -> Reply<U> {
        if let Err(refusal) = &result {
            self.metrics.refusals.get_or_create(&KindLabel::of(refusal.kind())).inc();
        }
        result
    }
}

impl RunningAttempt {
    /// The summary as it would be if the attempt ended now and its end was not observed.
    pub(crate) fn so_far(&self, now_unix_ms: u64) -> Summary {
        let wall = self.progress.last.map(|last| last.elapsed).unwrap_or_default();
        let (totals, rescue) = shown_by(self.acts);
        let mut summary = Summary::of(&self.attempt, &self.progress, &totals, wall, None);
        summary.rescue = rescue;
        (summary.started_unix_ms, _) = start(self.attempt.started_unix_ms, wall, now_unix_ms);
        summary
    }
}

/// What the last sample of an attempt shows of its memory limit and of rescue, as far as its end would.
fn shown_by(acts: Option<ActsNow>) -> (FinalTotals, Option<Rescue>) {
    let ActsNow { memory_limit_bytes, pauses, paused_ms, raises, .. } = acts.unwrap_or_default();
    let totals = FinalTotals { memory_limit: memory_limit_bytes.map(Bytes), ..FinalTotals::default() };
    let paused = Millis(paused_ms);
    // at least one process was paused then
    let rescue = Rescue { pauses, paused, paused_process_time: paused, raises, ..Rescue::default() };
    (totals, (pauses > 0 || raises > 0).then_some(rescue))
}
