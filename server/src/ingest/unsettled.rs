//! Attempts that were sealed and nobody saw how they ended: every build with its agent beside it. A counter takes nothing back, so
//! the counters of the fleet wait for the CI system's word on them, for an hour at most.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::{AttemptId, Outcome, Summary};

/// How long a word is waited for: GitLab tells of a job when it ends, and repeats what did not get through for some minutes.
const PATIENCE: Duration = Duration::from_hours(1);

/// Attempts that may wait at once: more than end within an hour in a fleet of thousands of runners. About 10 MB.
const MOST: usize = 10_000;

/// Attempts that wait for the word on their end, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    waiting: HashMap<AttemptId, Summary>,
    order: VecDeque<(Instant, AttemptId)>,
}

impl Unsettled {
    /// Whether the end of this attempt may still be told.
    pub(super) fn is(summary: &Summary) -> bool {
        summary.outcome == Outcome::Lost && summary.exit.is_none()
    }

    /// Lets an attempt wait.
    pub(super) fn wait(&mut self, summary: &Summary, now: Instant) {
        let id = summary.attempt.clone();
        let summary = Summary { phases: Vec::new(), ..summary.clone() };
        if self.waiting.insert(id.clone(), summary).is_none() {
            self.order.push_back((now, id));
        }
    }

    /// Its end was told; false if it does not wait: it was counted, or ended before the server started.
    pub(super) fn settle(&mut self, id: &AttemptId) -> bool {
        self.waiting.remove(id).is_some()
    }

    /// An attempt that has waited for long enough, or for which there is no room.
    pub(super) fn given_up(&mut self, now: Instant) -> Option<Summary> {
        loop {
            let (since, _) = self.order.front()?;
            if now.saturating_duration_since(*since) < PATIENCE && self.order.len() <= MOST {
                return None;
            }
            let (_, id) = self.order.pop_front()?;
            // those that were settled left their place behind
            if let Some(summary) = self.waiting.remove(&id) {
                return Some(summary);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    fn lost(n: usize) -> Summary {
        Summary { outcome: Outcome::Lost, exit: None, ..test_summary(&n.to_string(), "zlib", "1", 10) }
    }

    #[test]
    fn an_attempt_waits_for_its_word_for_an_hour_and_leaves_once() {
        let (mut unsettled, now) = (Unsettled::default(), Instant::now());
        for n in 0..3 {
            assert!(Unsettled::is(&lost(n)));
            unsettled.wait(&lost(n), now);
        }
        assert!(unsettled.settle(&lost(0).attempt) && !unsettled.settle(&lost(0).attempt));
        assert_eq!(unsettled.given_up(now), None);
        let given_up = unsettled.given_up(now + PATIENCE);
        assert_eq!(given_up.map(|summary| summary.attempt), Some(lost(1).attempt));
        assert!(!unsettled.settle(&lost(1).attempt), "it was counted as lost");
        assert!(unsettled.settle(&lost(2).attempt));
        assert_eq!(unsettled.given_up(now + PATIENCE), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let (mut unsettled, now) = (Unsettled::default(), Instant::now());
        for n in 0..MOST + 2 {
            unsettled.wait(&lost(n), now);
        }
        let mut given_up = std::iter::from_fn(|| unsettled.given_up(now)).map(|summary| summary.attempt);
        assert_eq!((given_up.next(), given_up.next()), (Some(lost(0).attempt), Some(lost(1).attempt)));
        assert_eq!(given_up.next(), None);
    }
}
