//! A store that no server has open, for work on all of it: read through, copied, made anew. Blocks; not for a server.
//!
//! Entries keep their versions, and a copy keeps the identity: it is the same store.

use super::{
    StoreSettings,
    directory::Directory,
    engine::{Engine, Identity},
    errors::StoreError,
    fault::OpenError,
    fill::Filler,
    kv::{Entry, Limit},
    marker::Marker,
    sled_store::open_compared,
};

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

    /// Copies what is alive into fresh files, reads them back, and puts them in the place of the old ones, if they are smaller.
    ///
    /// # Errors
    /// There is no room, or the store cannot be read. The old files are then as they were.
    pub fn compact(self, cache_bytes: u64, mut tell: impl FnMut(u64)) -> Result<(), OpenError> {
        let path = self.directory.begin_copy()?;
        let failed = |reason: String| OpenError::Engine { dir: path.clone(), reason };
        let mut filler = Filler::begin(&path, cache_bytes, self.identity)?;
        // first the keys, then the values
        let unwritten = |error: OpenError| StoreError::Unavailable(error.to_string());
        let laid_out = self.each_page(|page| filler.lay_out(&page).map_err(unwritten));
        laid_out.map_err(|error: StoreError| failed(error.to_string()))?;
        let mut done = 0;
        let copied = self.each(|entry| {
            done += (entry.key.len() + entry.value.value.len()) as u64;
            tell(done);
            filler.put(entry).map_err(unwritten)
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
        if copy.directory.is_copy_smaller() { copy.directory.swap_copy() } else { copy.directory.drop_copy() }
    }
}
