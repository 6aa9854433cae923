//! Keeps two facts from verdicts on attempts that memory ended. The history lacks them, and with them a prediction gives the same next size
//! as the verdict:
//!
//! - How far the need was still growing: no summary records it.
//! - That memory ended an attempt which is not in the history: the attempt had no agent, or the agent died with it and the attempt is not
//!   sealed yet.
//!
//! An attempt is kept once for each project that a caller names for it, so that callers without access to a project change nothing there.

use std::collections::HashMap;

use plimsoll_proto::reasons::SizeBound;

use crate::domain::{Action, AttemptId, Bytes, Key, Verdict};

/// Most memory ends that are kept: about as many as occur in some days. They take about 500 KB.
const MAX_MEMORY_ENDS: usize = 512;

/// How memory ended an attempt, according to its verdict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgedMemoryEnd {
    /// The memory size that was too small for the attempt.
    pub(crate) stopped_at: Bytes,
    /// The size that the need would have reached at its growth before the end; 0 if it did not grow or that is unknown.
    pub(crate) grown_to: Bytes,
    /// When the verdict was given, milliseconds since 1970.
    pub(crate) judged_unix_ms: u64,
    /// What was built.
    key: Key,
}

impl JudgedMemoryEnd {
    /// Reads a verdict. `None` unless it proves that memory ended the attempt and at which size, the attempt is trusted, and the caller has
    /// access to its project.
    fn of(verdict: &Verdict) -> Option<Self> {
        let is_proven =
            verdict.cause.is_memory() && verdict.outlook.proven && verdict.action == Action::Bigger;
        let stopped = verdict.outlook.stopped_at.filter(|_| is_proven)?;
        let limit = &verdict.next.as_ref()?.memory_limit;
        let grown_to = Bytes(if matches!(limit.basis.bound, SizeBound::Grown(_)) { limit.value } else { 0 });
        let judged_unix_ms = verdict.given_unix_ms.unwrap_or(0);
        let key = (**verdict.basis.built.as_ref()?).clone();
        verdict.counts_for(&key.project).then_some(Self {
            stopped_at: stopped,
            grown_to,
            judged_unix_ms,
            key,
        })
    }
}

/// The newest memory ends, by the time of their verdicts. The time decides because a restart reads the verdicts in another order and must
/// keep the same ones.
#[derive(Debug, Default)]
pub(super) struct JudgedMemoryEnds(HashMap<JudgedAttempt, JudgedMemoryEnd>);

/// An attempt, and the project that it was judged for (empty: none).
type JudgedAttempt = (AttemptId, String);

impl JudgedMemoryEnds {
    /// Stores the end that a verdict shows, in place of an earlier one for the same attempt and project. Returns whether anything changed.
    pub(super) fn note(&mut self, verdict: &Verdict) -> bool {
        let Some(end) = JudgedMemoryEnd::of(verdict) else {
            let before = self.0.len();
            let given = verdict.given_unix_ms.unwrap_or(0);
            let is_undone = |id: &AttemptId, project: &str, end: &JudgedMemoryEnd| {
                *id == verdict.attempt && verdict.counts_for(project) && end.judged_unix_ms <= given
            };
            self.0.retain(|(id, project), end| !is_undone(id, project, end));
            return self.0.len() != before;
        };
        let of = (verdict.attempt.clone(), end.key.project.clone());
        if self.0.get(&of).is_some_and(|known| known.judged_unix_ms > end.judged_unix_ms) {
            return false;
        }
        let before = self.0.insert(of, end.clone());
        if self.0.len() > MAX_MEMORY_ENDS {
            let oldest = self.0.iter().min_by_key(|(of, end)| (end.judged_unix_ms, *of));
            if let Some(oldest) = oldest.map(|(of, _)| of.clone()) {
                self.0.remove(&oldest);
            }
        }
        before != Some(end)
    }

    pub(super) fn recorded_end(&self, attempt: &AttemptId, project: &str) -> Option<&JudgedMemoryEnd> {
        (!self.0.is_empty()).then(|| self.0.get(&(attempt.clone(), project.to_owned()))).flatten()
    }

    /// The recorded ends of attempts with exactly this key.
    pub(super) fn of_key<'e>(
        &'e self,
        key: &Key,
    ) -> impl Iterator<Item = (&'e AttemptId, &'e JudgedMemoryEnd)> {
        let built = (!self.0.is_empty() && !key.package.is_empty()).then(|| key.build_key());
        self.0.iter().filter(move |(_, end)| built.as_ref() == Some(&end.key)).map(|((id, _), end)| (id, end))
    }
}
