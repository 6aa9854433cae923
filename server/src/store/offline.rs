//! A store that no server has open, for work on all of it: read through, copied, made anew. Blocks; not for a server.
//!
//! Entries keep their versions, and a copy keeps the identity: it is the same store.

use std::path::Path;

use super::{
    StoreSettings,
    directory::Directory,
    engine::{Change, Engine, EngineError, Identity},
    errors::StoreError,
    fault::OpenError,
    kv::{BATCH_BYTES, Entry, Limit},
    marker::{FORMAT_VERSION, Marker, State},
    sled_store::{open_compared, prove_durable},
};

/// Entries of one batch of a copy. Without [`Engine::lay_out`], large ones save disk: 1.6 times the payload instead of 2.4 for single
/// ones; still larger ones lose it again.
const COPY_ENTRIES: usize = 512;

/// An existing store, locked for as long as this lives.
#[derive(Debug)]
pub struct Offline {
    directory: Directory,
    marker: Marker,
    engine: Engine,
    identity: Identity,
}

impl Offline {
    /// Opens a store that exists. Writes nothing of its own into it.
    ///
    /// # Errors
    /// There is none, somebody uses it, or it cannot be opened.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open_existing(&settings.dir)?;
        let (engine, identity) = open_compared(&directory, &marker, settings.cache_bytes)?;
        Ok(Self { directory, marker, engine, identity })
    }

    /// Which store it is, and how far it has come.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Size of its files, bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        self.directory.bytes()
    }

    /// Hands all entries, in the order of their keys, to `take`, until one is refused.
    ///
    /// # Errors
    /// The engine cannot read, or what `take` says.
    pub fn each<E: From<StoreError>>(&self, mut take: impl FnMut(Entry) -> Result<(), E>) -> Result<u64, E> {
        let mut count = 0;
        self.each_page(|page| {
            page.into_iter().try_for_each(|entry| {
                count += 1;
                take(entry)
            })
        })?;
        Ok(count)
    }

    fn each_page<E: From<StoreError>>(
        &self,
        mut take: impl FnMut(Vec<Entry>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut after = None;
        loop {
            let page = self.engine.scan(&[], after.as_deref(), Limit::PAGE);
            let page = page.map_err(|error| {
                let place = after.as_ref().map(|key: &Vec<u8>| key.escape_ascii().to_string());
                let place = place.unwrap_or_else(|| "the start".to_owned());
                StoreError::Unavailable(format!("the files are damaged behind {place}: {error}"))
            })?;
            after = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
            take(page.entries)?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies what is alive into fresh files, reads them back, and puts them in the place of the old ones.
    ///
    /// # Errors
    /// There is no room, or the store cannot be read. The old files are then as they were.
    pub fn compact(self, cache_bytes: u64, mut tell: impl FnMut(u64)) -> Result<(), OpenError> {
        let path = self.directory.begin_copy()?;
        let failed = |reason: String| OpenError::Engine { dir: path.clone(), reason };
        let mut filler = Filler::begin(&path, cache_bytes, self.identity)?;
        // first all keys, then their values: see `Engine::lay_out`
        let laid_out = self.each_page(|page| {
            let keys: Vec<Vec<u8>> = page.into_iter().map(|entry| entry.key).collect();
            filler.engine.lay_out(&keys).map_err(|error| StoreError::Unavailable(error.0))
        });
        laid_out.map_err(|error: StoreError| failed(error.to_string()))?;
        let mut done = 0;
        let copied = self.each(|entry| {
            done += (entry.key.len() + entry.value.value.len()) as u64;
            tell(done);
            filler.put(entry).map_err(|error| StoreError::Unavailable(error.to_string()))
        });
        let copied = copied.map_err(|error: StoreError| failed(error.to_string()))?;
        filler.end()?;
        let engine = Engine::open(&path, cache_bytes).map_err(|error| failed(error.0))?;
        let Self { directory, marker, engine: old, identity } = self;
        if engine.identity().map_err(|error| failed(error.0))? != Some(identity) {
            return Err(failed("the copy is not what was written; the old files stay".to_owned()));
        }
        let copy = Self { directory, marker, engine, identity };
        let read = copy.each(|_entry| Ok(())).map_err(|error: StoreError| failed(error.to_string()))?;
        if read != copied {
            return Err(failed(format!("the copy holds {read} of {copied} entries; the old files stay")));
        }
        old.close().and_then(|()| copy.engine.close()).map_err(|error| failed(error.0))?;
        copy.directory.swap_copy()
    }
}

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

    /// Adds an entry with the version it has.
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

/// Fills an engine in large batches, each synced.
#[derive(Debug)]
struct Filler {
    engine: Engine,
    identity: Identity,
    dir: std::path::PathBuf,
    waiting: Vec<Entry>,
    bytes: usize,
}

impl Filler {
    fn begin(dir: &Path, cache_bytes: u64, identity: Identity) -> Result<Self, OpenError> {
        let failed = |error: EngineError| OpenError::Engine { dir: dir.to_owned(), reason: error.0 };
        let engine = Engine::open_to_fill(dir, cache_bytes).map_err(failed)?;
        prove_durable(dir, &engine, identity)?;
        Ok(Self { engine, identity, dir: dir.to_owned(), waiting: Vec::new(), bytes: 0 })
    }

    fn put(&mut self, entry: Entry) -> Result<(), OpenError> {
        self.bytes += entry.key.len() + entry.value.value.len();
        self.waiting.push(entry);
        if self.waiting.len() >= COPY_ENTRIES || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        let changes: Vec<Change<'_>> = self.waiting.iter().map(change).collect();
        let failed = |error: EngineError| OpenError::Engine { dir: self.dir.clone(), reason: error.0 };
        self.engine.apply(&changes, self.identity).map_err(failed)?;
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }

    fn end(mut self) -> Result<(), OpenError> {
        self.flush()?;
        let failed = |error: EngineError| OpenError::Engine { dir: self.dir.clone(), reason: error.0 };
        self.engine.close().map_err(failed)
    }
}

fn change(entry: &Entry) -> Change<'_> {
    (&entry.key, Some((entry.value.version, &entry.value.value)))
}
