//! Verdicts on attempts that memory ended: what the history of ended attempts does not tell, and a prediction has to know to name the same
//! next size.
//!
//! - Where the need was heading: no summary tells it.
//! - That memory ended an attempt which is not in the history, because its agent went with it and its end is not sealed, or because no agent
//!   was beside it.

use std::collections::HashMap;

use plimsoll_proto::reasons::SizeBound;

use crate::domain::{Action, AttemptId, Bytes, Key, Verdict};

/// Attempts that are remembered: those that memory ended in some days. About 500 KB.
const REMEMBERED: usize = 512;

/// How memory ended an attempt, as the verdict on it says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgedMemoryEnd {
    /// What was too little.
    pub(crate) stopped: Bytes,
    /// Where the need was heading; 0 if it did not grow, or if that is not known.
    pub(crate) growth: Bytes,
    /// When the verdict was given, milliseconds since 1970.
    pub(crate) judged_unix_ms: u64,
    /// What was built.
    key: Key,
}

impl JudgedMemoryEnd {
    /// `None` if nothing proves that memory ended the attempt, or where, or if the attempt is not trusted.
    fn of(verdict: &Verdict) -> Option<Self> {
        let is_proven =
            verdict.cause.is_memory() && verdict.outlook.proven && verdict.action == Action::Bigger;
        let stopped = verdict.outlook.stopped_at.filter(|_| is_proven)?;
        let limit = &verdict.next.as_ref()?.memory_limit;
        let growth = Bytes(if matches!(limit.basis.bound, SizeBound::Grown(_)) { limit.value } else { 0 });
        let judged_unix_ms = verdict.given_unix_ms.unwrap_or(0);
        let key = (**verdict.basis.built.as_ref()?).clone();
        Some(Self { stopped, growth, judged_unix_ms, key })
    }
}

/// The newest of them. Which these are does not depend on the order in which verdicts come: a start reads them in another one.
#[derive(Debug, Default)]
pub(super) struct JudgedMemoryEnds(HashMap<AttemptId, JudgedMemoryEnd>);

impl JudgedMemoryEnds {
    /// Takes a verdict in the place of an earlier one on its attempt. Says whether that changed anything.
    pub(super) fn note(&mut self, verdict: &Verdict) -> bool {
        let Some(end) = JudgedMemoryEnd::of(verdict) else {
            return self.0.remove(&verdict.attempt).is_some();
        };
        let before = self.0.insert(verdict.attempt.clone(), end.clone());
        if self.0.len() > REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(id, end)| (end.judged_unix_ms, *id));
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.0.remove(&oldest);
            }
        }
        before != Some(end)
    }

    pub(super) fn of(&self, attempt: &AttemptId) -> Option<&JudgedMemoryEnd> {
        self.0.get(attempt)
    }

    /// Those of exactly this key.
    pub(super) fn of_key<'e>(
        &'e self,
        key: &Key,
    ) -> impl Iterator<Item = (&'e AttemptId, &'e JudgedMemoryEnd)> {
        let built = (!self.0.is_empty() && !key.package.is_empty()).then(|| key.built());
        self.0.iter().filter(move |(_, end)| built.as_ref() == Some(&end.key))
    }
}
