//! Where the threads that read the output tell the measuring side which phase the build is in.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{markers::Mark, tail::Tail, tracker::Tracker};

/// Changes that may wait. A build that changes its phase faster than they are taken loses those in between, never the last one.
const WAITING: usize = 1024;

/// What happens next in the story of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A phase begins; the one before it ends.
    Begin(String),
    /// The phase ends, and no other begins.
    End,
}

/// Both streams of one build are one story: a section may begin on one and end on the other.
#[derive(Debug, Default)]
pub(super) struct Board {
    state: Mutex<State>,
    news: Notify,
    /// The end of the log.
    pub(super) tail: Tail,
}

#[derive(Debug, Default)]
struct State {
    tracker: Tracker,
    waiting: VecDeque<Change>,
    skipped: u64,
}

impl Board {
    /// Takes marks, in their order.
    pub(super) fn note(&self, marks: Vec<Mark>) {
        let mut state = self.state();
        for mark in marks {
            if !state.tracker.take(mark) {
                continue;
            }
            let change = state.tracker.phase().map_or(Change::End, |name| Change::Begin(name.to_owned()));
            if state.waiting.len() >= WAITING {
                state.waiting.pop_back();
                state.skipped = state.skipped.saturating_add(1);
            }
            state.waiting.push_back(change);
        }
        drop(state);
        self.news.notify_one();
    }

    /// The next change. May be dropped and called again.
    pub(super) async fn next(&self) -> Change {
        loop {
            if let Some(change) = self.take() {
                return change;
            }
            self.news.notified().await;
        }
    }

    /// As [`Self::next`], if something waits.
    pub(super) fn take(&self) -> Option<Change> {
        self.state().waiting.pop_front()
    }

    /// Changes that were not told.
    pub(super) fn skipped(&self) -> u64 {
        self.state().skipped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // consistent after each statement
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_of_changes_is_bounded_and_the_last_one_is_told() {
        let board = Board::default();
        board.note((0..5000).map(|number| Mark::Phase(number.to_string())).collect());
        assert_eq!(board.next().await, Change::Begin("0".to_owned()));
        let rest: Vec<_> = std::iter::from_fn(|| board.take()).collect();
        assert_eq!((rest.len(), rest.last()), (WAITING - 1, Some(&Change::Begin("4999".to_owned()))));
        assert_eq!(board.skipped(), 5000 - WAITING as u64);
    }
}
