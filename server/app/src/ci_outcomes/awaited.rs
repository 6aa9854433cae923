//! Sealed attempts about which more may be known soon. A counter cannot be decreased, so the fleet's counters wait:
//!
//! | attempt | waits for | at most |
//! |---|---|---|
//! | its end was not observed: every build with its agent in another container | the CI system's report | an hour |
//! | it failed, and no counter shows why | a verdict | a minute |

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use plimsoll_core::domain::{AttemptId, Cause, Outcome, Summary};
use tokio::time::Instant;

/// How long a report is awaited: GitLab sends a hook when a job ends, and repeats failed ones for some minutes.
const REPORT_PATIENCE: Duration = Duration::from_hours(1);

/// How long a verdict is awaited: a job, its wrapper or its hook asks for one within seconds.
const VERDICT: Duration = Duration::from_mins(1);

/// Most waiting attempts: more than end within an hour in a fleet of thousands of runners. About 10 MB.
const MOST_WAITING: usize = 10_000;

/// Attempts that wait for a report on their end, oldest first.
#[derive(Debug, Default)]
pub(super) struct AwaitedOutcomes {
    waiting: HashMap<AttemptId, Summary>,
    order: VecDeque<(Instant, AttemptId)>,
    /// Attempts that wait for a verdict.
    unjudged: VecDeque<(Instant, AttemptId)>,
}

/// State of an attempt after a verdict on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitAfterVerdict {
    /// The attempt did not wait: it was counted, or ended before the server's start.
    None,
    /// The attempt waited for the verdict, and is counted now.
    Over,
    /// The attempt still waits for a report on its end.
    GoesOn,
}

impl AwaitedOutcomes {
    /// Whether more may be known of this attempt soon.
    pub(super) fn is(summary: &Summary) -> bool {
        is_unseen(summary) || (summary.outcome == Outcome::Failed && summary.cause == Some(Cause::Unknown))
    }

    /// Adds a waiting attempt.
    pub(super) fn wait(&mut self, summary: &Summary, now: Instant) {
        let id = summary.attempt.clone();
        let order = if is_unseen(summary) { &mut self.order } else { &mut self.unjudged };
        let summary = Summary { phases: Vec::new(), ..summary.clone() };
        if self.waiting.insert(id.clone(), summary).is_none() {
            order.push_back((now, id));
        }
    }

    /// Applies the cause found by a verdict, and returns whether the attempt is to be counted now.
    pub(super) fn update(&mut self, summary: &Summary) -> WaitAfterVerdict {
        let Some(waiting) = self.waiting.get_mut(&summary.attempt) else { return WaitAfterVerdict::None };
        *waiting = Summary { phases: Vec::new(), ..summary.clone() };
        if !is_unseen(summary) && self.stop_waiting(&summary.attempt) {
            return WaitAfterVerdict::Over;
        }
        WaitAfterVerdict::GoesOn
    }

    /// Removes an attempt whose end was reported; false if it does not wait, because it was counted or ended before the server started.
    pub(super) fn stop_waiting(&mut self, id: &AttemptId) -> bool {
        self.waiting.remove(id).is_some()
    }

    /// Removes an attempt that has waited long enough, or exceeds the capacity.
    pub(super) fn given_up(&mut self, now: Instant) -> Option<Summary> {
        let Self { waiting, order, unjudged } = self;
        oldest(order, waiting, REPORT_PATIENCE, now).or_else(|| oldest(unjudged, waiting, VERDICT, now))
    }
}

/// Whether its end was not observed.
fn is_unseen(summary: &Summary) -> bool {
    summary.outcome.is_unknown() && summary.exit.is_none()
}

fn oldest(
    order: &mut VecDeque<(Instant, AttemptId)>,
    waiting: &mut HashMap<AttemptId, Summary>,
    patience: Duration,
    now: Instant,
) -> Option<Summary> {
    loop {
        let (since, _) = order.front()?;
        if now.saturating_duration_since(*since) < patience && order.len() <= MOST_WAITING {
            return None;
        }
        let (_, id) = order.pop_front()?;
        // entries of removed attempts remain in the queue
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
    fn an_attempt_waits_for_its_word_for_an_hour_and_leaves_once() {
        let (mut awaited, now) = (AwaitedOutcomes::default(), Instant::now());
        for n in 0..3 {
            assert!(AwaitedOutcomes::is(&lost(n)));
            awaited.wait(&lost(n), now);
        }
        assert!(awaited.stop_waiting(&lost(0).attempt) && !awaited.stop_waiting(&lost(0).attempt));
        assert_eq!(awaited.given_up(now), None);
        let given_up = awaited.given_up(now + REPORT_PATIENCE);
        assert_eq!(given_up.map(|summary| summary.attempt), Some(lost(1).attempt));
        assert!(!awaited.stop_waiting(&lost(1).attempt), "it was counted as lost");
        assert!(awaited.stop_waiting(&lost(2).attempt));
        assert_eq!(awaited.given_up(now + REPORT_PATIENCE), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let (mut awaited, now) = (AwaitedOutcomes::default(), Instant::now());
        for n in 0..MOST_WAITING + 2 {
            awaited.wait(&lost(n), now);
        }
        let mut given_up = std::iter::from_fn(|| awaited.given_up(now)).map(|summary| summary.attempt);
        assert_eq!((given_up.next(), given_up.next()), (Some(lost(0).attempt), Some(lost(1).attempt)));
        assert_eq!(given_up.next(), None);
    }
}
