//! Accepted hooks in the queue, and the hashes by which repeated hooks are recognized.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use plimsoll_core::domain::Fnv;
use tokio::sync::oneshot;

use super::{Ended, spool::Kept};
use crate::sessions::OutcomeStatus;

/// Most hooks of which repetitions are recognized: those of some hours.
const REMEMBERED_HOOKS: usize = 20_000;

/// A hook in the queue.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ended: Box<Ended>,
    pub(super) name: Name,
    /// The file of the hook; `None` if it is only in memory.
    pub(super) kept: Option<Kept>,
    /// When the hook was processed, if that was before the server started; since then it waits for
    /// its attempt.
    pub(super) applied_since: Option<SystemTime>,
    /// Receives the result if the report was queued with the hook already.
    pub(super) answer: Option<oneshot::Receiver<OutcomeStatus>>,
}

/// Marks the hashes of a hook as known while the hook is processed. If dropped before
/// [`Self::keep`], the hashes are removed again, so that a hook that was lost may be repeated.
#[derive(Debug)]
pub(super) struct Name {
    names: Vec<u64>,
    known: Arc<Mutex<Known>>,
}

impl Name {
    /// Marks the hashes as known. `None` if one of them is known already: the hook is a repetition.
    pub(super) fn claim(all: &Arc<Mutex<Known>>, names: Vec<u64>) -> Option<Self> {
        let mut known = all.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|name| known.set.contains(name)) {
            return None;
        }
        for name in &names {
            known.keep(*name);
        }
        drop(known);
        Some(Self { names, known: Arc::clone(all) })
    }

    /// Keeps the hashes as known, because the hook was accepted.
    pub(super) fn keep(mut self) {
        self.names.clear();
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).forget(&self.names);
        }
    }
}

/// The hashes of a hook. They are stable over releases, because the first one names its file.
pub(super) fn hook_hashes(ended: &Ended, delivery: Option<&str>) -> Vec<u64> {
    let job = &ended.job;
    let named = |what: &str| Fnv::default().with_part(what).with(job.id.to_be_bytes());
    // the sender is included: a report by another project must not suppress the report by the job's
    // own project
    let by = &ended.reported.by;
    let of_speaker = |name: Fnv| if by.reports_on_all() { name } else { name.with_part(by.name()) };
    let end =
        named("end").with([ended.reported.end as u8]).with_part(job.host.as_deref().unwrap_or_default());
    let delivery = delivery.filter(|key| !key.is_empty());
    // the job's number is included: a sender that uses one key for all hooks must not lose hooks
    let delivery = delivery.map(|key| of_speaker(named("delivery").with_part(key)).value());
    let end = of_speaker(end).value();
    [Some(end), delivery].into_iter().flatten().collect()
}

/// Hashes of hooks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Known {
    set: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Known {
    fn forget(&mut self, names: &[u64]) {
        for name in names {
            self.set.remove(name);
        }
        self.order.retain(|name| !names.contains(name));
    }

    fn keep(&mut self, name: u64) {
        if self.set.insert(name) {
            self.order.push_back(name);
        }
        while self.order.len() > REMEMBERED_HOOKS {
            let Some(oldest) = self.order.pop_front() else { break };
            self.set.remove(&oldest);
        }
    }
}
