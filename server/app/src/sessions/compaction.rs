//! The compactions of long attempts, and the answers that wait for them.

use plimsoll_core::domain::AttemptId;
use tokio::task::JoinError;

use super::{commit::staged::PromisedAnswer, table::SessionTable};
use crate::sealing::compaction::{CompactionOutcome, CompactionQueue, EndedCompaction};

/// The compactions, and the answers of attempts that are far behind. All these say is on disk; they are as many as their streams have on the way.
#[derive(Debug)]
pub(super) struct Compactions {
    queue: CompactionQueue,
    held: Vec<PromisedAnswer>,
}

impl Compactions {
    pub(super) fn new(queue: CompactionQueue) -> Self {
        Self { queue, held: Vec::new() }
    }

    /// The next compaction that ends; never comes if none runs. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<EndedCompaction, JoinError> {
        self.queue.next().await
    }

    /// Begins to compact those of the changed attempts that have many loose samples.
    pub(super) fn compact_long(&mut self, sessions: &mut SessionTable, changed: &[AttemptId]) {
        for id in changed {
            self.queue.ask(id, sessions.loose(id));
        }
        self.queue.begin(|id| sessions.take_loose(id));
    }

    /// Gives an answer, unless its attempt has far too many loose samples and its agent would send still more: then it is given when
    /// the compaction has ended, well or not. All others go on meanwhile.
    pub(super) fn answer_or_hold(&mut self, sessions: &SessionTable, promise: PromisedAnswer) {
        let behind = |id: &AttemptId| self.queue.is_far_behind(id, sessions.loose(id));
        if promise.attempt().is_some_and(behind) {
            self.held.push(promise);
        } else {
            promise.send();
        }
    }

    /// Takes in what became of a compaction, and begins the next one; gives how many samples were sealed.
    pub(super) fn ended(
        &mut self,
        sessions: &mut SessionTable,
        ended: Result<EndedCompaction, JoinError>,
    ) -> u64 {
        let sealed = match self.queue.ended(ended) {
            CompactionOutcome::Sealed(samples) => samples,
            CompactionOutcome::StillLoose(id, samples) => {
                sessions.add_loose(&id, samples);
                0
            }
            CompactionOutcome::Aborted => 0,
        };
        self.release();
        self.queue.begin(|id| sessions.take_loose(id));
        sealed
    }

    /// Waits until these attempts are not compacted any more, for their end reads what is loose; gives how many samples were sealed.
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
                sealed = sealed.saturating_add(self.ended(sessions, ended));
            }
        }
        self.release();
        sealed
    }

    /// Gives all answers that are held.
    pub(super) fn release_all(&mut self) {
        self.held.drain(..).for_each(PromisedAnswer::send);
    }

    /// Gives the answers that were held for a compaction that has ended.
    fn release(&mut self) {
        for promise in std::mem::take(&mut self.held) {
            if promise.attempt().is_some_and(|id| self.queue.is_busy_with(id)) {
                self.held.push(promise);
            } else {
                promise.send();
            }
        }
    }
}

#[cfg(test)]
mod tests;
