//! Hooks that were worked on and wait on disk for the end of their attempt.
//!
//! | the attempt | waits |
//! |---|---|
//! | is not known: most jobs have no agent | for an hour |
//! | is open: its agent may have died with its job, and then only the hook says how it ended | until it ends |
//!
//! Both kinds are bounded, the oldest makes room.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use plimsoll_core::domain::AttemptId;

use super::{QUEUE, spool::Kept};
use crate::sessions::Ingest;

/// How long an attempt is waited for that is not known, and how often is looked whether one is open still.
const PATIENCE: Duration = Duration::from_hours(1);
/// Hooks of each kind.
const MOST: usize = QUEUE;

/// A hook that waits.
#[derive(Debug)]
pub(super) struct WaitingHook {
    /// When it was applied, or its attempt last seen open.
    pub(super) since: SystemTime,
    /// The names that its attempt may have.
    pub(super) attempts: Vec<AttemptId>,
    pub(super) kept: Kept,
}

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Not checked yet whether the attempt is open.
    new: VecDeque<WaitingHook>,
    /// The attempt was open.
    open: VecDeque<WaitingHook>,
}

impl Waits {
    /// Lets a hook wait.
    pub(super) fn add(&mut self, hook: WaitingHook) {
        self.new.push_back(hook);
    }

    /// Gives up those that have waited for long enough, or for which there is no room.
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
            // those that make room are not looked for: all of them may be open
            if self.open.len() < MOST && hook.is_open(ingest).await {
                self.open.push_back(WaitingHook { since: now, ..hook });
            } else {
                going.push(hook.kept);
            }
        }
        going
    }
}

/// The oldest, if there are too many or it has waited for long enough.
fn next(waits: &mut VecDeque<WaitingHook>, now: SystemTime) -> Option<WaitingHook> {
    let is_old = |hook: &WaitingHook| now.duration_since(hook.since).is_ok_and(|time| time >= PATIENCE);
    if waits.len() > MOST || waits.front().is_some_and(is_old) { waits.pop_front() } else { None }
}

impl WaitingHook {
    async fn is_open(&self, ingest: &Ingest) -> bool {
        for id in &self.attempts {
            match ingest.find(id).await {
                Ok(Some((_summary, true))) => return true,
                Ok(_) => {}
                // not known: it is checked again
                Err(_) => return true,
            }
        }
        false
    }
}
