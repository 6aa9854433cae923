//! Verdicts on attempts that memory ended: what the history of ended attempts does not tell, and a prediction has to know to name the same
//! next size.
//!
//! - Where the need was heading: no summary tells it.
//! - That memory ended an attempt which is not in the history, because its agent went with it and its end is not sealed, or because no agent
//!   was beside it.

use std::collections::{HashMap, VecDeque};

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
    /// What was built, as far as that is known beside the history.
    key: Option<Key>,
}

impl JudgedMemoryEnd {
    /// `None` if nothing proves that memory ended the attempt, or where.
    fn of(key: Option<&Key>, verdict: &Verdict) -> Option<Self> {
        let is_proven =
            verdict.cause.is_memory() && verdict.outlook.proven && verdict.action == Action::Bigger;
        let stopped = verdict.outlook.stopped_at.filter(|_| is_proven)?;
        let limit = &verdict.next.as_ref()?.memory_limit;
        let growth = Bytes(if matches!(limit.basis.bound, SizeBound::Grown(_)) { limit.value } else { 0 });
        let judged_unix_ms = verdict.given_unix_ms.unwrap_or(0);
        Some(Self { stopped, growth, judged_unix_ms, key: key.map(Key::built) })
    }
}

/// The newest of them.
#[derive(Debug, Default)]
pub(super) struct JudgedMemoryEnds {
    ends: HashMap<AttemptId, JudgedMemoryEnd>,
    /// Oldest first.
    order: VecDeque<AttemptId>,
}

impl JudgedMemoryEnds {
    /// Takes a verdict in the place of an earlier one on its attempt. Says whether that changed anything.
    pub(super) fn note(&mut self, key: Option<&Key>, verdict: &Verdict) -> bool {
        let Some(end) = JudgedMemoryEnd::of(key, verdict) else {
            self.order.retain(|id| *id != verdict.attempt);
            return self.ends.remove(&verdict.attempt).is_some();
        };
        let before = self.ends.insert(verdict.attempt.clone(), end.clone());
        if before.is_none() {
            self.order.push_back(verdict.attempt.clone());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
        before != Some(end)
    }

    pub(super) fn of(&self, attempt: &AttemptId) -> Option<&JudgedMemoryEnd> {
        self.ends.get(attempt)
    }

    /// Those of exactly this key.
    pub(super) fn of_key<'e>(
        &'e self,
        key: &Key,
    ) -> impl Iterator<Item = (&'e AttemptId, &'e JudgedMemoryEnd)> {
        let built = (!self.ends.is_empty() && !key.package.is_empty()).then(|| key.built());
        self.ends.iter().filter(move |(_, end)| built.is_some() && end.key == built)
    }
}
