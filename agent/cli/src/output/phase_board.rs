//! Passes changes of phase from the threads that read the output to the sampler.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{build_log::BuildLog, markers::PhaseMark, tracker::PhaseTracker};

/// Most changes that wait for the sampler. If more arrive, intermediate ones are dropped, but never the last
/// one.
const MAX_WAITING: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PhaseChange {
    /// A phase starts; the previous one ends.
    Begin(String),
    /// The current phase ends, and no other starts.
    End,
}

/// The markers of both streams of a build together: a section may start on one stream and end on the other.
#[derive(Debug, Default)]
pub(super) struct PhaseBoard {
    state: Mutex<BoardState>,
    change_notify: Notify,
    /// The end of the build's log.
    pub(super) build_log: BuildLog,
}

#[derive(Debug, Default)]
struct BoardState {
    tracker: PhaseTracker,
    waiting_changes: VecDeque<PhaseChange>,
    skipped: u64,
}

impl PhaseBoard {
    /// Applies markers in their order.
    pub(super) fn apply_marks(&self, marks: Vec<PhaseMark>) {
        let mut state = self.lock_state();
        for mark in marks {
            if !state.tracker.apply_mark(mark) {
                continue;
            }
            let change =
                state.tracker.phase().map_or(PhaseChange::End, |name| PhaseChange::Begin(name.to_owned()));
            if state.waiting_changes.len() >= MAX_WAITING {
                state.waiting_changes.pop_back();
                state.skipped = state.skipped.saturating_add(1);
            }
            state.waiting_changes.push_back(change);
        }
        drop(state);
        self.change_notify.notify_one();
    }

    /// Waits for the next change of phase. The future may be dropped and the method called again.
    pub(super) async fn next(&self) -> PhaseChange {
        loop {
            if let Some(change) = self.take_change() {
                return change;
            }
            self.change_notify.notified().await;
        }
    }

    /// Returns the next change of phase if there is one; does not wait for one.
    pub(super) fn take_change(&self) -> Option<PhaseChange> {
        self.lock_state().waiting_changes.pop_front()
    }

    /// Number of changes that were dropped.
    pub(super) fn skipped(&self) -> u64 {
        self.lock_state().skipped
    }

    fn lock_state(&self) -> MutexGuard<'_, BoardState> {
        // each statement leaves the state consistent, so a poisoned lock can be used
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pending_phase_changes_are_bounded_keeping_the_last() {
        let board = PhaseBoard::default();
        board.apply_marks((0..5000).map(|number| PhaseMark::Phase(number.to_string())).collect());
        assert_eq!(board.next().await, PhaseChange::Begin("0".to_owned()));
        let rest: Vec<_> = std::iter::from_fn(|| board.take_change()).collect();
        assert_eq!(rest.len(), MAX_WAITING - 1);
        assert_eq!(rest.last(), Some(&PhaseChange::Begin("4999".to_owned())));
        assert_eq!(board.skipped(), 5000 - MAX_WAITING as u64);
    }
}
