//! Stores and reads attempts, summaries, verdicts and tickets as records.
//!
//! A damaged record is noted, counted and skipped: one bad sector must not keep a server from starting.

use std::{collections::HashSet, hash::BuildHasher};

use plimsoll_core::domain::{Attempt, AttemptId, JobPod, Summary, TicketId, TicketNumbers, Verdict};

use super::{
    Store,
    codec::{KeyedRecord, Record},
    envelope::{self, JoinedRecord, RecordError, RecordJoiner},
    errors::{CommitError, StoreError, StoreResult},
    keys::{self, KeyKind},
    kv::{Batch, PageLimit},
    load::load,
};

/// Why an attempt could not be sealed. Steps that were committed remain; sealing may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The attempt's fragments could not be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// A value cannot be encoded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Most verdicts on an attempt that are read.
pub const VERDICTS_ON_ATTEMPT: usize = 1024;

/// Most entries that one step reads or removes.
const ENTRIES_A_STEP: PageLimit = PageLimit { items: 64, bytes: 256 << 10 };

/// Adds a record, or replaces the one with its key.
/// Errors: it is too large, or cannot be encoded.
pub fn put<T: KeyedRecord>(batch: &mut Batch, record: &T) -> Result<(), RecordError> {
    envelope::put(batch, &T::KIND.key_of(&record.key_id()), record)
}

/// Removes a record.
/// Errors: it is too large, or cannot be encoded.
pub fn remove<T: KeyedRecord>(batch: &mut Batch, record: &T) -> Result<(), RecordError> {
    envelope::delete(batch, &T::KIND.key_of(&record.key_id()), record)
}

/// Adds the verdict for the question with this fingerprint.
pub fn put_verdict(batch: &mut Batch, fingerprint: u64, verdict: &Verdict) -> Result<(), RecordError> {
    envelope::put(batch, &keys::verdict(&verdict.attempt, fingerprint), verdict)
}

/// Removes a ticket that is no longer open. The texts of a ticket are limited, so its record always has one
/// part.
pub fn delete_ticket(batch: &mut Batch, id: &TicketId) {
    batch.delete([KeyKind::Ticket.key_of(id.as_str()).as_slice(), &[0]].concat());
}

/// Reads the record of the numbers that were used as ticket ids.
pub async fn read_ticket_numbers(store: &Store) -> StoreResult<TicketNumbers> {
    Ok(read(store, KeyKind::Numbers.key_of(keys::NUMBERS_PART)).await?.unwrap_or_default())
}

/// Adds the sizes of a CI job's pod.
/// Errors: the record is too large, or its values cannot belong to a job.
pub fn put_pod(batch: &mut Batch, pod: &JobPod) -> Result<(), RecordError> {
    match pod.id() {
        Some(id) => envelope::put(batch, &KeyKind::Pod.prefix_of(&id), pod),
        None => Ok(()),
    }
}

/// Removes the sizes of a CI job's pod. The texts of the record are limited, so it always has one part.
pub fn delete_pod(batch: &mut Batch, id: &AttemptId) {
    batch.delete([KeyKind::Pod.prefix_of(id).as_slice(), &[0]].concat());
}

/// The summary of an attempt, if it has ended.
pub async fn read_summary(store: &Store, id: &AttemptId) -> StoreResult<Option<Summary>> {
    read(store, KeyKind::Summary.prefix_of(id)).await
}

/// The verdict for the question with this fingerprint.
pub async fn read_verdict(store: &Store, id: &AttemptId, fingerprint: u64) -> StoreResult<Option<Verdict>> {
    read(store, keys::verdict(id, fingerprint)).await
}

/// The verdicts on an attempt, at most [`VERDICTS_ON_ATTEMPT`], the newest last. Damaged verdicts are skipped.
pub async fn read_verdicts(store: &Store, id: &AttemptId) -> StoreResult<Vec<Verdict>> {
    let read = readable_verdicts(store, id, VERDICTS_ON_ATTEMPT).await?;
    let mut verdicts: Vec<Verdict> = read.into_iter().map(|(_, verdict)| verdict).collect();
    verdicts.truncate(VERDICTS_ON_ATTEMPT);
    verdicts.sort_by_key(|verdict| verdict.given_unix_ms);
    Ok(verdicts)
}

/// Stores the verdicts on an attempt again that `change` modifies, and returns them. Damaged verdicts stay as
/// they are. Not atomic: after an interruption the remaining verdicts are unchanged.
pub async fn change_verdicts(
    store: &Store,
    id: &AttemptId,
    mut change: impl FnMut(&mut Verdict) -> bool,
) -> Result<Vec<Verdict>, SealError> {
    let mut changed = Vec::new();
    for (key, old) in readable_verdicts(store, id, usize::MAX).await? {
        let mut new = old.clone();
        if change(&mut new) {
            let mut batch = Batch::default();
            envelope::replace(&mut batch, &key, &old, &new)?;
            store.commit(batch).await?;
            changed.push(new);
        }
    }
    Ok(changed)
}

/// The readable verdicts on one attempt, each with its key. Damaged verdicts are skipped. Once `most` were read, no further page is.
async fn readable_verdicts(
    store: &Store,
    id: &AttemptId,
    most: usize,
) -> StoreResult<Vec<(Vec<u8>, Verdict)>> {
    let (prefix, mut after, mut joiner) =
        (KeyKind::Verdict.prefix_of(id), None::<Vec<u8>>, RecordJoiner::default());
    let mut read: Vec<JoinedRecord<Verdict>> = Vec::new();
    loop {
        let page = store.scan(&prefix, after.as_deref(), PageLimit::PAGE).await?;
        after = page.next_after();
        read.extend(page.entries.iter().filter_map(|entry| joiner.push(entry)));
        if after.is_none() {
            read.extend(joiner.finish());
        }
        if after.is_none() || read.len() >= most {
            let found_damage = store.found_damage();
            let readable = |(key, verdict): JoinedRecord<Verdict>| match verdict {
                Ok(verdict) => Some((key, verdict)),
                Err(damage) => {
                    found_damage.note_record(&key, &damage);
                    None
                }
            };
            return Ok(read.into_iter().filter_map(readable).collect());
        }
    }
}

/// A page of ids of attempts that have entries of a kind, sorted, from the first key after `after` on, of at most a step of entries; and the
/// key after which the next page starts, `None` at the end. The next page may repeat the last id. `kind` is one whose keys begin with the id
/// of an attempt, such as summaries and verdicts. A range of keys that cannot be read is left out.
/// Errors: the store cannot be read.
pub async fn ids_after(
    store: &Store,
    kind: KeyKind,
    after: Option<&[u8]>,
) -> StoreResult<(Vec<AttemptId>, Option<Vec<u8>>)> {
    // a range of keys that cannot be read is noted
    let (page, _gap) = store.scan_past(&kind.prefix(), after, ENTRIES_A_STEP).await?;
    let mut ids: Vec<AttemptId> = page.entries.iter().filter_map(|entry| keys::id_of(&entry.key)).collect();
    ids.dedup();
    Ok((ids, page.next_after()))
}

/// Removes all entries of an attempt, the summary last. Not atomic: after an interruption the summary remains,
/// and the removal can be repeated.
pub async fn forget_attempt(store: &Store, id: &AttemptId) -> Result<(), CommitError> {
    for kind in [KeyKind::Verdict, KeyKind::Fragment, KeyKind::Block, KeyKind::Summary, KeyKind::Attempt] {
        while store.delete_prefix(&kind.prefix_of(id), ENTRIES_A_STEP).await?.more {}
    }
    Ok(())
}

/// Removes the verdicts on one attempt. Not atomic: if interrupted, the rest remains.
pub async fn forget_verdicts_on(store: &Store, id: &AttemptId) -> Result<(), CommitError> {
    while store.delete_prefix(&KeyKind::Verdict.prefix_of(id), ENTRIES_A_STEP).await?.more {}
    Ok(())
}

/// Removes the verdicts on one attempt for which `is_meant` returns true; returns how many. Damaged verdicts
/// stay. Not atomic: after an interruption the remaining verdicts stay.
pub async fn forget_verdicts_if(
    store: &Store,
    id: &AttemptId,
    is_meant: impl Fn(&Verdict) -> bool,
) -> Result<usize, SealError> {
    let all = readable_verdicts(store, id, usize::MAX).await?;
    let meant: Vec<Vec<u8>> =
        all.into_iter().filter(|(_, verdict)| is_meant(verdict)).map(|(key, _)| key).collect();
    for key in &meant {
        while store.delete_prefix(key, ENTRIES_A_STEP).await?.more {}
    }
    Ok(meant.len())
}

/// Removes all verdicts on these attempts; returns the number of entries removed. Not atomic: if interrupted, the rest remains.
pub async fn forget_verdicts<S: BuildHasher>(
    store: &Store,
    ids: &HashSet<AttemptId, S>,
) -> Result<u64, SealError> {
    let (mut after, mut removed) = (None::<Vec<u8>>, 0);
    loop {
        let page = store.scan(&KeyKind::Verdict.prefix(), after.as_deref(), PageLimit::PAGE).await?;
        after = page.next_after();
        let mut batch = Batch::default();
        for entry in page.entries {
            if keys::id_of(&entry.key).is_some_and(|id| ids.contains(&id)) {
                batch.delete(entry.key);
            }
        }
        removed += batch.operations() as u64;
        if !batch.is_empty() {
            store.commit(batch).await?;
        }
        if after.is_none() {
            return Ok(removed);
        }
    }
}

/// For each of these attempts, whether any of its samples are stored.
pub async fn have_samples(store: &Store, ids: &[&AttemptId]) -> StoreResult<Vec<bool>> {
    let prefixes = |id: &&AttemptId| [KeyKind::Fragment, KeyKind::Block].map(|kind| kind.prefix_of(id));
    let held = store.holds(ids.iter().flat_map(prefixes).collect()).await?;
    Ok(held.chunks(2).map(|of_one| of_one.contains(&true)).collect())
}

/// The attempts that have not ended.
pub async fn open_attempts(store: &Store) -> StoreResult<Vec<Attempt>> {
    let mut attempts = Vec::new();
    load(store, |attempt| attempts.push(attempt)).await?;
    Ok(attempts)
}

pub(super) async fn read<T: Record>(store: &Store, key: Vec<u8>) -> StoreResult<Option<T>> {
    // an unreadable range may contain other keys only: this key is looked for after it
    let (page, gap) = store.scan_past(&key, None, PageLimit::PAGE).await?;
    let mut joiner = RecordJoiner::default();
    for entry in &page.entries {
        // all parts of this record have the same key up to the last byte, so no other record can end here
        let _none: Option<JoinedRecord<T>> = joiner.push(entry);
    }
    let Some((key, record)) = joiner.finish() else {
        let Some(gap) = gap else { return Ok(None) };
        // the page of the record itself may be readable, and the damage behind it
        return match store.get(&[key.as_slice(), &[0]].concat()).await {
            Ok(None) => Ok(None),
            _ => Err(StoreError::Unavailable(store.found_damage().explain(gap))),
        };
    };
    let damaged = |damage: super::bytes::Damage| {
        store.found_damage().note_record(&key, &damage);
        StoreError::Damaged { key: keys::text(&key), reason: damage.0 }
    };
    record.map(Some).map_err(damaged)
}
