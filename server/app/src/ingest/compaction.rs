//! Compactions of long attempts, and the answers that wait for them.

use plimsoll_core::domain::AttemptId;
use tokio::task::JoinError;

use super::{commit::staged::PromisedAnswer, table::SessionTable};
use crate::ingest::compaction_queue::{CompactionOutcome, CompactionQueue, EndedCompaction};

/// Compactions, and the answers that they delay. What these answers acknowledge is on disk. Their
/// number is bounded by the number of batches that agents have in flight.
#[derive(Debug)]
pub(super) struct Compactions {
    queue: CompactionQueue,
    delayed_answers: Vec<PromisedAnswer>,
}

impl Compactions {
    pub(super) fn new(queue: CompactionQueue) -> Self {
        Self { queue, delayed_answers: Vec::new() }
    }

    /// Waits for the next compaction to end; waits for ever if none runs. The future may be dropped
    /// and the method called again.
    pub(super) async fn next(&mut self) -> Result<EndedCompaction, JoinError> {
        self.queue.next().await
    }

    /// Starts the compaction of those changed attempts that have many samples in fragments.
    pub(super) fn compact_long(&mut self, sessions: &mut SessionTable, changed: &[AttemptId]) {
        for id in changed {
            self.queue.request(id, sessions.loose(id));
        }
        self.queue.start_waiting(|id| sessions.take_loose(id));
    }

    /// Sends an answer. If the attempt has too many samples in fragments and the answer would make
    /// its agent send more, the answer is sent when the compaction has ended, even if it failed.
    /// Other attempts are not delayed.
    pub(super) fn answer_or_hold(&mut self, sessions: &SessionTable, promise: PromisedAnswer) {
        let behind = |id: &AttemptId| self.queue.has_too_many_fragments(id, sessions.loose(id));
        if promise.attempt().is_some_and(behind) {
            self.delayed_answers.push(promise);
        } else {
            promise.send();
        }
    }

    /// Processes the result of a compaction, and starts the next one. Returns the number of sealed
    /// samples.
    pub(super) fn finish_and_start_next(
        &mut self,
        sessions: &mut SessionTable,
        ended: Result<EndedCompaction, JoinError>,
    ) -> u64 {
        let sealed = match self.queue.finish(ended) {
            CompactionOutcome::Sealed(samples) => samples,
            CompactionOutcome::StillLoose(id, samples) => {
                sessions.add_loose(&id, samples);
                0
            }
            CompactionOutcome::Aborted => 0,
        };
        self.release();
        self.queue.start_waiting(|id| sessions.take_loose(id));
        sealed
    }

    /// Waits until none of these attempts is being compacted, because ending them reads their
    /// fragments. Returns the number of sealed samples.
    pub(super) async fn stop<'a>(
        &mut self,
        sessions: &mut SessionTable,
        ids: impl Iterator<Item = &'a AttemptId>,
    ) -> u64 {
        let mut sealed = 0_u64;
        for id in ids {
            self.queue.forget(id);
            while self.queue.is_running(id) {
                let ended = self.queue.next().await;
                sealed = sealed.saturating_add(self.finish_and_start_next(sessions, ended));
            }
        }
        self.release();
        sealed
    }

    /// Sends all delayed answers.
    pub(super) fn release_all(&mut self) {
        self.delayed_answers.drain(..).for_each(PromisedAnswer::send);
    }

    /// Sends the answers about attempts that are no longer compacted.
    fn release(&mut self) {
        for promise in std::mem::take(&mut self.delayed_answers) {
            if promise.attempt().is_some_and(|id| self.queue.is_busy_with(id)) {
                self.delayed_answers.push(promise);
            } else {
                promise.send();
            }
        }
    }
}

#[cfg(test)]
mod tests;
