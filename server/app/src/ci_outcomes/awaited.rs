//! Attempts that were sealed and of which more may be known soon. A counter takes nothing back, so the counters of the fleet wait:
//!
//! | attempt | waits for | at most |
//! |---|---|---|
//! | its end was not seen: every build with its agent beside it | the CI system's word on it | an hour |
//! | it failed, and no counter says why | a verdict | a minute |

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use plimsoll_core::domain::{AttemptId, Cause, Outcome, Summary};
use tokio::time::Instant;

/// How long a word is waited for: GitLab tells of a job when it ends, and repeats what did not get through for some minutes.
const PATIENCE: Duration = Duration::from_hours(1);

/// How long a verdict is waited for: a job, its wrapper or its hook asks for one within seconds.
const VERDICT: Duration = Duration::from_mins(1);

/// Attempts that may wait at once: more than end within an hour in a fleet of thousands of runners. About 10 MB.
const MOST: usize = 10_000;

/// Attempts that wait for the word on their end, oldest first.
#[derive(Debug, Default)]
pub(super) struct AwaitedOutcomes {
    waiting: HashMap<AttemptId, Summary>,
    order: VecDeque<(Instant, AttemptId)>,
    /// Those that wait for a verdict.
    unjudged: VecDeque<(Instant, AttemptId)>,
}

/// Whether an attempt waits after a verdict on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitAfterVerdict {
    /// It did not wait: it was counted, or ended before the start.
    None,
    /// It waited for the verdict, and is counted now.
    Over,
    /// It waits for the word on its end.
    GoesOn,
}

impl AwaitedOutcomes {
    /// Whether more may be known of this attempt soon.
    pub(super) fn is(summary: &Summary) -> bool {
        is_unseen(summary) || (summary.outcome == Outcome::Failed && summary.cause == Some(Cause::Unknown))
    }

    /// Lets an attempt wait.
    pub(super) fn wait(&mut self, summary: &Summary, now: Instant) {
        let id = summary.attempt.clone();
        let order = if is_unseen(summary) { &mut self.order } else { &mut self.unjudged };
        let summary = Summary { phases: Vec::new(), ..summary.clone() };
        if self.waiting.insert(id.clone(), summary).is_none() {
            order.push_back((now, id));
        }
    }

    /// A verdict found the cause of an attempt. One that waited for that is to be counted now.
    pub(super) fn update(&mut self, summary: &Summary) -> WaitAfterVerdict {
        let Some(waiting) = self.waiting.get_mut(&summary.attempt) else { return WaitAfterVerdict::None };
        *waiting = Summary { phases: Vec::new(), ..summary.clone() };
        if !is_unseen(summary) && self.settle(&summary.attempt) {
            return WaitAfterVerdict::Over;
        }
        WaitAfterVerdict::GoesOn
    }

    /// Its end was reported; false if it does not wait: it was counted, or ended before the server started.
    pub(super) fn settle(&mut self, id: &AttemptId) -> bool {
        self.waiting.remove(id).is_some()
    }

    /// An attempt that has waited for long enough, or for which there is no room.
    pub(super) fn given_up(&mut self, now: Instant) -> Option<Summary> {
        let Self { waiting, order, unjudged } = self;
        oldest(order, waiting, PATIENCE, now).or_else(|| oldest(unjudged, waiting, VERDICT, now))
    }
}

/// How it ended was not seen.
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
        if now.saturating_duration_since(*since) < patience && order.len() <= MOST {
            return None;
        }
        let (_, id) = order.pop_front()?;
        // those that were settled left their place behind
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
        assert!(awaited.settle(&lost(0).attempt) && !awaited.settle(&lost(0).attempt));
        assert_eq!(awaited.given_up(now), None);
        let given_up = awaited.given_up(now + PATIENCE);
        assert_eq!(given_up.map(|summary| summary.attempt), Some(lost(1).attempt));
        assert!(!awaited.settle(&lost(1).attempt), "it was counted as lost");
        assert!(awaited.settle(&lost(2).attempt));
        assert_eq!(awaited.given_up(now + PATIENCE), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let (mut awaited, now) = (AwaitedOutcomes::default(), Instant::now());
        for n in 0..MOST + 2 {
            awaited.wait(&lost(n), now);
        }
        let mut given_up = std::iter::from_fn(|| awaited.given_up(now)).map(|summary| summary.attempt);
        assert_eq!((given_up.next(), given_up.next()), (Some(lost(0).attempt), Some(lost(1).attempt)));
        assert_eq!(given_up.next(), None);
    }
}
