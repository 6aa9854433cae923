//! Verdicts on attempts without an agent: they are not deleted with a summary. At a start those older than summaries may get are deleted,
//! and the oldest if there are too many. While the server runs, the retention deletes them.

use std::collections::{HashMap, HashSet};

use plimsoll_core::domain::{Attempt, AttemptId, Verdict};
use plimsoll_store::{self as store, Store};

/// Most attempts without a summary whose verdicts survive a start: the failed jobs of some months. Some KiB each.
pub(crate) const KEPT: usize = 100_000;

/// Which verdicts on attempts without a summary stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnmeasuredBound {
    /// Most such attempts.
    pub(crate) attempts: usize,
    /// Verdicts from this time on, milliseconds since 1970.
    pub(crate) since_unix_ms: u64,
}

/// Attempts with verdicts and without a summary, with the time of the last verdict, milliseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct UnmeasuredVerdicts(HashMap<AttemptId, u64>);

impl UnmeasuredVerdicts {
    /// Notes a verdict.
    pub(crate) fn note(&mut self, verdict: &Verdict) {
        let given = verdict.given_unix_ms.unwrap_or(0);
        let last = self.0.entry(verdict.attempt.clone()).or_insert(given);
        *last = given.max(*last);
    }

    /// Notes that an attempt has a summary: its verdicts are deleted with that.
    pub(crate) fn meet(&mut self, id: &AttemptId) {
        if !self.0.is_empty() {
            self.0.remove(id);
        }
    }

    /// The attempts before `since_unix_ms`, and all but the newest if there are more than `most`; then a tenth more, so that the next start
    /// has nothing to do.
    fn too_many(self, most: usize, since_unix_ms: u64) -> HashSet<AttemptId> {
        let mut all: Vec<(u64, AttemptId)> = self.0.into_iter().map(|(id, given)| (given, id)).collect();
        all.sort_unstable();
        let old = all.partition_point(|(given, _id)| *given < since_unix_ms);
        let surplus = if all.len() > most { all.len() - most + most / 10 } else { 0 };
        let going = old.max(surplus);
        all.into_iter().take(going).map(|(_given, id)| id).collect()
    }

    /// Deletes verdicts on attempts that have no summary and are not `open`: those before `since_unix_ms`, and the oldest if there are
    /// more than `most` such attempts. A failure is harmless: the next start tries again.
    pub(crate) async fn drop_oldest(mut self, store: &Store, open: &[Attempt], bound: UnmeasuredBound) {
        let most = bound.attempts;
        for attempt in open {
            self.meet(&attempt.id);
        }
        let going = self.too_many(most, bound.since_unix_ms);
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
