//! The open attempts, in the state that is on disk.

use std::{collections::HashMap, time::Duration};

use plimsoll_core::domain::AttemptId;
use tokio::time::Instant;

use super::{
    request::RunningAttempt,
    session::{LastMessage, Session},
    stream_handle::StreamHandle,
};
use crate::{
    access::identity::Identity,
    ingest::{compaction_queue::LooseSamples, start_time::start},
    pools::{HeldSlot, PoolRegistry},
};

/// The open attempts by their ids.
#[derive(Debug, Default)]
pub(crate) struct SessionTable(HashMap<AttemptId, Session>);

impl SessionTable {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, id: &AttemptId) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn get(&self, id: &AttemptId) -> Option<&Session> {
        self.0.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut Session> {
        self.0.get_mut(id)
    }

    pub(crate) fn remove(&mut self, id: &AttemptId) -> Option<Session> {
        self.0.remove(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Session> {
        self.0.values()
    }

    /// Adds an attempt; replaces an earlier one with the same id.
    pub(crate) fn insert(&mut self, session: Session) {
        self.0.insert(session.attempt.id.clone(), session);
    }

    /// Replaces an attempt by its staged state with `fresh` new samples, which is on disk now. What
    /// changed meanwhile is kept: the effects of a compaction, and the time of the agent's last
    /// message.
    pub(crate) fn replace(&mut self, mut session: Session, fresh: u64) {
        if let Some(before) = self.0.get(&session.attempt.id) {
            session.loose = before.loose;
            if before.last_message.moment > session.last_message.moment {
                session.last_message = before.last_message;
            }
        }
        session.loose = session.loose.saturating_add(fresh);
        self.insert(session);
    }

    /// Records the time of a message from an attempt's agent, whether the message is accepted or
    /// not.
    pub(crate) fn note_message(&mut self, id: &AttemptId, stream: &StreamHandle, now: LastMessage) {
        if let Some(session) = self.0.get_mut(id).filter(|session| session.check_holder(stream).is_ok()) {
            session.last_message = now;
        }
    }

    /// All open attempts with their current state, for watchers.
    pub(crate) fn running(&self) -> Vec<RunningAttempt> {
        self.0.values().map(Session::running).collect()
    }

    /// The `most` open attempts with the highest memory need that `caller` may see, and how many it
    /// may see in total. Only these are copied, because pages request them every few seconds.
    pub(crate) fn highest(&self, most: usize, caller: &Identity) -> (Vec<RunningAttempt>, usize) {
        let seen = self.0.values().filter(|session| caller.sees(&session.attempt.key.project));
        if most == 0 {
            return (Vec::new(), seen.count());
        }
        let mut seen: Vec<&Session> = seen.collect();
        let count = seen.len();
        seen.sort_unstable_by_key(|session| std::cmp::Reverse(session.progress.need_peak));
        (seen.into_iter().take(most).map(Session::running).collect(), count)
    }

    /// Number of attempts without a message for longer than `patience`.
    pub(crate) fn silent(&self, now: Instant, patience: Duration) -> usize {
        self.0.values().filter(|session| session.is_silent(now, patience)).count()
    }

    /// Frees the pool slots of agents that have been silent for longer than `patience`. When the
    /// agent of such an attempt sends again, the attempt takes a slot again. So does an attempt
    /// that had no slot because other attempts of its job had one.
    pub(crate) fn free_silent(&mut self, pools: &PoolRegistry, now: Instant, patience: Duration) {
        for session in self.0.values_mut() {
            if session.is_silent(now, patience) {
                session.slot = None;
            } else if !session.slot.as_ref().is_some_and(HeldSlot::takes_place) {
                session.slot = pools.hold(&session.attempt);
            }
        }
    }

    /// Number of an attempt's samples that are not in a sealed block.
    pub(crate) fn loose(&self, id: &AttemptId) -> u64 {
        self.0.get(id).map_or(0, |session| session.loose)
    }

    /// The samples of an attempt that are in fragments, for a compaction; resets their count.
    pub(crate) fn take_loose(&mut self, id: &AttemptId) -> Option<LooseSamples> {
        let session = self.0.get_mut(id)?;
        let count = std::mem::take(&mut session.loose);
        Some(LooseSamples { acknowledged: session.acknowledged, count })
    }

    /// Adds samples to the count again, because their compaction failed.
    pub(crate) fn add_loose(&mut self, id: &AttemptId, samples: u64) {
        if let Some(session) = self.0.get_mut(id) {
            session.loose = session.loose.saturating_add(samples);
        }
    }

    /// When an open attempt started, milliseconds since 1970.
    pub(crate) fn running_since(&self, id: &AttemptId) -> Option<u64> {
        let session = self.0.get(id)?;
        let so_far = session.progress.last.map(|last| last.elapsed).unwrap_or_default();
        Some(start(session.attempt.started_unix_ms, so_far, session.last_message.unix_ms).0)
    }
}

#[cfg(test)]
impl std::ops::Index<&AttemptId> for SessionTable {
    type Output = Session;

    fn index(&self, id: &AttemptId) -> &Session {
        &self.0[id]
    }
}
