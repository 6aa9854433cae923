//! Recovers what is left of a damaged store into a new one. The damaged directory is read and never changed.
//!
//! If a server would start, and the engine can read all of a copy, the entries are taken from the engine: then
//! the unreadable parts of its log are not in use. Otherwise the log is read directly ([`super::raw_log`]). In
//! both cases the new store gets only what a server can read: complete records under their own keys.

use std::path::{Path, PathBuf};

use super::{
    damaged::DamagedStore,
    directory::Directory,
    engine::Engine,
    offline::OfflineStore,
    open_error::OpenError,
    preload::StoreFiller,
    raw_log::RawLog,
    readable_records::{WholeRecordFilter, belongs_under},
    repair_loss::RepairLoss,
    store_copy::CopiedFiles,
};
use crate::{
    CheckFinding, CheckReport, StoreSettings,
    keys::{self, KeyKind},
    kv::{KeyValue, PageLimit},
};

/// Result of a repair.
#[derive(Debug)]
pub struct RepairReport {
    /// Whether the entries were taken from the engine, which could open and read all of the store.
    pub by_engine: bool,
    /// Number of ended attempts that the damaged store had; known only if it was filled by `restore` or
    /// `repair` and no server has opened it since.
    pub attempts: Option<u64>,
    /// What the new store contains.
    pub checked: CheckReport,
    /// Which records and commits could not be recovered.
    pub losses: Vec<RepairLoss>,
}

/// Creates the store `into` from what is left in the directory `from`. `on_progress` gets the bytes of keys and values
/// written so far.
/// Errors: nothing is left, `from` is in use, `into` is not empty, or a disk fails.
pub fn repair(
    from: &Path,
    into: &StoreSettings,
    mut on_progress: impl FnMut(u64),
) -> Result<RepairReport, OpenError> {
    let directory = Directory::open_damaged(from)?;
    refuse_within(from, &into.dir)?;
    let nothing_left = || OpenError::NothingLeft { dir: from.to_owned() };
    let found = DamagedStore::read_best(&directory)?.ok_or_else(nothing_left)?;
    let (identity, attempts) = (found.identity, found.attempts());
    let (source, mut losses) = match found.open_copy_if_complete(&directory, into) {
        // the engine can read everything, so no loss is reported: the unreadable parts of the log are not in
        // use
        Some((engine, copy)) => (EntrySource::Engine { engine, path: found.engine, _copy: copy }, Vec::new()),
        None if found.log.is_empty() && !found.losses.is_empty() => return Err(nothing_left()),
        None => (EntrySource::Log(Box::new(found.log)), found.losses),
    };
    let mut filling = StoreFiller::begin(into, identity)?;
    let mut lay_out = |entry: Result<KeyValue, CheckFinding>| match entry {
        Ok(entry) => filling.lay_out([&entry]),
        Err(flaw) => {
            losses.push(RepairLoss::Record(flaw));
            Ok(())
        }
    };
    source.each_complete(&mut lay_out)?;
    let mut done = 0;
    source.each_complete(&mut |entry| {
        let Ok(entry) = entry else { return Ok(()) };
        done += (entry.key.len() + entry.value.value.len()) as u64;
        on_progress(done);
        filling.put(entry)
    })?;
    filling.end()?;
    let by_engine = matches!(source, EntrySource::Engine { .. });
    drop(source);
    let store = OfflineStore::open(into)?;
    let checked = store.check(|flaw| losses.push(RepairLoss::Record(flaw)), |_bytes| {});
    Ok(RepairReport { by_engine, attempts, checked, losses })
}

/// Refuses if one of the directories is inside the other.
fn refuse_within(from: &Path, into: &Path) -> Result<(), OpenError> {
    let plain = |path: &Path| std::path::absolute(path).map_err(OpenError::io("look at", path));
    let (dir, new) = (plain(from)?, plain(into)?);
    if new.starts_with(&dir) || dir.starts_with(&new) {
        return Err(OpenError::IntoItself { dir: from.to_owned(), into: into.to_owned() });
    }
    Ok(())
}

/// Where the entries are read from.
enum EntrySource {
    Engine { engine: Engine, path: PathBuf, _copy: CopiedFiles },
    Log(Box<RawLog>),
}

impl EntrySource {
    /// Passes each complete record to `take`, and for each other one the reason.
    fn each_complete(
        &self,
        take: &mut dyn FnMut(Result<KeyValue, CheckFinding>) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let mut records = WholeRecordFilter::default();
        match self {
            Self::Log(log) => {
                log.each(|entry| if has_ended(log, &entry)? { Ok(()) } else { records.push(entry, take) })?;
            }
            Self::Engine { engine, path, .. } => {
                let (mut after, mut more) = (None, true);
                while more {
                    let page = engine
                        .scan(&[], after.as_deref(), PageLimit::PAGE)
                        .map_err(|error| error.at(path))?;
                    after = page.next_after();
                    more = after.is_some();
                    page.entries.into_iter().try_for_each(|entry| records.push(entry, take))?;
                }
            }
        }
        records.finish(take)
    }
}

/// Whether an entry belongs to an open attempt that also has a later summary. Then the attempt has ended, and
/// only the removal of this entry was lost.
fn has_ended(log: &RawLog, entry: &KeyValue) -> Result<bool, OpenError> {
    let id = keys::id_of(&entry.key).filter(|_| KeyKind::of(&entry.key) == Some(KeyKind::Attempt));
    let Some(id) = id else { return Ok(false) };
    let key = [KeyKind::Summary.prefix_of(&id).as_slice(), &[0]].concat();
    let summary = log.get(&key).map_err(OpenError::io("read", log.path()))?;
    Ok(summary.is_some_and(|summary| {
        summary.version > entry.value.version && belongs_under(&key, &summary.value) != Some(false)
    }))
}
