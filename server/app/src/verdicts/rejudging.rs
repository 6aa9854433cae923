//! Computes a new verdict when an attempt ends that has one from before its end, because counters
//! and end were unknown then.

use plimsoll_core::domain::{AttemptId, Evidence};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Asker, Verdicts};

/// Most attempts that wait for a new verdict. An attempt that does not fit is counted, and gets its
/// new verdict at the next request about it.
const MAX_WAITING: usize = 1024;

/// Computes new verdicts on attempts that were judged before their end.
#[derive(Debug)]
pub(crate) struct Rejudging {
    verdicts: Verdicts,
    ended: mpsc::Receiver<AttemptId>,
}

impl Rejudging {
    /// Creates the task, and the queue for attempts that ended and have a verdict from before their end.
    pub(crate) fn new(verdicts: Verdicts) -> (Self, mpsc::Sender<AttemptId>) {
        let (sender, ended) = mpsc::channel(MAX_WAITING);
        (Self { verdicts, ended }, sender)
    }

    /// Runs until `end`.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let _ended = end.run_until_cancelled(self.judge_each()).await;
    }

    async fn judge_each(&mut self) {
        while let Some(attempt) = self.ended.recv().await {
            // from everything that is known now; boxed, because the future is large and exists for long
            let judged = Box::pin(self.verdicts.judge(Evidence::about(attempt.clone()), Asker::TRUSTED));
            if let Err(error) = judged.await {
                tracing::warn!(%attempt, %error, "could not judge an attempt again after its end");
            }
        }
    }
}

#[cfg(test)]
mod tests;
