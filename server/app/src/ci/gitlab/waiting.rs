//! Accepted hooks in the queue, and the hashes by which repeated hooks are recognized.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use plimsoll_core::domain::Fnv;
use tokio::sync::oneshot;

use super::{EndedJob, spool::KeptHook};
use crate::ingest::OutcomeStatus;

/// Most hooks of which repetitions are recognized: those of some hours.
const REMEMBERED_HOOKS: usize = 20_000;

#[derive(Debug)]
pub(super) struct QueuedHook {
    pub(super) ended: Box<EndedJob>,
    pub(super) name: HookClaim,
    /// The file of the hook; `None` if it is only in memory.
    pub(super) kept: Option<KeptHook>,
    /// When the hook was processed, if that was before the server started; since then it waits for
    /// its attempt.
    pub(super) applied_since: Option<SystemTime>,
    /// Receives the result if the report was queued with the hook already.
    pub(super) answer: Option<oneshot::Receiver<OutcomeStatus>>,
}

/// Marks the hashes of a hook as known while the hook is processed. If dropped before
/// [`Self::confirm`], the hashes are removed again, so that a hook that was lost may be repeated.
#[derive(Debug)]
pub(super) struct HookClaim {
    hashes: Vec<u64>,
    all_known: Arc<Mutex<KnownHooks>>,
}

impl HookClaim {
    /// Marks the hashes as known. `None` if one of them is known already: the hook is a repetition.
    pub(super) fn claim(all: &Arc<Mutex<KnownHooks>>, names: Vec<u64>) -> Option<Self> {
        let mut known = all.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|name| known.hashes.contains(name)) {
            return None;
        }
        for name in &names {
            known.keep(*name);
        }
        drop(known);
        Some(Self { hashes: names, all_known: Arc::clone(all) })
    }

    /// Keeps the hashes as known, because the hook was accepted.
    pub(super) fn confirm(mut self) {
        self.hashes.clear();
    }
}

impl Drop for HookClaim {
    fn drop(&mut self) {
        if !self.hashes.is_empty() {
            self.all_known.lock().unwrap_or_else(PoisonError::into_inner).forget(&self.hashes);
        }
    }
}

/// The hashes of a hook. They are stable over releases, because the first one names its file.
pub(super) fn hook_hashes(ended: &EndedJob, delivery: Option<&str>) -> Vec<u64> {
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
pub(super) struct KnownHooks {
    hashes: HashSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl KnownHooks {
    fn forget(&mut self, names: &[u64]) {
        for name in names {
            self.hashes.remove(name);
        }
        self.oldest_first.retain(|name| !names.contains(name));
    }

    fn keep(&mut self, name: u64) {
        if self.hashes.insert(name) {
            self.oldest_first.push_back(name);
        }
        while self.oldest_first.len() > REMEMBERED_HOOKS {
            let Some(oldest) = self.oldest_first.pop_front() else { break };
            self.hashes.remove(&oldest);
        }
    }
}
