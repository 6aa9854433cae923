//! Cache of answers to Spack, by the text of the request. Bursts of pipelines ask for the same
//! specs; a cached answer needs no parsing, computing or formatting.
//!
//! An answer depends on the request, the history, shadow mode, and settings that do not change while the server runs. It is repeated while
//! what it was computed from is the same ([`AnswerVersion`]); a full table is emptied. If the operator defined pools, no answer is cached,
//! because the free room of a pool changes at any time.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use foldhash::fast::RandomState;
use plimsoll_core::{
    domain::{AnswerVersion, History, Rung},
    shared_history::SharedHistory,
};

/// Most answers in the cache: the specs of a large stack.
const MAX_ANSWERS: usize = 4096;
/// How many of the newest attempts are searched for one that names a project.
const SEARCHED_ATTEMPTS: usize = 128;
/// Longest text of a request, bytes: twice the longest of Spack's. So the texts take at most 8 MiB, and answers of some 100 bytes each less
/// than 1 MiB.
const TEXT_BYTES: usize = 2048;

/// What is needed to cache an answer and to count it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatableAnswer {
    /// What the answer was computed from.
    pub(super) version: AnswerVersion,
    /// The version of shadow mode before that.
    pub(super) shadow: u64,
    /// Kind and rung under which metrics count the answer.
    pub(super) kind: &'static str,
    pub(super) rung: Rung,
}

/// The cached answers.
#[derive(Debug, Default)]
pub(crate) struct KnownAnswers {
    bodies: Mutex<Bodies>,
    /// The usual project, and the version of the history that it was read from.
    usual_project: Mutex<(u64, String)>,
}

type Bodies = HashMap<Box<str>, (Bytes, RepeatableAnswer), RandomState>;

impl KnownAnswers {
    /// The body of the last answer to the request with this text.
    pub(super) fn get(&self, text: &str) -> Option<(Bytes, RepeatableAnswer)> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned()
    }

    /// The project of the newest trusted attempt that has one.
    pub(super) fn usual_project(&self, history: &SharedHistory) -> String {
        let now = history.read(History::changes);
        let mut known = self.usual_project.lock().unwrap_or_else(PoisonError::into_inner);
        // the first change has the number 1
        if known.0 != now {
            *known = history.read(|history| {
                let mut newest =
                    history.newest_trusted().take(SEARCHED_ATTEMPTS).map(|brief| &brief.key.project);
                let project = newest.find(|project| !project.is_empty()).cloned().unwrap_or_default();
                (history.changes(), project)
            });
        }
        known.1.clone()
    }

    /// Adds an answer to the cache.
    pub(super) fn store_answer(&self, text: &str, body: Bytes, answer: RepeatableAnswer) {
        if text.len() > TEXT_BYTES {
            return;
        }
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let old = if bodies.len() >= MAX_ANSWERS { mem::take(&mut *bodies) } else { Bodies::default() };
        bodies.insert(text.into(), (body, answer));
        drop(bodies);
        // thousands of answers may be freed here: after the lock is released, so that no request
        // waits
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::Key;

    use super::*;

    #[test]
    fn answers_are_bounded() {
        let answers = KnownAnswers::default();
        let version = History::new(1).answer_version(&Key::default(), true);
        let of = RepeatableAnswer { version, shadow: 0, kind: "answered", rung: Rung::Exact };
        for n in 0..MAX_ANSWERS + 5 {
            answers.store_answer(&n.to_string(), Bytes::new(), of);
        }
        answers.store_answer(&"x".repeat(TEXT_BYTES + 1), Bytes::new(), of);
        assert_eq!(answers.bodies.lock().unwrap().len(), 5);
    }
}
