//! Limits the memory of answers that clients do not read. An HTTP/2 client may send a hundred
//! requests on one connection, not open the window for their answers, and answer pings for ever:
//! each whole answer then waits in memory.
//!
//! | what waits | limit |
//! |---|---|
//! | answers of more than one piece | [`WAITING_BYTES`] bytes over all answers of all listeners; beyond it the answer that has made no progress for longest is dropped |
//! | the piece that was handed to the connection | [`PIECE_BYTES`] bytes for each request of a connection |
//! | what an answer holds (slots of its caller and its connection) | held until its last piece is handed to the connection |
//!
//! An answer is sent in pieces. The connection takes the next piece when the client has read the
//! last one; only that progress keeps a connection open
//! ([`RunningRequest::piece_given`](crate::door::net::accept::RunningRequest::piece_given)), pings do not.

mod body;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use axum::body::Bytes;
pub(crate) use body::Throttled;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

/// Bytes that are handed to a connection at once.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of answers that may wait, over all listeners: twenty of the largest pages. Clients that
/// read leave little waiting, so only the answers of others are dropped.
const WAITING_BYTES: usize = 24 * 1024 * 1024;

/// The answer was dropped, because others needed its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was not read, and others needed its room")]
pub(crate) struct DroppedAnswer;

/// The waiting answers of all listeners. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseBudget(Arc<ResponseBudgetState>);

#[derive(Debug, Default)]
struct ResponseBudgetState {
    waiting_answers: Mutex<WaitingAnswers>,
    /// Metric of the bytes of `waiting_answers`.
    bytes: Gauge<u64, AtomicU64>,
    dropped: Counter,
}

#[derive(Debug, Default)]
struct WaitingAnswers {
    /// Waiting answers, in the order in which a piece was last taken of them: the first has made no
    /// progress for longest.
    answers: BTreeMap<u64, WaitingAnswer>,
    /// Bytes of all waiting answers.
    bytes: usize,
    next_answer_key: u64,
}

#[derive(Debug)]
struct WaitingAnswer {
    unsent_bytes: Bytes,
    /// Bytes of the whole answer, because it stays in memory until its last piece is taken.
    bytes: usize,
}

/// A handle for taking the pieces of an answer that were not sent yet.
#[derive(Debug)]
pub(crate) struct AnswerRest {
    response_budget: ResponseBudget,
    /// Key of the answer in [`WaitingAnswers::answers`].
    answer_key: u64,
    /// Number of bytes that are left.
    left_bytes: usize,
}

impl ResponseBudget {
    /// Starts without answers. `bytes` is the metric of waiting bytes, `dropped` counts dropped
    /// answers.
    pub(crate) fn new(bytes: Gauge<u64, AtomicU64>, dropped: Counter) -> Self {
        Self(Arc::new(ResponseBudgetState { waiting_answers: Mutex::default(), bytes, dropped }))
    }

    /// Keeps an answer until its pieces are taken.
    fn keep(&self, rest: Bytes) -> AnswerRest {
        let (bytes, left) = (rest.len(), rest.len());
        let answer_key = self.lock_waiting().insert(WaitingAnswer { unsent_bytes: rest, bytes });
        self.make_room();
        self.report_waiting();
        AnswerRest { response_budget: self.clone(), answer_key, left_bytes: left }
    }

    /// Drops the answers that have made no progress for longest until the others fit into [`WAITING_BYTES`].
    /// The last answer is never dropped, even if it is larger.
    fn make_room(&self) {
        let mut waiting = self.lock_waiting();
        while waiting.bytes > WAITING_BYTES && waiting.answers.len() > 1 {
            let Some(oldest) = waiting.answers.keys().next().copied() else { return };
            waiting.remove(oldest);
            self.0.dropped.inc();
        }
    }

    fn lock_waiting(&self) -> MutexGuard<'_, WaitingAnswers> {
        self.0.waiting_answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report_waiting(&self) {
        let bytes = self.lock_waiting().bytes;
        self.0.bytes.set(bytes as u64);
    }
}

impl WaitingAnswers {
    fn insert(&mut self, answer: WaitingAnswer) -> u64 {
        self.next_answer_key += 1;
        self.bytes = self.bytes.saturating_add(answer.bytes);
        self.answers.insert(self.next_answer_key, answer);
        self.next_answer_key
    }

    fn remove(&mut self, answer_key: u64) -> Option<WaitingAnswer> {
        let answer = self.answers.remove(&answer_key)?;
        self.bytes = self.bytes.saturating_sub(answer.bytes);
        Some(answer)
    }
}

impl AnswerRest {
    /// The next piece; `None` after the last one. It is a copy, because a piece that waits in the
    /// connection must not keep the whole answer in memory.
    ///
    /// # Errors
    /// The answer was dropped.
    fn next(&mut self) -> Result<Option<Bytes>, DroppedAnswer> {
        if self.left_bytes == 0 {
            return Ok(None);
        }
        let mut waiting = self.response_budget.lock_waiting();
        let mut answer = waiting.remove(self.answer_key).ok_or(DroppedAnswer)?;
        let piece =
            Bytes::copy_from_slice(&answer.unsent_bytes.split_to(answer.unsent_bytes.len().min(PIECE_BYTES)));
        self.left_bytes = answer.unsent_bytes.len();
        if self.left_bytes > 0 {
            self.answer_key = waiting.insert(answer);
        }
        drop(waiting);
        self.response_budget.report_waiting();
        Ok(Some(piece))
    }

    fn left(&self) -> usize {
        self.left_bytes
    }
}

impl Drop for AnswerRest {
    fn drop(&mut self) {
        if self.response_budget.lock_waiting().remove(self.answer_key).is_some() {
            self.response_budget.report_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    #[test]
    fn an_answer_comes_whole_in_pieces_and_leaves_nothing_behind() {
        let response_budget = ResponseBudget::default();
        let mut rest = response_budget.keep(page(3 * PIECE_BYTES + 1));
        let mut pieces = Vec::new();
        while let Some(piece) = rest.next().unwrap() {
            pieces.push(piece.len());
        }
        assert_eq!(pieces, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 1]);
        drop((rest, response_budget.keep(page(10))));
        let waiting = response_budget.lock_waiting();
        assert_eq!((waiting.bytes, waiting.answers.len(), response_budget.0.bytes.get()), (0, 0, 0));
    }

    #[test]
    fn when_there_is_no_room_the_answer_that_stood_still_the_longest_is_dropped() {
        let response_budget = ResponseBudget::default();
        let mut answers: Vec<AnswerRest> =
            (0..3).map(|_| response_budget.keep(page(WAITING_BYTES / 3))).collect();
        assert!(answers[0].next().unwrap().is_some(), "the first is read");
        let late = response_budget.keep(page(WAITING_BYTES / 3));
        assert_eq!(answers[1].next(), Err(DroppedAnswer));
        assert!(answers[0].next().is_ok() && answers[2].next().is_ok());
        assert_eq!(response_budget.0.dropped.get(), 1);
        drop((answers, late));
        let mut large = response_budget.keep(page(WAITING_BYTES + 1));
        assert!(large.next().is_ok(), "alone it may be larger than the room");
    }
}
