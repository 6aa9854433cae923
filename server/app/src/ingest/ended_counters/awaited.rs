//! Ended attempts with an outcome or cause that may become known soon. The fleet's counters (metrics over
//! all attempts) can only increase, so such an attempt is counted later:
//!
//! | attempt | waits for | at most |
//! |---|---|---|
//! | its end was not observed, as for every build with its agent in another container | the CI system's report | an hour |
//! | it failed, and no counter shows why | a verdict | a minute |

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use plimsoll_core::domain::{AttemptId, Cause, Outcome, Summary};
use tokio::time::Instant;

/// How long a report is awaited: GitLab sends a webhook when a job ends, and repeats failed ones
/// for some minutes.
const REPORT_PATIENCE: Duration = Duration::from_hours(1);

/// How long a verdict is awaited: a job, its wrapper or its webhook asks for one within seconds.
const VERDICT_PATIENCE: Duration = Duration::from_mins(1);

/// Most attempts in each queue: more than end within an hour in a fleet of thousands of runners.
/// About 10 MB.
const MAX_WAITING: usize = 10_000;

/// Attempts that wait for a report on their end or for a verdict, oldest first.
#[derive(Debug, Default)]
pub(super) struct AwaitedOutcomes {
    waiting_summaries: HashMap<AttemptId, Summary>,
    order: VecDeque<(Instant, AttemptId)>,
    /// Attempts that wait for a verdict.
    unjudged: VecDeque<(Instant, AttemptId)>,
}

/// State of an attempt after a verdict on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitAfterVerdict {
    /// The attempt did not wait: it was counted already, or ended before the server started.
    None,
    /// The attempt waited for this verdict and must be counted now.
    Over,
    /// The attempt still waits for a report on its end.
    GoesOn,
}

impl AwaitedOutcomes {
    /// Whether the outcome or the cause of this attempt may become known soon.
    pub(super) fn is_awaited(summary: &Summary) -> bool {
        is_unseen(summary) || (summary.outcome == Outcome::Failed && summary.cause == Some(Cause::Unknown))
    }

    /// Adds an attempt that is counted later.
    pub(super) fn wait(&mut self, summary: &Summary, now: Instant) {
        let id = summary.attempt.clone();
        let order = if is_unseen(summary) { &mut self.order } else { &mut self.unjudged };
        let summary = Summary { phases: Vec::new(), ..summary.clone() };
        if self.waiting_summaries.insert(id.clone(), summary).is_none() {
            order.push_back((now, id));
        }
    }

    /// Stores the cause that a verdict found; returns whether the attempt must be counted now.
    pub(super) fn update(&mut self, summary: &Summary) -> WaitAfterVerdict {
        let Some(waiting) = self.waiting_summaries.get_mut(&summary.attempt) else {
            return WaitAfterVerdict::None;
        };
        *waiting = Summary { phases: Vec::new(), ..summary.clone() };
        if !is_unseen(summary) && self.stop_waiting(&summary.attempt) {
            return WaitAfterVerdict::Over;
        }
        WaitAfterVerdict::GoesOn
    }

    /// Removes an attempt after its end was reported. Returns false if the attempt does not wait: it
    /// was counted already, or ended before the server started.
    pub(super) fn stop_waiting(&mut self, id: &AttemptId) -> bool {
        self.waiting_summaries.remove(id).is_some()
    }

    /// Removes an attempt that has waited long enough, or the oldest of a full queue.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<Summary> {
        let Self { waiting_summaries: waiting, order, unjudged } = self;
        take_oldest(order, waiting, REPORT_PATIENCE, now)
            .or_else(|| take_oldest(unjudged, waiting, VERDICT_PATIENCE, now))
    }
}

/// Whether the end of the attempt was not observed.
fn is_unseen(summary: &Summary) -> bool {
    summary.outcome.is_unknown() && summary.exit.is_none()
}

fn take_oldest(
    order: &mut VecDeque<(Instant, AttemptId)>,
    waiting: &mut HashMap<AttemptId, Summary>,
    patience: Duration,
    now: Instant,
) -> Option<Summary> {
    loop {
        let (since, _) = order.front()?;
        if now.saturating_duration_since(*since) < patience && order.len() <= MAX_WAITING {
            return None;
        }
        let (_, id) = order.pop_front()?;
        // an attempt that no longer waits may still have an entry in the queue
        if let Some(summary) = waiting.remove(&id) {
            return Some(summary);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::test_summary;

    use super::*;

    fn lost(n: usize) -> Summary {
        Summary { outcome: Outcome::Lost, exit: None, ..test_summary(&n.to_string(), "zlib", "1", 10) }
    }

    #[test]
    fn an_outcome_is_awaited_for_an_hour() {
        let (mut awaited, now) = (AwaitedOutcomes::default(), Instant::now());
        for n in 0..3 {
            assert!(AwaitedOutcomes::is_awaited(&lost(n)));
            awaited.wait(&lost(n), now);
        }
        assert!(awaited.stop_waiting(&lost(0).attempt) && !awaited.stop_waiting(&lost(0).attempt));
        assert_eq!(awaited.take_overdue(now), None);
        let given_up = awaited.take_overdue(now + REPORT_PATIENCE);
        assert_eq!(given_up.map(|summary| summary.attempt), Some(lost(1).attempt));
        assert!(!awaited.stop_waiting(&lost(1).attempt), "it was counted as lost");
        assert!(awaited.stop_waiting(&lost(2).attempt));
        assert_eq!(awaited.take_overdue(now + REPORT_PATIENCE), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let (mut awaited, now) = (AwaitedOutcomes::default(), Instant::now());
        for n in 0..MAX_WAITING + 2 {
            awaited.wait(&lost(n), now);
        }
        let mut given_up = std::iter::from_fn(|| awaited.take_overdue(now)).map(|summary| summary.attempt);
        assert_eq!((given_up.next(), given_up.next()), (Some(lost(0).attempt), Some(lost(1).attempt)));
        assert_eq!(given_up.next(), None);
    }
}
