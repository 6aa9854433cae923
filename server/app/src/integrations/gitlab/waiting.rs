//! Accepted hooks in the queue, and the hashes by which repetitions are recognized.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use plimsoll_core::domain::Fnv;
use tokio::sync::oneshot;

use super::{Ended, spool::Kept};
use crate::sessions::OutcomeStatus;

/// Hooks of which repetitions are recognized: those of some hours.
const REMEMBERED_HOOKS: usize = 20_000;

/// A hook that waits to be worked on.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ended: Box<Ended>,
    pub(super) name: Name,
    /// The file in which the hook is kept.
    pub(super) kept: Option<Kept>,
    /// When it was processed, if that was before the start; since then it waits for its attempt.
    pub(super) applied_since: Option<SystemTime>,
    /// Receives the result when the report has been applied.
    pub(super) answer: Option<oneshot::Receiver<OutcomeStatus>>,
}

/// Claim on the hashes of a hook while it is processed. If dropped before it is kept, the claim is undone: a lost hook may be sent again.
#[derive(Debug)]
pub(super) struct Name {
    names: Vec<u64>,
    known: Arc<Mutex<Known>>,
}

impl Name {
    /// `None` if one of the hashes is claimed: the hook is a repetition.
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

    /// The hook was handed on.
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

/// The hashes of a hook, stable over releases, because the first one names its file.
pub(super) fn hook_hashes(ended: &Ended, delivery: Option<&str>) -> Vec<u64> {
    let job = &ended.job;
    let named = |what: &str| Fnv::default().with_part(what).with(job.id.to_be_bytes());
    // includes the sender: a report by another project must not hide the one of the job's own project
    let by = &ended.reported.by;
    let of_speaker = |name: Fnv| if by.reports_on_all() { name } else { name.with_part(by.name()) };
    let end =
        named("end").with([ended.reported.end as u8]).with_part(job.host.as_deref().unwrap_or_default());
    let delivery = delivery.filter(|key| !key.is_empty());
    // the number of the job as well: a sender with one key for everything must not lose hooks
    let delivery = delivery.map(|key| of_speaker(named("delivery").with_part(key)).value());
    let end = of_speaker(end).value();
    [Some(end), delivery].into_iter().flatten().collect()
}

/// Names of hooks, oldest first.
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
