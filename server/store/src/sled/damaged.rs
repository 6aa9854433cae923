//! What is left of a damaged store, from the better of its two logs: the engine's own log, and the log that
//! `compact` replaced, if a crash left it.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use super::{
    directory::Directory,
    engine::Engine,
    marker::{Marker, StoreStage, check_format},
    open_error::{FORMAT_VERSION, OpenError},
    opening::{reconcile, refuse_by_forecast},
    raw_log::RawLog,
    repair_loss::RepairLoss,
    store_copy::{self, CopiedFiles},
    witness::CommitWitness,
};
use crate::{StoreSettings, kv::StoreIdentity};

/// The content of a log, read without the engine, and what is known about the store.
pub(crate) struct DamagedStore {
    pub(crate) log: RawLog,
    /// Directory with the log.
    pub(crate) engine: PathBuf,
    pub(crate) identity: StoreIdentity,
    pub(crate) losses: Vec<RepairLoss>,
    /// Number of the last commit that is completely in the log.
    last_complete: u64,
    /// The store's marker, with the commit number of the witness if that is higher. If the marker is lost, it
    /// is made from the log.
    marker: Marker,
}

impl DamagedStore {
    /// Reads the logs, and returns the better one; `None` if there are none or all are empty.
    /// Errors: the disk cannot be read, or the store has another format.
    pub(crate) fn read_best(directory: &Directory) -> Result<Option<Self>, OpenError> {
        let mut best: Option<Self> = None;
        for log in directory.logs() {
            let found = Self::read(directory, &log)?;
            if best.as_ref().is_none_or(|best| best.rank() < found.rank()) {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|best| best.losses.is_empty()) {
                break;
            }
        }
        Ok(best)
    }

    /// Rank of a log for the choice of the better one: a log without losses, then the later last commit, then
    /// fewer losses.
    fn rank(&self) -> (bool, u64, Reverse<usize>) {
        (self.losses.is_empty(), self.last_complete, Reverse(self.losses.len()))
    }

    fn read(directory: &Directory, path: &Path) -> Result<Self, OpenError> {
        let read = |behind| RawLog::read(path, behind).map_err(OpenError::io("read", path));
        let dir = directory.path();
        let mut log = read(false)?;
        let identity = |log: &RawLog| log.identity().map_err(OpenError::io("read", path));
        let own = identity(&log)?;
        own.map_or(Ok(()), |own| check_format(dir, own.format))?;
        let known = known_marker(dir, own)?;
        let whole = |log: &RawLog| log.last_whole_commit().map_err(OpenError::io("read", path));
        if whole(&log)? < known.commit_sequence {
            log = read(true)?;
        }
        let (own, whole) = (identity(&log)?, whole(&log)?);
        let mut losses: Vec<RepairLoss> = log.losses().into_iter().map(RepairLoss::Log).collect();
        let commits = RepairLoss::Commits { found: whole, known: known.commit_sequence };
        losses.extend((whole < known.commit_sequence).then_some(commits));
        // the repaired store must give new commits higher numbers than all that exist
        let sequence = log.newest_version().max(own.map_or(0, |own| own.sequence)).max(known.commit_sequence);
        let identity = StoreIdentity { format: FORMAT_VERSION, id: known.store_id, sequence };
        let engine = path.parent().unwrap_or(dir).to_owned();
        Ok(Self { log, engine, identity, losses, last_complete: whole, marker: known })
    }

    /// Number of ended attempts in the store, if the marker has it.
    pub(crate) fn attempts(&self) -> Option<u64> {
        self.marker.attempts
    }

    /// Opens a copy of the store in the engine, if the engine can read all of it: then the unreadable bytes are
    /// not in use.
    pub(crate) fn open_copy_if_complete(
        &self,
        directory: &Directory,
        into: &StoreSettings,
    ) -> Option<(Engine, CopiedFiles)> {
        refuse_by_forecast(directory.path(), &self.engine, &self.marker).ok()?;
        let parent_dir = into.dir.parent().filter(|parent_dir| parent_dir.is_dir());
        let look =
            store_copy::copy(directory, &self.engine, Some(parent_dir.unwrap_or_else(|| Path::new("."))))
                .ok()?;
        let engine = Engine::open(&look.engine(), into.cache_bytes).ok()?;
        reconcile(directory.path(), &self.marker, engine.identity().ok()?).ok()?;
        engine.each_page(&[], drop).ok()?;
        Some((engine, look))
    }
}

/// The marker of a store with the identity `own` in its log, with the commit number of the witness if that is
/// higher.
fn known_marker(dir: &Path, own: Option<StoreIdentity>) -> Result<Marker, OpenError> {
    let marker = match Marker::read(dir) {
        // the log has the identity, and with it the format, so a damaged marker is not needed
        Err(OpenError::Marker { .. } | OpenError::OtherFormat { .. }) if own.is_some() => None,
        Err(OpenError::Marker { .. }) => None,
        other => other?,
    };
    let id = own.map(|own| own.id).or_else(|| marker.as_ref().map(|marker| marker.store_id));
    // a witness that cannot be read counts as if it did not exist
    let witnessed = id.and_then(|id| CommitWitness::read(dir, id).ok().flatten()).unwrap_or(0);
    let marker = marker.filter(|marker| Some(marker.store_id) == id);
    let marked = marker.as_ref().map_or(0, |marker| marker.commit_sequence);
    Ok(Marker {
        store_id: id.unwrap_or_default(),
        format_version: FORMAT_VERSION,
        commit_sequence: witnessed.max(marked),
        state: StoreStage::Ready,
        attempts: marker.and_then(|marker| marker.attempts),
    })
}
