//! The remains of a damaged store, from the better of its logs: the engine's own, and the one that a compact copy replaced if a crash left
//! it.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use super::{
    directory::Directory,
    engine::Engine,
    fault::{FORMAT_VERSION, OpenError},
    marker::{Marker, StoreStage, check_format},
    opening::{reconcile, refuse_by_forecast},
    raw_log::RawLog,
    repair_loss::RepairLoss,
    store_copy::{self, CopiedFiles},
    witness::CommitWitness,
};
use crate::{StoreSettings, kv::StoreIdentity};

/// A log that was read without the engine, and what is known about the store.
pub(crate) struct DamagedStore {
    pub(crate) log: RawLog,
    /// Directory of the engine that wrote the log.
    pub(crate) engine: PathBuf,
    pub(crate) identity: StoreIdentity,
    pub(crate) losses: Vec<RepairLoss>,
    /// The last commit that is complete.
    whole: u64,
    /// The marker, advanced to the witness; if the marker is lost, taken from the log.
    known: Marker,
}

impl DamagedStore {
    /// Reads the logs; `None` if they are empty.
    ///
    /// # Errors
    /// The disk cannot be read, or the store has another format.
    pub(crate) fn best(directory: &Directory) -> Result<Option<Self>, OpenError> {
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

    /// Orders logs: nothing missing, then later commits, then fewer losses.
    fn rank(&self) -> (bool, u64, Reverse<usize>) {
        (self.losses.is_empty(), self.whole, Reverse(self.losses.len()))
    }

    fn read(directory: &Directory, path: &Path) -> Result<Self, OpenError> {
        let read = |behind| RawLog::read(path, behind).map_err(OpenError::io("read", path));
        let dir = directory.path();
        let mut log = read(false)?;
        let identity = |log: &RawLog| log.identity().map_err(OpenError::io("read", path));
        let own = identity(&log)?;
        own.map_or(Ok(()), |own| check_format(dir, own.format))?;
        let known = known(dir, own)?;
        let whole = |log: &RawLog| log.last_whole_commit().map_err(OpenError::io("read", path));
        if whole(&log)? < known.commit_sequence {
            log = read(true)?;
        }
        let (own, whole) = (identity(&log)?, whole(&log)?);
        let mut losses: Vec<RepairLoss> = log.losses().into_iter().map(RepairLoss::Log).collect();
        let commits = RepairLoss::Commits { found: whole, known: known.commit_sequence };
        losses.extend((whole < known.commit_sequence).then_some(commits));
        // new versions must be higher than all existing ones
        let sequence = log.newest_version().max(own.map_or(0, |own| own.sequence)).max(known.commit_sequence);
        let identity = StoreIdentity { format: FORMAT_VERSION, id: known.store_id, sequence };
        let engine = path.parent().unwrap_or(dir).to_owned();
        Ok(Self { log, engine, identity, losses, whole, known })
    }

    /// Number of ended attempts, if known.
    pub(crate) fn attempts(&self) -> Option<u64> {
        self.known.attempts
    }

    /// Opens a copy of the files in the engine, if the engine uses everything that matters from them: then no unreadable byte is in use.
    pub(crate) fn open_whole(
        &self,
        directory: &Directory,
        into: &StoreSettings,
    ) -> Option<(Engine, CopiedFiles)> {
        refuse_by_forecast(directory.path(), &self.engine, &self.known).ok()?;
        let beside = into.dir.parent().filter(|beside| beside.is_dir());
        let look =
            store_copy::copy(directory, &self.engine, Some(beside.unwrap_or_else(|| Path::new(".")))).ok()?;
        let look = look.with_right_bits(self.log.flipped()).ok()?;
        let engine = Engine::open(&look.engine(), into.cache_bytes).ok()?;
        reconcile(directory.path(), &self.known, engine.identity().ok()?).ok()?;
        engine.read_through().ok()?;
        Some((engine, look))
    }
}

/// The marker of a store whose log has the identity `own`, advanced to the witness.
fn known(dir: &Path, own: Option<StoreIdentity>) -> Result<Marker, OpenError> {
    let marker = match Marker::read(dir) {
        // the log shows its own format
        Err(OpenError::Marker { .. } | OpenError::OtherFormat { .. }) if own.is_some() => None,
        Err(OpenError::Marker { .. }) => None,
        other => other?,
    };
    let id = own.map(|own| own.id).or_else(|| marker.as_ref().map(|marker| marker.store_id));
    // an unreadable witness counts as not written
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
