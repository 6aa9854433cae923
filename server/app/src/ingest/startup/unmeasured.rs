//! Verdicts on attempts that no agent measured. Such attempts have no summary with which their
//! verdicts would be deleted. When the server starts, verdicts are deleted that are older than
//! summaries may get, and the oldest if there are too many. While the server runs, the retention
//! deletes them.

use std::collections::{HashMap, HashSet};

use plimsoll_core::domain::{Attempt, AttemptId, Verdict};
use plimsoll_store::{self as store, Store};

/// Most attempts without a summary that keep their verdicts when the server starts: the failed jobs
/// of some months. Some KiB each.
pub(crate) const MAX_KEPT: usize = 100_000;

/// Which verdicts on attempts without a summary are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnmeasuredBound {
    /// Most attempts without a summary that keep their verdicts.
    pub(crate) attempts: usize,
    /// Verdicts given before this time are deleted, milliseconds since 1970.
    pub(crate) since_unix_ms: u64,
}

/// Attempts with verdicts and without a summary; the value is the time of the last verdict,
/// milliseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct UnmeasuredVerdicts(HashMap<AttemptId, u64>);

impl UnmeasuredVerdicts {
    /// Adds the attempt of a verdict.
    pub(crate) fn note_verdict(&mut self, verdict: &Verdict) {
        let given = verdict.given_unix_ms.unwrap_or(0);
        let last = self.0.entry(verdict.attempt.clone()).or_insert(given);
        *last = given.max(*last);
    }

    /// Removes an attempt that has a summary: its verdicts are deleted with the summary.
    pub(crate) fn note_measured(&mut self, id: &AttemptId) {
        if !self.0.is_empty() {
            self.0.remove(id);
        }
    }

    /// Attempts that lose their verdicts: those before `since_unix_ms`; and if there are
    /// more than `most`, the oldest, and a tenth of `most` in addition, so that the next start has
    /// nothing to delete.
    fn attempts_to_forget(self, most: usize, since_unix_ms: u64) -> HashSet<AttemptId> {
        let mut all: Vec<(u64, AttemptId)> = self.0.into_iter().map(|(id, given)| (given, id)).collect();
        all.sort_unstable();
        let old = all.partition_point(|(given, _id)| *given < since_unix_ms);
        let surplus = if all.len() > most { all.len() - most + most / 10 } else { 0 };
        let going = old.max(surplus);
        all.into_iter().take(going).map(|(_given, id)| id).collect()
    }

    /// Deletes verdicts on attempts that have no summary and are not `open`, within `bound`. An
    /// error is only logged, because the next start tries again.
    pub(crate) async fn drop_oldest(mut self, store: &Store, open: &[Attempt], bound: UnmeasuredBound) {
        let most = bound.attempts;
        for attempt in open {
            self.note_measured(&attempt.id);
        }
        let going = self.attempts_to_forget(most, bound.since_unix_ms);
        if going.is_empty() {
            return;
        }
        let attempts = going.len();
        match store::forget_verdicts(store, &going).await {
            Ok(_entries) => {
                tracing::info!(attempts, most, "removed the oldest verdicts on unmeasured attempts");
            }
            Err(error) => {
                tracing::warn!(%error, "could not remove old verdicts; they are tried again at the next start");
            }
        }
    }
}
