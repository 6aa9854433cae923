//! Writes a whole store at once, so that its files are small: for `restore` and `compact`. No server has this
//! store open.
//!
//! sled rewrites a leaf at every tenth change, and the earlier bytes remain as dead space. So all keys are
//! written first, without values, and then each value once ([`Engine::lay_out`]). All keys are written before
//! all values. If keys and values were written range by range, the dead space of the second range's keys would
//! make sled move the values of the first (files of 1.3 times the payload instead of 1.2 at 100 MiB, 1.9
//! instead of 1.4 at 10 MiB). For values shorter than some hundred bytes this gains nothing, because the dead
//! space of a key is larger than the value: they are written in batches, with their keys.
//!
//! Entries keep their versions and are written in the order of their keys. So the versions do not show whether
//! the store is complete. Its identity therefore has commit 0 until all entries are written; the last batch
//! writes the final number.

use std::path::{Path, PathBuf};

use super::{
    directory::Directory,
    engine::{Engine, EngineWrite},
    engine_error::EngineError,
    marker::{Marker, StoreStage},
    open_error::{FORMAT_VERSION, OpenError},
    opening::prove_durable,
};
use crate::{
    StoreSettings,
    bounds::BATCH_BYTES,
    keys::KeyKind,
    kv::{KeyValue, StoreIdentity},
};

/// Entries of one batch. For entries without keys written first, large batches save disk: files of 1.6 times
/// the payload, instead of 2.4 for single writes. Even larger batches lose that again.
const BATCH_ENTRIES: usize = 512;

/// Values of at least this many bytes have their keys written first.
const LAID_OUT_FROM: usize = 256;

/// A data directory that is being filled. No server opens it before it is complete.
#[derive(Debug)]
pub struct StoreFiller {
    directory: Directory,
    filler: EngineFiller,
    marker: Marker,
}

impl StoreFiller {
    /// Creates the data directory of the store `identity`.
    /// Errors: the directory is not empty, or cannot be created.
    pub fn begin(settings: &StoreSettings, identity: StoreIdentity) -> Result<Self, OpenError> {
        let marker = Marker {
            store_id: identity.id,
            format_version: FORMAT_VERSION,
            commit_sequence: identity.sequence,
            state: StoreStage::Filling,
            attempts: None,
        };
        let identity = StoreIdentity { format: FORMAT_VERSION, ..identity };
        let directory = Directory::begin_filling(&settings.dir, &marker)?;
        let filler = EngineFiller::begin(&directory.engine(), settings.cache_bytes, identity)?;
        Ok(Self { directory, filler, marker })
    }

    /// Writes the keys of these entries, in their order. Each entry must be passed to [`Self::put`] later. Call
    /// this for all entries before the first `put`, so that the files stay small.
    /// Errors: the disk is full or broken.
    pub fn lay_out<'a>(&self, entries: impl IntoIterator<Item = &'a KeyValue>) -> Result<(), OpenError> {
        self.filler.lay_out(entries)
    }

    /// Adds an entry; its version stays the same.
    /// Errors: the disk is full or broken.
    pub fn put(&mut self, entry: KeyValue) -> Result<(), OpenError> {
        self.filler.put(entry)
    }

    /// Completes the store: from then on a server can open it.
    /// Errors: the disk is full or broken.
    pub fn end(self) -> Result<(), OpenError> {
        let attempts = Some(self.filler.end()?);
        Marker { state: StoreStage::Ready, attempts, ..self.marker }.write(self.directory.path())
    }
}

/// Fills an engine in large batches, each synced.
#[derive(Debug)]
pub(crate) struct EngineFiller {
    engine: Engine,
    identity: StoreIdentity,
    dir: PathBuf,
    unwritten_entries: Vec<KeyValue>,
    bytes: usize,
}

impl EngineFiller {
    pub(crate) fn begin(dir: &Path, cache_bytes: u64, identity: StoreIdentity) -> Result<Self, OpenError> {
        let engine = Engine::open_to_fill(dir, cache_bytes).map_err(|error| error.at(dir))?;
        prove_durable(dir, &engine, StoreIdentity { sequence: 0, ..identity })?;
        Ok(Self { engine, identity, dir: dir.to_owned(), unwritten_entries: Vec::new(), bytes: 0 })
    }

    pub(crate) fn lay_out<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a KeyValue>,
    ) -> Result<(), OpenError> {
        let long = entries.into_iter().filter(|entry| entry.value.value.len() >= LAID_OUT_FROM);
        self.engine.lay_out(long.map(|entry| entry.key.as_slice())).map_err(|error| error.at(&self.dir))
    }

    pub(crate) fn put(&mut self, entry: KeyValue) -> Result<(), OpenError> {
        self.bytes += entry.key.len() + entry.value.value.len();
        self.unwritten_entries.push(entry);
        if self.unwritten_entries.len() >= BATCH_ENTRIES || self.bytes >= BATCH_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        let changes: Vec<EngineWrite<'_>> = self.unwritten_entries.iter().map(engine_write).collect();
        let unfinished = StoreIdentity { sequence: 0, ..self.identity };
        self.engine.apply(&changes, unfinished).map_err(|error| error.at(&self.dir))?;
        self.unwritten_entries.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Completes the files; returns the number of attempts in them that have ended.
    pub(crate) fn end(mut self) -> Result<u64, OpenError> {
        self.flush()?;
        let failed = |error: EngineError| error.at(&self.dir);
        let attempts = count_ended(&self.engine).map_err(failed)?;
        self.engine.apply(&[], self.identity).map_err(failed)?;
        self.engine.close().map_err(failed)?;
        Ok(attempts)
    }
}

/// Number of attempts with a summary in the engine.
fn count_ended(engine: &Engine) -> Result<u64, EngineError> {
    let mut count = 0;
    engine.each_page(&KeyKind::Summary.prefix(), |page| {
        // a long record has several parts, numbered from 0: count only the first
        count += page.entries.iter().filter(|entry| entry.key.ends_with(&[0])).count() as u64;
    })?;
    Ok(count)
}

fn engine_write(entry: &KeyValue) -> EngineWrite<'_> {
    (&entry.key, Some((entry.value.version, &entry.value.value)))
}
