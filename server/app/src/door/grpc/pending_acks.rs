//! Batches of one stream that are not on disk yet. Their number is bounded, and they are
//! acknowledged in order.
//!
//! While the disk syncs one batch, the next ones are read and checked, and share the next sync. The
//! first refusal ends the stream. Later batches are refused, too, because sequence numbers are
//! missing before them; those refusals are not sent.

use std::collections::VecDeque;

use plimsoll_core::domain::AttemptId;
use plimsoll_proto::v1::{self as pb, server_message::Message as Answer};

use crate::ingest::{PendingAnswer, Refusal, Reply};

/// Most batches of one stream that may wait for the disk. An agent sends four before it waits for
/// an acknowledgement; more would only fill the worker's queue.
const MAX_PENDING_ACKS: usize = 8;

/// The pending batches, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingAcks {
    batches: VecDeque<(AttemptId, PendingAnswer<u64>)>,
    /// The refusal of a batch, to be returned after the acknowledgement of the batches before it.
    refused: Option<Refusal>,
}

impl PendingAcks {
    /// Whether no batch waits.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.refused.is_none()
    }

    /// Whether the next batch must wait until an older one is acknowledged.
    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= MAX_PENDING_ACKS || self.refused.is_some()
    }

    /// Adds a batch of an attempt.
    pub(super) fn push(&mut self, attempt: AttemptId, batch: PendingAnswer<u64>) {
        self.batches.push_back((attempt, batch));
    }

    /// The next acknowledgement, for all batches of one attempt that are on disk. Waits for ever if
    /// no batch is pending. The future may be dropped and the method called again.
    /// Errors: the first batch that was refused.
    pub(super) async fn next(&mut self) -> Reply<Answer> {
        if let Some(refusal) = self.refused.take() {
            return Err(refusal);
        }
        let Some((_, oldest)) = self.batches.front_mut() else { return std::future::pending().await };
        let mut acknowledged = oldest.answer().await?;
        let Some((attempt, _answered)) = self.batches.pop_front() else {
            return std::future::pending().await;
        };
        while let Some((_, next)) = self.batches.front_mut().filter(|(id, _)| *id == attempt) {
            match next.answer_now() {
                None => break,
                Some(Ok(number)) => acknowledged = number,
                Some(Err(refusal)) => {
                    // returned by the next call, after this acknowledgement
                    self.refused = Some(refusal);
                    break;
                }
            }
            self.batches.pop_front();
        }
        Ok(Answer::Ack(pb::Ack { attempt: attempt.to_string(), acknowledged, sealed: false }))
    }
}
