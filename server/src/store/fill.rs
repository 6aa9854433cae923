//! Fills the engine of a store that nobody serves yet, so that it is small at once: by `restore`, and by `compact`.
//!
//! sled writes a leaf anew for every tenth change of it, and what it wrote before is dead space that stays: no thread cleans while a
//! store is filled. So each leaf gets all of its keys first, empty, and then each of its values once ([`Engine::lay_out`]).

use std::path::{Path, PathBuf};

use super::{
    StoreSettings,
    directory::Directory,
    engine::{Change, Engine, EngineError, Identity},
    fault::OpenError,
    kv::{BATCH_BYTES, Entry},
    marker::{FORMAT_VERSION, Marker, State},
    sled_store::prove_durable,
};

/// Entries of one batch: larger ones take no less disk.
const BATCH_ENTRIES: usize = 512;
/// Bytes whose keys are laid out together, held in memory. The leaves at the ends of such a stretch are written twice, so a stretch
/// is long beside a leaf (64 KiB at most).
const STRETCH_BYTES: usize = 8 << 20;

/// A data directory that is being filled. No server opens it before it is whole.
#[derive(Debug)]
pub struct Filling {
    directory: Directory,
    filler: Filler,
    marker: Marker,
}

impl Filling {
    /// Makes the data directory of the store `identity`.
    ///
    /// # Errors
    /// The directory is not empty, or cannot be made.
    pub fn begin(settings: &StoreSettings, identity: Identity) -> Result<Self, OpenError> {
        let marker = Marker {
            store_id: identity.id,
            format_version: FORMAT_VERSION,
            commit_sequence: identity.sequence,
            state: State::Filling,
        };
        let identity = Identity { format: FORMAT_VERSION, ..identity };
        let directory = Directory::begin_filling(&settings.dir, &marker)?;
        let filler = Filler::begin(&directory.engine(), settings.cache_bytes, identity)?;
        Ok(Self { directory, filler, marker })
    }

    /// Adds an entry with the version it has. Those that come in the order of their keys take the least disk.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn put(&mut self, entry: Entry) -> Result<(), OpenError> {
        self.filler.put(entry)
    }

    /// All entries are there: from now on it is a store like any other.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn end(self) -> Result<(), OpenError> {
        self.filler.end()?;
        Marker { state: State::Ready, ..self.marker }.write(self.directory.path())
    }
}

/// Fills an engine, a stretch of entries at a time, each batch synced.
#[derive(Debug)]
pub(super) struct Filler {
    engine: Engine,
    identity: Identity,
    dir: PathBuf,
    waiting: Vec<Entry>,
    bytes: usize,
}

impl Filler {
    pub(super) fn begin(dir: &Path, cache_bytes: u64, identity: Identity) -> Result<Self, OpenError> {
        let failed = |error: EngineError| OpenError::Engine { dir: dir.to_owned(), reason: error.0 };
        let engine = Engine::open_to_fill(dir, cache_bytes).map_err(failed)?;
        prove_durable(dir, &engine, identity)?;
        Ok(Self { engine, identity, dir: dir.to_owned(), waiting: Vec::new(), bytes: 0 })
    }

    pub(super) fn put(&mut self, entry: Entry) -> Result<(), OpenError> {
        self.bytes += size(&entry);
        self.waiting.push(entry);
        if self.bytes >= STRETCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        self.waiting.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.write().map_err(|error| OpenError::Engine { dir: self.dir.clone(), reason: error.0 })?;
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }

    fn write(&self) -> Result<(), EngineError> {
        self.engine.lay_out(self.waiting.iter().map(|entry| entry.key.as_slice()))?;
        let (mut changes, mut bytes) = (Vec::with_capacity(BATCH_ENTRIES), 0);
        for entry in &self.waiting {
            if changes.len() >= BATCH_ENTRIES || bytes + size(entry) > BATCH_BYTES {
                self.engine.apply(&changes, self.identity)?;
                changes.clear();
                bytes = 0;
            }
            bytes += size(entry);
            changes.push(change(entry));
        }
        self.engine.apply(&changes, self.identity)
    }

    pub(super) fn end(mut self) -> Result<(), OpenError> {
        self.flush()?;
        let failed = |error: EngineError| OpenError::Engine { dir: self.dir.clone(), reason: error.0 };
        self.engine.close().map_err(failed)
    }
}

fn size(entry: &Entry) -> usize {
    entry.key.len() + entry.value.value.len()
}

fn change(entry: &Entry) -> Change<'_> {
    (&entry.key, Some((entry.value.version, &entry.value.value)))
}
