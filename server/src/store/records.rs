//! Attempts, summaries and verdicts as records of the store.
//!
//! A record that is damaged is logged with its key, counted and skipped: one bad sector must not keep a server from starting.

use serde::de::DeserializeOwned;

use super::{
    Store,
    envelope::{self, Joined, Joiner, RecordError},
    errors::StoreError,
    keys::{self, Kind},
    kv::{Batch, Limit},
};
use crate::domain::{Attempt, AttemptId, Summary, Verdict};

/// How a walk over all records of a kind went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Records that were read.
    pub records: u64,
    /// Records that could not be understood; each is in the log.
    pub damaged: u64,
}

/// Adds the record of an open attempt.
pub fn put_attempt(batch: &mut Batch, attempt: &Attempt) -> Result<(), RecordError> {
    envelope::put(batch, &Kind::Attempt.prefix_of(&attempt.id), attempt)
}

/// Removes the record of an attempt that is open no longer.
pub fn delete_attempt(batch: &mut Batch, attempt: &Attempt) -> Result<(), RecordError> {
    envelope::delete(batch, &Kind::Attempt.prefix_of(&attempt.id), attempt)
}

/// Adds a summary.
pub fn put_summary(batch: &mut Batch, summary: &Summary) -> Result<(), RecordError> {
    envelope::put(batch, &Kind::Summary.prefix_of(&summary.attempt), summary)
}

/// Adds the answer to the question with this fingerprint.
pub fn put_verdict(batch: &mut Batch, fingerprint: u64, verdict: &Verdict) -> Result<(), RecordError> {
    envelope::put(batch, &keys::verdict(&verdict.attempt, fingerprint), verdict)
}

/// The summary of an attempt, if it has ended.
pub async fn read_summary(store: &Store, id: &AttemptId) -> Result<Option<Summary>, StoreError> {
    read(store, Kind::Summary.prefix_of(id)).await
}

/// The answer that was given to the question with this fingerprint.
pub async fn read_verdict(
    store: &Store,
    id: &AttemptId,
    fingerprint: u64,
) -> Result<Option<Verdict>, StoreError> {
    read(store, keys::verdict(id, fingerprint)).await
}

/// All answers that were given about an attempt. One that is damaged is logged and skipped.
pub async fn read_verdicts(store: &Store, id: &AttemptId) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts = Vec::new();
    load(store, &Kind::Verdict.prefix_of(id), |verdict| verdicts.push(verdict)).await?;
    Ok(verdicts)
}

/// Hands every summary to `take`, in the order of the ids.
pub async fn load_summaries(store: &Store, take: impl FnMut(Summary) + Send) -> Result<Loaded, StoreError> {
    load(store, &Kind::Summary.prefix(), take).await
}

/// Hands every verdict to `take`, in the order of the ids.
pub async fn load_verdicts(store: &Store, take: impl FnMut(Verdict) + Send) -> Result<Loaded, StoreError> {
    load(store, &Kind::Verdict.prefix(), take).await
}

/// The attempts that have not ended.
pub async fn open_attempts(store: &Store) -> Result<Vec<Attempt>, StoreError> {
    let mut attempts = Vec::new();
    load(store, &Kind::Attempt.prefix(), |attempt| attempts.push(attempt)).await?;
    Ok(attempts)
}

async fn read<T: DeserializeOwned>(store: &Store, key: Vec<u8>) -> Result<Option<T>, StoreError> {
    let page = store.scan(&key, None, Limit::PAGE).await?;
    let mut joiner = Joiner::default();
    for entry in &page.entries {
        // All parts have the same key but for its last byte, so nothing is complete before the end.
        let _none: Option<Joined<T>> = joiner.push(entry);
    }
    let Some((key, record)) = joiner.finish() else { return Ok(None) };
    let damaged =
        |damage: super::bytes::Damage| StoreError::Damaged { key: keys::text(&key), reason: damage.0 };
    record.map(Some).map_err(damaged)
}

async fn load<T, F>(store: &Store, prefix: &[u8], mut take: F) -> Result<Loaded, StoreError>
where
    T: DeserializeOwned,
    F: FnMut(T) + Send,
{
    let mut loaded = Loaded::default();
    let mut accept = |(key, record): Joined<T>| match record {
        Ok(record) => {
            loaded.records += 1;
            take(record);
        }
        Err(damage) => {
            loaded.damaged += 1;
            tracing::error!(key = %keys::text(&key), %damage, "skipped a damaged record of the store");
        }
    };
    let (mut joiner, mut after) = (Joiner::default(), None);
    loop {
        let page = store.scan(prefix, after.as_deref(), Limit::PAGE).await?;
        for entry in &page.entries {
            joiner.push(entry).map(&mut accept).unwrap_or_default();
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.clone()),
            _ => break,
        }
    }
    joiner.finish().map(&mut accept).unwrap_or_default();
    Ok(loaded)
}
