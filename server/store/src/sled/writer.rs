//! The one thread that writes to the store.
//!
//! It takes commits from its queue, puts them into one batch of the engine, flushes, and only then answers all
//! of them. Meanwhile the queue collects the next group. If the engine fails, the thread answers with the
//! error, makes the store read-only, and tries to reopen the engine about once a second, because a handle of
//! sled does not recover from an error.

use std::{
    sync::{
        Arc, Weak,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    directory::Directory,
    engine::Engine,
    engine_error::EngineError,
    fault::{FORMAT_VERSION, OpenError},
    marker::{Marker, StoreStage},
    opening::refuse_by_forecast,
    plan::plan_group,
    shared::EngineState,
    small_files,
    snapshot::SharedSnapshot,
    witness::CommitWitness,
};
use crate::{
    bounds::BATCH_BYTES,
    committing::{CommitJob, GROUP_COMMITS},
    errors::CommitError,
    kv::{CommitReceipt, StoreIdentity, StoreMode},
    threads,
};

/// Interval between attempts to reopen the engine.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// The marker is updated after at most this many commits.
const MARKER_INTERVAL_COMMITS: u64 = 1000;

/// A message from a handle of the store to the writer thread.
#[derive(Debug)]
pub(crate) enum WriterMessage {
    Commit(CommitJob),
    /// Starts a snapshot between two groups of commits. The answer is `None` while another snapshot is read.
    Snapshot(oneshot::Sender<Option<(StoreIdentity, Arc<SharedSnapshot>)>>),
    /// Ends the thread, after it has handled earlier messages.
    Close,
}

/// What is known of the last commit when the store opens.
#[derive(Debug)]
pub(crate) struct LastCommit {
    pub(crate) identity: StoreIdentity,
    /// The witness file.
    pub(crate) witness: CommitWitness,
}

/// State of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: Directory,
    cache_bytes: u64,
    shared: Arc<EngineState>,
    queue: Receiver<WriterMessage>,
    /// A message that was taken from the queue and did not fit into the last group.
    carried_over: Option<WriterMessage>,
    /// The store's identity, with the number of the last acknowledged commit.
    identity: StoreIdentity,
    /// The witness file, in which every acknowledged commit is recorded.
    witness: CommitWitness,
    /// Whether a failed write to the witness was already logged.
    witness_failed: bool,
    /// Number of the last commit that the marker records.
    marked_sequence: u64,
    last_try: Instant,
    last_measure: Option<Instant>,
    /// The snapshot that is being read, if any.
    snapshot: Weak<SharedSnapshot>,
}

impl Writer {
    /// A writer for an open engine.
    pub(crate) fn new(
        directory: Directory,
        cache_bytes: u64,
        shared: Arc<EngineState>,
        queue: Receiver<WriterMessage>,
        last: LastCommit,
    ) -> Self {
        let LastCommit { identity, witness } = last;
        let now = Instant::now();
        let marked = identity.sequence;
        let (carried, last_measure) = (None, None);
        let mut writer = Self {
            directory,
            cache_bytes,
            shared,
            queue,
            carried_over: carried,
            identity,
            witness,
            witness_failed: false,
            marked_sequence: marked,
            last_try: now,
            last_measure,
            snapshot: Weak::new(),
        };
        writer.measure_files();
        writer
    }

    /// Handles messages until the queue is closed or its sender is dropped.
    pub(crate) fn run(mut self) {
        threads::yield_to_others();
        loop {
            match self.carried_over.take().map_or_else(|| self.queue.recv_timeout(REOPEN_INTERVAL), Ok) {
                Ok(WriterMessage::Commit(first)) => self.write_group(first),
                Ok(WriterMessage::Snapshot(answer)) => self.begin_snapshot(answer),
                Err(RecvTimeoutError::Timeout) if self.shared.reason().is_some() => self.recover(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(WriterMessage::Close) | Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
        }
    }

    fn begin_snapshot(&mut self, answer: oneshot::Sender<Option<(StoreIdentity, Arc<SharedSnapshot>)>>) {
        let free = self.snapshot.strong_count() == 0;
        let begun = free.then(|| {
            let rescue = SharedSnapshot::new(self.identity.sequence);
            self.snapshot = Arc::downgrade(&rescue);
            (self.identity, rescue)
        });
        // a caller that has gone drops the answer, and with it the snapshot
        drop(answer.send(begun));
    }

    /// Handles one group of commits: takes it from the queue, writes it, and answers its callers.
    fn write_group(&mut self, first: CommitJob) {
        let begin = Instant::now();
        let group = self.gather_group(first);
        self.write_and_answer(group, begin);
        if self.identity.sequence - self.marked_sequence >= MARKER_INTERVAL_COMMITS {
            self.update_marker();
        }
        self.measure_files();
    }

    /// Takes commits from the queue, up to the limits of a group.
    fn gather_group(&mut self, first: CommitJob) -> Vec<CommitJob> {
        let mut bytes = first.batch.bytes();
        let mut group = vec![first];
        while group.len() < GROUP_COMMITS {
            match self.queue.try_recv() {
                Ok(WriterMessage::Commit(job)) if bytes + job.batch.bytes() <= BATCH_BYTES => {
                    bytes += job.batch.bytes();
                    group.push(job);
                }
                Ok(message) => {
                    self.carried_over = Some(message);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        group
    }

    fn write_and_answer(&mut self, group: Vec<CommitJob>, begin: Instant) {
        if self.shared.reason().is_some() && self.last_try.elapsed() >= REOPEN_INTERVAL {
            self.recover();
        }
        let outcomes = match self.shared.reason() {
            Some(reason) => Err(reason),
            None => self.write(&group).map_err(|error| self.go_read_only(&error)),
        };
        match outcomes {
            Ok(outcomes) => {
                self.shared.note_committed(self.identity.sequence, begin.elapsed());
                for (job, outcome) in group.into_iter().zip(outcomes) {
                    job.answer(outcome);
                }
            }
            Err(reason) => {
                for job in group {
                    job.answer(Err(CommitError::Unavailable(reason.clone())));
                }
            }
        }
    }

    /// Writes the group as one batch of the engine. The batch is on disk when this returns.
    fn write(&mut self, group: &[CommitJob]) -> Result<Vec<Result<CommitReceipt, CommitError>>, EngineError> {
        let engine = self.shared.engine().ok_or_else(|| EngineError::other("the engine is not open"))?;
        let plan = plan_group(&engine, self.identity.sequence, group, &self.shared);
        if plan.sequence > self.identity.sequence {
            let identity = StoreIdentity { sequence: plan.sequence, ..self.identity };
            if let Some(snapshot) = self.snapshot.upgrade() {
                snapshot.keep_before_change(&engine, plan.changes.iter().map(|(key, _)| *key))?;
            }
            engine.apply(&plan.changes, identity)?;
            self.identity = identity;
            self.update_witness();
        }
        Ok(plan.outcomes)
    }

    /// Records the last commit in the witness. If that fails, the witness keeps an older commit, which is safe.
    fn update_witness(&mut self) {
        let noted = self.witness.record_commit(self.identity);
        if let Err(error) = &noted
            && !self.witness_failed
        {
            tracing::warn!(%error, "cannot update the witness file: a loss of the last commits would not be noticed");
        }
        self.witness_failed = noted.is_err();
    }

    /// Makes the store read-only; returns the reason.
    fn go_read_only(&mut self, error: &EngineError) -> String {
        let path = self.directory.path().display();
        let reason = if error.is_damage() {
            // from now on only what lies beside damage is refused
            format!("{path}: {}", self.shared.note_read_error(error))
        } else {
            format!("{path}: {error}; a server goes on writing by itself once the disk has room and works")
        };
        tracing::error!(%reason, "the store is read-only");
        self.last_try = Instant::now();
        self.shared.set_mode(StoreMode::ReadOnly { reason: reason.clone() });
        reason
    }

    /// Tries to reopen the engine.
    fn recover(&mut self) {
        self.last_try = Instant::now();
        match self.reopen() {
            Ok(()) => {
                tracing::info!(dir = %self.directory.path().display(), "the store is writable again");
                self.shared.set_mode(StoreMode::Writable);
            }
            Err(error) => {
                self.go_read_only(&error);
            }
        }
        self.shared.note_try();
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        // while the disk is full, keep the old engine, which can still read
        self.directory.probe_room().map_err(|error| EngineError::other(error.to_string()))?;
        if let Some(engine) = self.shared.replace_engine(None).and_then(Arc::into_inner) {
            engine.close()?;
        }
        let unusable = |error: OpenError| EngineError::other(error.to_string());
        small_files::remove_unusable(&self.directory.engine()).map_err(unusable)?;
        let path = self.directory.engine();
        refuse_by_forecast(self.directory.path(), &path, &self.marker()).map_err(unusable)?;
        let engine = Engine::open(&path, self.cache_bytes)?;
        let found = engine.identity()?;
        let whole = found.filter(|found| found.id == self.identity.id);
        let Some(found) = whole.filter(|found| found.sequence >= self.identity.sequence) else {
            let known = self.identity.sequence;
            return Err(EngineError::other(format!(
                "the store came back without commits that were acknowledged ({known} expected): restore a backup"
            )));
        };
        engine.apply(&[], found)?;
        self.identity = found;
        self.shared.replace_engine(Some(Arc::new(engine)));
        Ok(())
    }

    /// Updates the marker. If that fails, the marker keeps an older commit, which is safe.
    fn update_marker(&mut self) {
        let marker = self.marker();
        self.marked_sequence = self.identity.sequence;
        if let Err(error) = marker.update(self.directory.path()) {
            tracing::warn!(%error, "cannot update the marker file of the store");
        }
    }

    /// The current content of the marker.
    fn marker(&self) -> Marker {
        Marker {
            store_id: self.identity.id,
            format_version: FORMAT_VERSION,
            commit_sequence: self.identity.sequence,
            state: StoreStage::Ready,
            attempts: None,
        }
    }

    /// Measures the size of the files, if the last measurement is old enough.
    fn measure_files(&mut self) {
        if self.last_measure.is_none_or(|last| last.elapsed() >= REOPEN_INTERVAL) {
            self.last_measure = Some(Instant::now());
            self.shared.set_bytes(self.directory.bytes());
        }
    }

    /// Ends the thread: updates the marker and releases the files. All answered commits are on disk already.
    fn end(mut self) {
        self.shared.set_mode(StoreMode::ReadOnly { reason: "the store is closed".to_owned() });
        self.update_marker();
        let engine = self.shared.replace_engine(None).and_then(Arc::into_inner);
        if let Some(Err(error)) = engine.map(Engine::close) {
            tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
        }
    }
}

/// Makes the store read-only however the thread ends: without the writer no commit can succeed.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.shared.reason().is_none() {
            let reason = "the thread that writes has ended; restart the server".to_owned();
            self.shared.set_mode(StoreMode::ReadOnly { reason });
        }
    }
}
