//! The store as a map in memory, for tests. It gives the same guarantees as files, and a test can make its
//! commits fail.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{
    errors::{CommitError, StoreResult},
    found_damage::FoundDamage,
    kv::{
        Batch, CommitReceipt, KeyValue, PageLimit, ScanPage, StoreMode, StoreStatus, VersionedValue, WriteOp,
    },
};

/// A store in memory. Clones share its content, which is lost when the last clone is dropped.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<MemoryState>>, FoundDamage);

#[derive(Debug, Default)]
struct MemoryState {
    entries: BTreeMap<Vec<u8>, VersionedValue>,
    commits: u64,
    last_commit_micros: u64,
    /// Why every commit fails now; `None` if commits work.
    refusal: Option<String>,
}

impl MemoryStore {
    /// Makes commits fail with this reason, while reads go on, like a full disk.
    pub fn refuse_commits(&self, reason: &str) {
        self.lock().refusal = Some(reason.to_owned());
    }

    /// Makes commits work again.
    pub fn accept_commits(&self) {
        self.lock().refusal = None;
    }

    pub(super) fn commit(&self, batch: Batch) -> Result<CommitReceipt, CommitError> {
        batch.check_bounds()?;
        let begin = Instant::now();
        let mut state = self.lock();
        if let Some(reason) = &state.refusal {
            return Err(CommitError::Unavailable(reason.clone()));
        }
        state.commits += 1;
        let version = state.commits;
        for write in batch.writes {
            match write {
                WriteOp::Put { key, value } => state.entries.insert(key, VersionedValue { version, value }),
                WriteOp::Delete { key } => state.entries.remove(&key),
            };
        }
        state.last_commit_micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        Ok(CommitReceipt { version })
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<VersionedValue> {
        self.lock().entries.get(key).cloned()
    }

    pub(super) fn entries(&self) -> Vec<KeyValue> {
        let state = self.lock();
        state.entries.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() }).collect()
    }

    pub(super) fn holds(&self, prefix: &[u8]) -> bool {
        let limit = PageLimit { items: 1, bytes: 1 };
        !self.scan(prefix, None, limit).entries.is_empty()
    }

    pub(super) fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: PageLimit) -> ScanPage {
        let state = self.lock();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = ScanPage::default();
        let mut bytes = 0;
        for (key, value) in state.entries.range::<[u8], _>((from, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            if !limit.takes_more(page.entries.len(), bytes) {
                page.more = true;
                break;
            }
            bytes += key.len() + value.value.len();
            page.entries.push(KeyValue { key: key.clone(), value: value.clone() });
        }
        page
    }

    pub(super) fn found_damage(&self) -> FoundDamage {
        self.1.clone()
    }

    pub(super) fn status(&self) -> StoreStatus {
        let state = self.lock();
        StoreStatus {
            mode: match &state.refusal {
                Some(reason) => StoreMode::ReadOnly { reason: reason.clone() },
                None => StoreMode::Writable,
            },
            commits: state.commits,
            syncs: state.commits,
            last_commit_micros: state.last_commit_micros,
            ..StoreStatus::default()
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same shape as the store on disk")]
    pub(super) fn close(&self) -> StoreResult<()> {
        self.lock().refusal = Some("the store is closed".to_owned());
        Ok(())
    }

    /// code that holds this lock never panics halfway, so the content is consistent even if the lock is
    /// poisoned
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
