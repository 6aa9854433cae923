//! What is left in a directory, by the better of its logs: the engine's own, and the one that a compact copy replaced, where a crash left it.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use super::{
    directory::Directory,
    engine::Engine,
    fault::{FORMAT_VERSION, OpenError},
    marker::{Marker, StoreStage, check_format},
    opening::{reconcile, refuse_foreseen},
    raw_log::RawLog,
    repair_loss::RepairLoss,
    store_copy::{self, CopiedFiles},
    witness::CommitWitness,
};
use crate::{StoreSettings, kv::StoreIdentity};

/// A log that was read without the engine, and what is known of the store.
pub(crate) struct DamagedStore {
    pub(crate) log: RawLog,
    /// Directory of the engine that wrote the log.
    pub(crate) engine: PathBuf,
    pub(crate) identity: StoreIdentity,
    pub(crate) losses: Vec<RepairLoss>,
    /// The last commit that all is there of.
    whole: u64,
    /// What marker and witness know; of a lost marker what the log says.
    known: Marker,
}

impl DamagedStore {
    /// Reads the logs; `None` if there is nothing in them.
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

    /// Lacks nothing; goes further; lacks less.
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
        // later versions are to be higher than all that there are
        let sequence = log.newest_version().max(own.map_or(0, |own| own.sequence)).max(known.commit_sequence);
        let identity = StoreIdentity { format: FORMAT_VERSION, id: known.store_id, sequence };
        let engine = path.parent().unwrap_or(dir).to_owned();
        Ok(Self { log, engine, identity, losses, whole, known })
    }

    /// How many attempts that ended there were, if that is known.
    pub(crate) fn attempts(&self) -> Option<u64> {
        self.known.attempts
    }

    /// A copy of the files, open in the engine, if it takes all that counts from them: then no byte that cannot be read is in use.
    pub(crate) fn open_whole(
        &self,
        directory: &Directory,
        into: &StoreSettings,
    ) -> Option<(Engine, CopiedFiles)> {
        refuse_foreseen(directory.path(), &self.engine, &self.known).ok()?;
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

/// What marker and witness know of a store whose log says that it is `own`.
fn known(dir: &Path, own: Option<StoreIdentity>) -> Result<Marker, OpenError> {
    let marker = match Marker::read(dir) {
        // the log knows its own format
        Err(OpenError::Marker { .. } | OpenError::OtherFormat { .. }) if own.is_some() => None,
        Err(OpenError::Marker { .. }) => None,
        other => other?,
    };
    let id = own.map(|own| own.id).or_else(|| marker.as_ref().map(|marker| marker.store_id));
    // what cannot be read of the witness was not written
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
