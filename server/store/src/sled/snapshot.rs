//! A snapshot: all entries as they were at one commit, read while commits go on.
//!
//! A snapshot starts between two groups of commits, with the number of the last commit. It reads the store page
//! by page, and skips entries of later commits. Before the writer replaces or removes an old entry that was not
//! read yet, it hands the entry over to the snapshot. So the snapshot returns every entry of that moment, some
//! of them twice, and no later entry. The writer never waits for the reader: if entries are handed over faster
//! than they are read, the snapshot fails, and the store goes on.
//!
//! Fragments and open attempts are read first, because they change most.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{engine::Engine, engine_error::EngineError, engine_state::EngineState};
use crate::{
    errors::{StoreError, StoreResult},
    keys::KeyKind,
    kv::{KeyValue, PageLimit, StoreIdentity},
};

/// Most bytes handed over by the writer that wait for the reader: about the fragments of 10,000 attempts.
const MAX_WAITING: usize = 128 << 20;

/// Key prefixes in the order in which they are read; the last one covers all other entries.
const READ_ORDER: [&[u8]; 3] = [&[KeyKind::Fragment as u8], &[KeyKind::Attempt as u8], &[]];

/// Where the reader is: the index of the prefix in [`READ_ORDER`], and the last key that it has read.
type SnapshotCursor = (usize, Vec<u8>);

fn order_rank(key: &[u8]) -> usize {
    READ_ORDER.iter().position(|prefix| key.starts_with(prefix)).unwrap_or(READ_ORDER.len())
}

/// State of a snapshot that the writer and the snapshot's reader share.
#[derive(Debug)]
pub(crate) struct SharedSnapshot {
    sequence: u64,
    state: Mutex<RescuedEntries>,
}

#[derive(Debug, Default)]
struct RescuedEntries {
    reader_cursor: SnapshotCursor,
    waiting_entries: Vec<KeyValue>,
    bytes: usize,
    too_slow: bool,
}

impl SharedSnapshot {
    /// The state of a snapshot of the store after the commit `sequence`.
    pub(crate) fn new(sequence: u64) -> Arc<Self> {
        Arc::new(Self { sequence, state: Mutex::default() })
    }

    /// Hands the old values of `keys` over to the reader, if it has not read them yet. Call this before the
    /// keys change.
    pub(crate) fn keep_before_change<'a>(
        &self,
        engine: &Engine,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), EngineError> {
        for key in keys {
            if self.is_passed(key) {
                continue;
            }
            let old = engine.get(key)?.filter(|old| old.version <= self.sequence);
            if let Some(value) = old {
                self.add_waiting(KeyValue { key: key.to_vec(), value });
            }
        }
        Ok(())
    }

    fn is_passed(&self, key: &[u8]) -> bool {
        let state = self.lock();
        let (done, last) = &state.reader_cursor;
        state.too_slow || (order_rank(key), key) <= (*done, last.as_slice())
    }

    fn add_waiting(&self, entry: KeyValue) {
        let mut state = self.lock();
        state.bytes += entry.key.len() + entry.value.value.len();
        state.waiting_entries.push(entry);
        if state.bytes > MAX_WAITING {
            *state = RescuedEntries { too_slow: true, ..RescuedEntries::default() };
        }
    }

    /// Records how far the reader is; returns the entries that the writer has handed over meanwhile.
    fn advance(&self, place: SnapshotCursor) -> StoreResult<Vec<KeyValue>> {
        let mut state = self.lock();
        if state.too_slow {
            let reason = "the snapshot was read too slowly while the store changed; try again".to_owned();
            return Err(StoreError::Unavailable(reason));
        }
        state.reader_cursor = place;
        state.bytes = 0;
        Ok(std::mem::take(&mut state.waiting_entries))
    }

    /// code that holds this lock never panics halfway, so the state is consistent even if the lock is poisoned
    fn lock(&self) -> MutexGuard<'_, RescuedEntries> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader of a snapshot. When it is dropped, the writer stops handing over entries.
#[derive(Debug)]
pub(crate) struct EngineSnapshot {
    /// The store's identity, with the number of the last commit that the snapshot contains.
    pub(crate) identity: StoreIdentity,
    rescue: Arc<SharedSnapshot>,
    shared: Arc<EngineState>,
    next: Option<SnapshotCursor>,
}

impl EngineSnapshot {
    pub(crate) fn new(
        identity: StoreIdentity,
        rescue: Arc<SharedSnapshot>,
        shared: Arc<EngineState>,
    ) -> Self {
        Self { identity, rescue, shared, next: Some((0, Vec::new())) }
    }

    /// Reads the next entries; `None` at the end. An entry may be returned twice, with the same value.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<Vec<KeyValue>>> {
        let Some((index, after)) = self.next.take() else { return Ok(None) };
        // get the engine for each page: the writer may have reopened it since the last one
        let engine = self
            .shared
            .engine()
            .ok_or_else(|| StoreError::Unavailable("the store is closed or being reopened".to_owned()))?;
        let rescue = Arc::clone(&self.rescue);
        let shared = Arc::clone(&self.shared);
        let read = move || read_page(&engine, (&rescue, &shared), index, &after);
        let read = tokio::task::spawn_blocking(read).await;
        let (entries, place) = read.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        self.next = place;
        Ok(Some(entries))
    }
}

/// The entries of one step, and where the next step starts.
type SnapshotStep = (Vec<KeyValue>, Option<SnapshotCursor>);

fn read_page(
    engine: &Engine,
    (rescue, shared): (&SharedSnapshot, &EngineState),
    index: usize,
    after: &[u8],
) -> StoreResult<SnapshotStep> {
    let prefix = READ_ORDER.get(index).copied().unwrap_or_default();
    let page = engine.scan(prefix, Some(after).filter(|after| !after.is_empty()), PageLimit::PAGE);
    let page = page.map_err(|error| StoreError::Unavailable(shared.note_read_error(&error)))?;
    let last = page.next_after();
    let wanted = |entry: &KeyValue| entry.value.version <= rescue.sequence && order_rank(&entry.key) == index;
    let mut entries: Vec<KeyValue> = page.entries.into_iter().filter(wanted).collect();
    let (passed, next) = match last {
        Some(key) => ((index, key.clone()), Some((index, key))),
        // the last page of this prefix was read: go on with the next prefix
        None => {
            ((index + 1, Vec::new()), Some((index + 1, Vec::new())).filter(|(n, _)| *n < READ_ORDER.len()))
        }
    };
    entries.extend(rescue.advance(passed)?);
    Ok((entries, next))
}
