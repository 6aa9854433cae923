//! The newest attempts that the fleet's counters have counted since the server started. Counters
//! can only increase, so what becomes known later about a counted attempt can only add to them:
//!
//! | later knowledge | adds |
//! |---|---|
//! | the attempt that it retries, delivered late | one retry |
//! | another cause, by a verdict | one change of cause |
//!
//! Attempts that ended before the server started were counted by an earlier process or not at all:
//! nothing is added for them.

use std::collections::{HashMap, VecDeque};

use plimsoll_core::domain::{AttemptId, Summary};

use crate::runtime::metrics::Metrics;

/// Most attempts kept: those of some hours in a fleet of thousands of runners. About 8 MB.
const MAX_COUNTED: usize = 50_000;

/// The counted attempts; the value is whether the attempt was counted as a retry.
#[derive(Debug, Default)]
pub(super) struct CountedAttempts {
    counted: HashMap<AttemptId, bool>,
    /// The ids of the counted attempts, oldest first.
    order: VecDeque<AttemptId>,
}

impl CountedAttempts {
    /// Counts an ended attempt. `is_retry`: whether earlier attempts of its job are known.
    pub(super) fn count(&mut self, summary: &Summary, is_retry: bool, metrics: &Metrics) {
        metrics.ended(summary, is_retry);
        if self.counted.insert(summary.attempt.clone(), is_retry).is_none() {
            self.order.push_back(summary.attempt.clone());
        }
        while self.order.len() > MAX_COUNTED {
            let Some(oldest) = self.order.pop_front() else { break };
            self.counted.remove(&oldest);
        }
    }

    /// Whether an attempt was counted since the server started.
    pub(super) fn was_counted(&self, attempt: &AttemptId) -> bool {
        self.counted.contains_key(attempt)
    }

    /// Counts these attempts as retries, because it is known now that they are. Skips attempts that
    /// were not counted, or were counted as retries already.
    pub(super) fn count_retries(&mut self, attempts: &[AttemptId], metrics: &Metrics) {
        for attempt in attempts {
            if let Some(is_retry) = self.counted.get_mut(attempt).filter(|is_retry| !**is_retry) {
                *is_retry = true;
                metrics.fleet_retries.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::test_summary;

    use super::*;

    #[test]
    fn a_retry_counts_once_and_memory_is_bounded() {
        let (mut counted, metrics) = (CountedAttempts::default(), Metrics::new());
        let summary = |n: usize| test_summary(&n.to_string(), "zlib", "1", 10);
        let retries = |n: usize| [summary(n).attempt];
        counted.count_retries(&retries(0), &metrics);
        assert_eq!(metrics.fleet_retries.get(), 0, "it ended before the start");
        counted.count(&summary(0), false, &metrics);
        counted.count(&summary(1), true, &metrics);
        for n in [0, 1, 0] {
            counted.count_retries(&retries(n), &metrics);
        }
        assert_eq!(metrics.fleet_retries.get(), 2);
        (2..=MAX_COUNTED).for_each(|n| counted.count(&summary(n), false, &metrics));
        assert!(!counted.was_counted(&summary(0).attempt) && counted.was_counted(&summary(1).attempt));
        assert_eq!((counted.counted.len(), counted.order.len()), (MAX_COUNTED, MAX_COUNTED));
    }
}
