//! Accepted hooks in the queue, and the hashes by which repeated hooks are recognized.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::{EndedJob, stored_hooks::StoredHook};
use crate::ingest::OutcomeStatus;

/// Most hooks of which repetitions are recognized: those of some hours.
const REMEMBERED_HOOKS: usize = 20_000;

#[derive(Debug)]
pub(super) struct QueuedHook {
    pub(super) ended: Box<EndedJob>,
    pub(super) claim: HookClaim,
    pub(super) stored: StoredHook,
    /// Receives the result if the report was queued with the hook already.
    pub(super) answer: Option<oneshot::Receiver<OutcomeStatus>>,
}

/// Marks the hashes of a hook as known while the hook is stored and processed. If dropped before
/// [`Self::confirm`], the hashes are removed again, so that a hook that was lost may be repeated.
#[derive(Debug)]
pub(super) struct HookClaim {
    hashes: Vec<u64>,
    all_known: Arc<Mutex<KnownHooks>>,
}

/// The first one of two hooks about the same end.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstHook {
    /// Whether it is in the store, so that the other one may be answered as accepted.
    pub(super) is_stored: bool,
}

impl HookClaim {
    /// Marks the hashes as known.
    /// Errors: one of them is known already: the hook is a repetition.
    pub(super) fn claim(all: &Arc<Mutex<KnownHooks>>, names: Vec<u64>) -> Result<Self, FirstHook> {
        let mut known = all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = names.iter().find_map(|name| known.hashes.get(name)) {
            return Err(*first);
        }
        for name in &names {
            known.keep(*name);
        }
        drop(known);
        Ok(Self { hashes: names, all_known: Arc::clone(all) })
    }

    /// Notes that the hook is in the store.
    pub(super) fn mark_stored(&self) {
        let mut known = self.all_known.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &self.hashes {
            known.hashes.entry(*name).and_modify(|first| first.is_stored = true);
        }
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

/// Hashes of hooks, oldest first.
#[derive(Debug, Default)]
pub(super) struct KnownHooks {
    hashes: HashMap<u64, FirstHook>,
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
        if self.hashes.insert(name, FirstHook { is_stored: false }).is_none() {
            self.oldest_first.push_back(name);
        }
        while self.oldest_first.len() > REMEMBERED_HOOKS {
            let Some(oldest) = self.oldest_first.pop_front() else { break };
            self.hashes.remove(&oldest);
        }
    }
}
