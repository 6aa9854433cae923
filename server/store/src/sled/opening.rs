//! Opens the engine only if its files, the marker and the witness agree, and a flush reaches the disk.

use std::{fs, path::Path};

use ulid::Ulid;

use super::{
    directory::{Directory, LOG_FILE, check_empty},
    durable,
    engine::Engine,
    engine_error::EngineError,
    marker::{self, Marker, StoreStage, check_format, sync_dir},
    open_error::{FORMAT_VERSION, OpenError},
    prepared::PreparedEngine,
    raw_log::{self, OpenForecast},
    small_files,
    witness::{self, CommitWitness},
};
use crate::kv::StoreIdentity;

/// Opens the engine on files that `prepare` has made ready, and compares it with the marker. If the store is
/// refused, what `prepare` did is undone.
pub(crate) fn open_compared(
    directory: &Directory,
    marker: &Marker,
    cache_bytes: u64,
    prepare: fn(&Directory) -> Result<PreparedEngine, OpenError>,
) -> Result<(Engine, StoreIdentity), OpenError> {
    refuse_by_forecast(directory.path(), &directory.engine(), marker)?;
    let prepared = prepare(directory)?;
    let failed = |error: EngineError| error.at(&prepared.engine);
    let opened = Engine::open(&prepared.engine, cache_bytes).map_err(failed).and_then(|engine| {
        let identity = reconcile(directory.path(), marker, engine.identity().map_err(failed)?)?;
        Ok((engine, identity))
    });
    if opened.is_err() {
        prepared.undo();
    }
    opened
}

/// Id of the store that a server would open in a data directory. Changes nothing and does not start the engine,
/// so it does not notice damaged records, nor damage in pages that a start does not read.
/// Errors: A server would refuse the store, a server has it open ([`OpenError::Locked`]), or there is none ([`OpenError::Missing`]).
pub fn store_id_at(dir: &Path) -> Result<Ulid, OpenError> {
    let exists = fs::exists(dir).map_err(OpenError::io("look at", dir))?;
    if exists && !dir.is_dir() {
        return Err(OpenError::NotADirectory { dir: dir.to_owned() });
    }
    let (directory, marker) = match Directory::open_unwritable(dir) {
        Err(OpenError::Missing { .. }) if exists => {
            check_empty(dir)?;
            marker::refuse_emptied(dir)?;
            return Err(OpenError::Missing { dir: dir.to_owned() });
        }
        opened => opened?,
    };
    if marker.state == StoreStage::Filling {
        return Err(OpenError::HalfRestored { dir: dir.to_owned() });
    }
    refuse_by_forecast(dir, &directory.engine(), &marker)?;
    Ok(marker.store_id)
}

/// Refuses the files in `engine` if sled would refuse them, or would silently read them only in part. This is
/// checked before sled opens them, because sled writes when it opens. `dir` is the data directory.
pub(crate) fn refuse_by_forecast(dir: &Path, engine: &Path, marker: &Marker) -> Result<(), OpenError> {
    let log = engine.join(LOG_FILE);
    // a store that is being created has acknowledged nothing yet
    if marker.state == StoreStage::Creating || !fs::exists(&log).map_err(OpenError::io("look at", &log))? {
        return Ok(());
    }
    let since = small_files::read_up_to(engine).map_err(OpenError::io("list", engine))?;
    let known = witnessed_commit(dir, marker)?.max(marker.commit_sequence);
    match raw_log::forecast(&log, since, known).map_err(OpenError::io("read", &log))? {
        OpenForecast::DamagedIdentity => {
            let reason = "the identity of the store is damaged".to_owned();
            Err(OpenError::Engine { dir: engine.to_owned(), reason })
        }
        OpenForecast::Torn(at) => Err(OpenError::Torn { dir: dir.to_owned(), at }),
        OpenForecast::Opens(found) => reconcile(dir, marker, found).map(|_identity| ()),
    }
}

/// Number of the last commit in the marker or the witness, whichever is higher.
fn witnessed_commit(dir: &Path, marker: &Marker) -> Result<u64, OpenError> {
    Ok(CommitWitness::read(dir, marker.store_id)?.unwrap_or(0))
}

/// Writes the identity of the store, and checks that the write reached the disk.
pub(crate) fn prove_durable(dir: &Path, engine: &Engine, identity: StoreIdentity) -> Result<(), OpenError> {
    let before = durable::syncs();
    let applied = engine.apply(&[], identity);
    applied.map_err(|error| error.at(dir))?;
    if !durable::proven_since(before) {
        return Err(OpenError::NotDurable { dir: dir.to_owned() });
    }
    sync_dir(dir)
}

/// The identity to continue with, if the engine has at least the commits that marker and witness record.
pub(crate) fn reconcile(
    dir: &Path,
    marker: &Marker,
    found: Option<StoreIdentity>,
) -> Result<StoreIdentity, OpenError> {
    let fresh = StoreIdentity { format: FORMAT_VERSION, id: marker.store_id, sequence: 0 };
    let emptied = |what: String| Err(OpenError::Emptied { dir: dir.to_owned(), what });
    let witnessed = witnessed_commit(dir, marker)?;
    let known = marker.commit_sequence.max(witnessed);
    match found {
        None if marker.state == StoreStage::Creating => Ok(fresh),
        None => emptied(format!("the store is empty, after {known} commits by plimsoll.json")),
        Some(found) => {
            check_format(dir, found.format)?;
            if found.id != marker.store_id {
                let (found, marker) = (found.id, marker.store_id);
                return emptied(format!("the store has the id {found}, plimsoll.json says {marker}"));
            }
            if found.sequence < known {
                let file = if witnessed == known { witness::WITNESS_FILE } else { marker::MARKER_FILE };
                let what = format!("the store ends at commit {}, {file} knows of {known}", found.sequence);
                return Err(OpenError::Behind { dir: dir.to_owned(), what });
            }
            Ok(found)
        }
    }
}
