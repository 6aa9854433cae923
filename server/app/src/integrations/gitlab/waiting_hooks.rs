//! Processed hooks that wait on disk for the end of their attempt.
//!
//! | the attempt is | the hook waits |
//! |---|---|
//! | unknown: most jobs have no agent | for an hour |
//! | open: if its agent died with its job, only the hook shows how it ended | until it ends |
//!
//! Both kinds are bounded; the oldest is dropped.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use plimsoll_core::domain::AttemptId;

use super::{QUEUE, spool::Kept};
use crate::sessions::Ingest;

/// How long an unknown attempt is awaited, and how often open ones are checked.
const ATTEMPT_PATIENCE: Duration = Duration::from_hours(1);
/// Hooks of each kind.
const MOST_HOOKS: usize = QUEUE;

/// A hook that waits.
#[derive(Debug)]
pub(super) struct WaitingHook {
    /// When it was applied, or its attempt last seen open.
    pub(super) since: SystemTime,
    /// Possible ids of its attempt.
    pub(super) attempts: Vec<AttemptId>,
    pub(super) kept: Kept,
}

/// The waiting hooks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Hooks for which it was not checked yet whether their attempt is open.
    new: VecDeque<WaitingHook>,
    /// The attempt was open.
    open: VecDeque<WaitingHook>,
}

impl Waits {
    /// Adds a hook.
    pub(super) fn add(&mut self, hook: WaitingHook) {
        self.new.push_back(hook);
    }

    /// Removes and returns those that have waited long enough or exceed the bound.
    pub(super) async fn give_up(&mut self, now: SystemTime, ingest: &Ingest) -> Vec<Kept> {
        let mut going = Vec::new();
        while let Some(hook) = next(&mut self.new, now) {
            if hook.is_open(ingest).await {
                self.open.push_back(WaitingHook { since: now, ..hook });
            } else {
                going.push(hook.kept);
            }
        }
        while let Some(hook) = next(&mut self.open, now) {
            // those that exceed the bound are not checked: all of them may be open
            if self.open.len() < MOST_HOOKS && hook.is_open(ingest).await {
                self.open.push_back(WaitingHook { since: now, ..hook });
            } else {
                going.push(hook.kept);
            }
        }
        going
    }
}

/// The oldest, if there are too many or it has waited long enough.
fn next(waits: &mut VecDeque<WaitingHook>, now: SystemTime) -> Option<WaitingHook> {
    let is_old =
        |hook: &WaitingHook| now.duration_since(hook.since).is_ok_and(|time| time >= ATTEMPT_PATIENCE);
    if waits.len() > MOST_HOOKS || waits.front().is_some_and(is_old) { waits.pop_front() } else { None }
}

impl WaitingHook {
    async fn is_open(&self, ingest: &Ingest) -> bool {
        for id in &self.attempts {
            match ingest.find(id).await {
                Ok(Some((_summary, true))) => return true,
                Ok(_) => {}
                // unknown: check again later
                Err(_) => return true,
            }
        }
        false
    }
}
