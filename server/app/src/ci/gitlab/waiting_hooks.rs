//! Processed hooks that wait for their attempt or its end.
//!
//! | the attempt is | the hook waits |
//! |---|---|
//! | unknown, as for most jobs, which have no agent | for an hour |
//! | open: if its agent died with its job, only the hook shows how it ended | until the attempt ends |
//!
//! Both kinds are bounded; the oldest hook of a kind is dropped.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use plimsoll_core::domain::AttemptId;

use super::stored_hooks::StoredHook;
use crate::ingest::Ingest;

/// How long a hook waits for an unknown attempt, and how often it is checked whether an attempt is
/// still open.
const ATTEMPT_PATIENCE: Duration = Duration::from_hours(1);
/// Most hooks of each kind.
const MAX_HOOKS: usize = 4096;

/// A processed hook that waits.
#[derive(Debug)]
pub(super) struct WaitingHook {
    /// When the hook was processed, or when its attempt was last found open.
    pub(super) since: SystemTime,
    /// Ids that the hook's attempt may have.
    pub(super) attempts: Vec<AttemptId>,
    pub(super) stored: StoredHook,
}

/// The waiting hooks, oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingHooks {
    /// Hooks that have not yet been checked for an open attempt.
    new: VecDeque<WaitingHook>,
    /// Hooks with an attempt that was open at the last check.
    open: VecDeque<WaitingHook>,
}

impl WaitingHooks {
    pub(super) fn add(&mut self, hook: WaitingHook) {
        self.new.push_back(hook);
    }

    /// Removes and returns the hooks that have waited long enough or exceed the bound.
    pub(super) async fn give_up(&mut self, now: SystemTime, ingest: &Ingest) -> Vec<StoredHook> {
        let mut going = Vec::new();
        while let Some(hook) = next(&mut self.new, now) {
            if hook.is_open(ingest).await {
                self.open.push_back(WaitingHook { since: now, ..hook });
            } else {
                going.push(hook.stored);
            }
        }
        while let Some(hook) = next(&mut self.open, now) {
            // a hook beyond the bound is dropped without a check: all attempts may be open
            if self.open.len() < MAX_HOOKS && hook.is_open(ingest).await {
                self.open.push_back(WaitingHook { since: now, ..hook });
            } else {
                going.push(hook.stored);
            }
        }
        going
    }
}

/// Removes and returns the oldest hook if it has waited long enough, or if there are too many.
fn next(waits: &mut VecDeque<WaitingHook>, now: SystemTime) -> Option<WaitingHook> {
    let is_old =
        |hook: &WaitingHook| now.duration_since(hook.since).is_ok_and(|time| time >= ATTEMPT_PATIENCE);
    if waits.len() > MAX_HOOKS || waits.front().is_some_and(is_old) { waits.pop_front() } else { None }
}

impl WaitingHook {
    async fn is_open(&self, ingest: &Ingest) -> bool {
        for id in &self.attempts {
            match ingest.find(id).await {
                Ok(Some((_summary, true))) => return true,
                Ok(_) => {}
                // it is not known whether the attempt is open: check again later
                Err(_) => return true,
            }
        }
        false
    }
}
