//! Cache of answers to Spack, by the text of the request. Bursts of pipelines ask for the same
//! specs; a cached answer needs no parsing, computing or formatting.
//!
//! An answer depends on the request, the history, shadow mode, and settings that do not change while the
//! server runs. So a change of the history or of shadow mode clears the cache; so does a full table. If the operator defined
//! pools, no answer is cached, because the free room of a pool changes at any time.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use foldhash::fast::RandomState;
use plimsoll_core::domain::Rung;

/// Most answers in the cache: the specs of a large stack.
const MAX_ANSWERS: usize = 4096;
/// Longest text of a request, bytes: twice the longest of Spack's. So the texts take at most 8 MiB, and answers of some 100 bytes each less
/// than 1 MiB.
const TEXT_BYTES: usize = 2048;

/// What is needed to cache an answer and to count it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatableAnswer {
    /// Version of the history from which the answer was computed.
    pub(super) changes: u64,
    /// Kind and rung under which metrics count the answer.
    pub(super) kind: &'static str,
    pub(super) rung: Rung,
}

/// The cached answers, all for one version of the history.
#[derive(Debug, Default)]
pub(crate) struct KnownAnswers(Mutex<AnswerTable>);

#[derive(Debug, Default)]
struct AnswerTable {
    changes: u64,
    body_by_text: Bodies,
}

type Bodies = HashMap<Box<str>, (Bytes, RepeatableAnswer), RandomState>;

impl KnownAnswers {
    /// The body of the answer to the request with this text, if it was computed from this version of the history.
    pub(super) fn get(&self, text: &str, changes: u64) -> Option<(Bytes, RepeatableAnswer)> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.body_by_text.get(text).filter(|_| table.changes == changes).cloned()
    }

    /// Adds an answer to the cache. `now`: the version of the history after the answer was
    /// computed.
    pub(super) fn store_answer(&self, text: &str, body: Bytes, answer: RepeatableAnswer, now: u64) {
        if text.len() > TEXT_BYTES || answer.changes != now {
            return;
        }
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newer = answer.changes > table.changes;
        let old: Bodies = if is_newer || table.body_by_text.len() >= MAX_ANSWERS {
            mem::take(&mut table.body_by_text)
        } else {
            Bodies::default()
        };
        table.changes = table.changes.max(answer.changes);
        if table.changes == answer.changes {
            table.body_by_text.insert(text.into(), (body, answer));
        }
        drop(table);
        // thousands of answers may be freed here: after the lock is released, so that no request
        // waits
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(answers: &KnownAnswers, text: &str, changes: u64) -> Option<Bytes> {
        answers.get(text, changes).map(|(body, _)| body)
    }

    #[test]
    fn cached_answers_match_request_and_history() {
        let answers = KnownAnswers::default();
        let of = |changes| RepeatableAnswer { changes, kind: "answered", rung: Rung::Exact };
        let body = |text: &'static str| Bytes::from_static(text.as_bytes());
        answers.store_answer("zlib", body("old"), of(3), 3);
        assert_eq!(known(&answers, "zlib", 3), Some(body("old")));
        assert_eq!([known(&answers, "zlib", 4), known(&answers, "hdf5", 3)], [None, None]);
        answers.store_answer("zlib", body("late"), of(3), 4);
        assert_eq!(
            known(&answers, "zlib", 3),
            Some(body("old")),
            "the history changed while it was computed"
        );
        answers.store_answer("hdf5", body("new"), of(4), 4);
        assert_eq!([known(&answers, "zlib", 3), known(&answers, "zlib", 4)], [None, None]);
        answers.store_answer("zlib", body("old"), of(3), 3);
        assert_eq!([known(&answers, "zlib", 4), known(&answers, "hdf5", 4)], [None, Some(body("new"))]);
    }

    #[test]
    fn answers_are_bounded() {
        let answers = KnownAnswers::default();
        let of = RepeatableAnswer { changes: 1, kind: "answered", rung: Rung::Exact };
        for n in 0..MAX_ANSWERS + 5 {
            answers.store_answer(&n.to_string(), Bytes::new(), of, 1);
        }
        answers.store_answer(&"x".repeat(TEXT_BYTES + 1), Bytes::new(), of, 1);
        assert_eq!(answers.0.lock().unwrap().body_by_text.len(), 5);
    }
}
