//! Verdicts on attempts that no agent measured: no summary goes that would take them along, so the oldest of them go at a start
//! if there are too many.

use std::collections::{HashMap, HashSet};

use super::worker::Worker;
use crate::{
    domain::{Attempt, AttemptId, Verdict},
    store,
};

/// Attempts without a summary whose verdicts stay over a start: the failed jobs of some months. Some KiB each.
pub(super) const KEPT: usize = 100_000;

/// Attempts with verdicts and without a summary, each with the time of its last verdict, milliseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Strays(HashMap<AttemptId, u64>);

impl Strays {
    /// Notes a verdict. Those of earlier releases have no time and are the oldest.
    pub(super) fn note(&mut self, verdict: &Verdict) {
        let given = verdict.given_unix_ms.unwrap_or(0);
        let last = self.0.entry(verdict.attempt.clone()).or_insert(given);
        *last = given.max(*last);
    }

    /// The attempt has a summary: its verdicts go with it.
    pub(super) fn meet(&mut self, id: &AttemptId) {
        self.0.remove(id);
    }

    /// All but the newest, if there are more than `most`. A tenth more goes, so that the next start has nothing to do.
    fn too_many(self, most: usize) -> HashSet<AttemptId> {
        let mut all: Vec<(u64, AttemptId)> = self.0.into_iter().map(|(id, given)| (given, id)).collect();
        if all.len() <= most {
            return HashSet::new();
        }
        all.sort_unstable();
        let going = all.len() - most + most / 10;
        all.into_iter().take(going).map(|(_given, id)| id).collect()
    }
}

impl Worker {
    /// Removes the oldest verdicts on attempts that have no summary and are not `open`, if there are more than `most` such
    /// attempts. That it cannot is harmless: the next start tries again.
    pub(super) async fn drop_strays(&self, mut strays: Strays, open: &[Attempt], most: usize) {
        for attempt in open {
            strays.meet(&attempt.id);
        }
        let going = strays.too_many(most);
        if going.is_empty() {
            return;
        }
        let attempts = going.len();
        match store::forget_verdicts(&self.parts.store, &going).await {
            Ok(_entries) => {
                tracing::info!(
                    attempts,
                    most,
                    "removed the oldest verdicts on attempts that nobody measured"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "could not remove old verdicts; they are tried again at the next start");
            }
        }
    }
}
