//! The only code that calls sled.
//!
//! Every call is guarded: an error or a panic inside sled becomes an [`EngineError`] with a text, and the
//! caller decides. To avoid known faults of sled 0.34.7, values are shorter than 4 KiB, there is one tree, no
//! compression and no `len()`, readers read in pages (a batch holds a lock that all readers need), and the
//! store is reopened after an error.
//!
//! Every call also pins sled's garbage collector (in the terms of `crossbeam-epoch`). sled pins it itself when
//! it reads and writes pages, but not when it flushes (also on drop): there it uses the buffer of its log
//! through a bare pointer, and its background thread may free that buffer before the use is counted. A thread
//! that was preempted at that point wrote into freed memory, and the process died of SIGSEGV or SIGABRT.

use std::{
    io,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ulid::Ulid;

use super::{engine_error::EngineError, open_error::FORMAT_VERSION, quiet_panics};
use crate::{
    bounds::VERSION_BYTES,
    bytes,
    kv::{KeyValue, PageLimit, ScanPage, StoreIdentity, VersionedValue},
    packed_page::PackedPage,
};

/// Key of the store's identity; no other key starts with this byte.
pub(crate) const IDENTITY: &[u8] = b"i";
/// How long opening waits for files that are still locked: sled releases them in the background after a close.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two attempts to open.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// How often sled's own thread wakes. Each time it syncs what a flush does not cover, and frees one segment
/// (half a MiB) of its log: if fragments are written and removed faster than that, the files grow. At 130,000
/// samples a second they grow to 10.6 times their content at sled's default of 500 ms, and to 6.9 times at 100
/// ms; at 10,000 a second to less than 3 times with either.
const FLUSH_EVERY_MS: u64 = 100;

/// A write: a key, with a version and a value, or with `None` to remove the key.
pub(crate) type EngineWrite<'a> = (&'a [u8], Option<(u64, &'a [u8])>);

/// An open sled database; `None` after it was closed.
#[derive(Debug)]
pub(crate) struct Engine(Option<::sled::Db>);

impl Engine {
    /// Opens or creates the files in `dir`.
    pub(crate) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, EngineError> {
        Self::open_with(dir, cache_bytes, Some(FLUSH_EVERY_MS))
    }

    /// Opens files that are filled once, in large batches. sled's timed flush is off: with it the size of the
    /// files would depend on the speed of the disk.
    pub(crate) fn open_to_fill(dir: &Path, cache_bytes: u64) -> Result<Self, EngineError> {
        Self::open_with(dir, cache_bytes, None)
    }

    fn open_with(dir: &Path, cache_bytes: u64, flush_every_ms: Option<u64>) -> Result<Self, EngineError> {
        let config = ::sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .flush_every_ms(flush_every_ms)
            .use_compression(false);
        let begin = Instant::now();
        loop {
            match call_engine(|| Ok(config.open())) {
                Ok(Ok(db)) => return Ok(Self(Some(db))),
                Ok(Err(error)) if is_locked(&error) && begin.elapsed() < RELEASE_PATIENCE => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Ok(Err(error)) => return Err(EngineError::of(&error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the value of one key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<VersionedValue>, EngineError> {
        self.call(|db| db.get(key))?.map(|bytes| versioned_value(key, &bytes)).transpose()
    }

    /// Whether any key starts with `prefix`.
    pub(crate) fn holds(&self, prefix: &[u8]) -> Result<bool, EngineError> {
        let limit = PageLimit { items: 1, bytes: 1 };
        self.scan(prefix, None, limit).map(|page| !page.entries.is_empty())
    }

    /// Reads a page of entries.
    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<ScanPage, EngineError> {
        let mut page = ScanPage::default();
        page.more = self.walk_entries(prefix, after, limit, |key, version, value| {
            let value = VersionedValue { version, value: value.to_vec() };
            page.entries.push(KeyValue { key: key.to_vec(), value });
        })?;
        Ok(page)
    }

    /// Reads a page of entries like `scan`, but into one allocation.
    pub(crate) fn scan_packed(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
    ) -> Result<PackedPage, EngineError> {
        let mut strip = PackedPage::with_room(limit);
        strip.more =
            self.walk_entries(prefix, after, limit, |key, _version, value| strip.push(key, value))?;
        Ok(strip)
    }

    /// Passes each entry's key, version and value to `take`; returns whether there may be more entries.
    fn walk_entries(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: PageLimit,
        mut take: impl FnMut(&[u8], u64, &[u8]),
    ) -> Result<bool, EngineError> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = match after {
            Some(after) if after >= prefix => Excluded(after),
            _ => Included(prefix),
        };
        let (mut taken, mut bytes) = (0, 0);
        let mut entries = self.call(|db| Ok(db.range::<&[u8], _>((from, Unbounded))))?;
        while let Some((key, value)) = call_engine(|| entries.next().transpose())? {
            if !key.starts_with(prefix) {
                break;
            }
            if key == IDENTITY {
                continue;
            }
            if !limit.takes_more(taken, bytes) {
                return Ok(true);
            }
            taken += 1;
            bytes += key.len() + value.len();
            let (version, value) = split_version(&key, &value)?;
            take(&key, version, value);
        }
        Ok(false)
    }

    /// Passes all entries with keys that start with `prefix` to `take`, page by page.
    pub(crate) fn each_page(&self, prefix: &[u8], mut take: impl FnMut(ScanPage)) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let page = self.scan(prefix, after.as_deref(), PageLimit::PAGE)?;
            after = page.next_after();
            take(page);
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The first entry at or after a key.
    pub(crate) fn first_from(&self, from: Bound<&[u8]>) -> Result<Option<KeyValue>, EngineError> {
        let mut entries = self.call(|db| Ok(db.range::<&[u8], _>((from, Bound::Unbounded))))?;
        while let Some((key, value)) = call_engine(|| entries.next().transpose())? {
            if key != IDENTITY {
                return Ok(Some(KeyValue { key: key.to_vec(), value: versioned_value(&key, &value)? }));
            }
        }
        Ok(None)
    }

    /// Applies all changes and writes the identity, or changes nothing; the changes are on disk when it
    /// returns.
    pub(crate) fn apply(
        &self,
        changes: &[EngineWrite<'_>],
        identity: StoreIdentity,
    ) -> Result<(), EngineError> {
        let mut batch = ::sled::Batch::default();
        for (key, change) in changes {
            match change {
                Some((version, value)) => batch.insert(*key, [&version.to_be_bytes(), *value].concat()),
                None => batch.remove(*key),
            }
        }
        batch.insert(IDENTITY, identity.encode());
        self.call(|db| {
            db.apply_batch(batch)?;
            db.flush()
        })?;
        Ok(())
    }

    /// Writes keys without values, one at a time. Each key must get its value with [`Self::apply`] before it is
    /// read.
    ///
    /// This makes a copy small. If keys are written in order and not in a batch (sled does not keep the order
    /// of a batch), nine keys share a leaf, and later the log has each of their values once. If the values were
    /// written with the keys, the log would have each value three times.
    pub(crate) fn lay_out<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Result<(), EngineError> {
        keys.try_for_each(|key| self.call(|db| db.insert(key, &[])).map(drop))
    }

    /// The store's identity; `None` for a new one.
    pub(crate) fn identity(&self) -> Result<Option<StoreIdentity>, EngineError> {
        let Some(bytes) = self.call(|db| db.get(IDENTITY))? else { return Ok(None) };
        match StoreIdentity::decode(&bytes) {
            Some(identity) => Ok(Some(identity)),
            None => Err(EngineError::damage("the identity of the store is damaged")),
        }
    }

    /// Releases the files held by this handle.
    pub(crate) fn close(mut self) -> Result<(), EngineError> {
        self.release_files()
    }

    /// Drops sled, which flushes as it is dropped.
    fn release_files(&mut self) -> Result<(), EngineError> {
        let db = self.0.take();
        call_engine(|| {
            drop(db);
            Ok(())
        })
    }

    fn call<T>(&self, call: impl FnOnce(&::sled::Db) -> ::sled::Result<T>) -> Result<T, EngineError> {
        let db = self.0.as_ref().ok_or_else(|| EngineError::other("the engine is closed"))?;
        call_engine(|| call(db))
    }
}

/// Closes the engine when its last user is a reader and not [`Engine::close`].
impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.release_files() {
            tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
        }
    }
}

impl StoreIdentity {
    fn encode(self) -> Vec<u8> {
        let fields: [&[u8]; 3] =
            [&self.format.to_be_bytes(), &self.id.to_bytes(), &self.sequence.to_be_bytes()];
        bytes::with_checksum(fields.concat())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        bytes::checked(bytes).ok()?;
        let (format, rest) = bytes.split_first_chunk()?;
        let format = u32::from_be_bytes(*format);
        // the bytes after the number may differ in another format; the number is enough to refuse the store
        if format != FORMAT_VERSION {
            return Some(Self { format, id: Ulid::nil(), sequence: 0 });
        }
        let (id, rest) = rest.split_first_chunk()?;
        let (sequence, _crc) = rest.split_first_chunk()?;
        Some(Self { format, id: Ulid::from_bytes(*id), sequence: u64::from_be_bytes(*sequence) })
    }
}

fn versioned_value(key: &[u8], bytes: &[u8]) -> Result<VersionedValue, EngineError> {
    split_version(key, bytes).map(|(version, value)| VersionedValue { version, value: value.to_vec() })
}

/// Splits the bytes of a stored value into version and value.
fn split_version<'b>(key: &[u8], bytes: &'b [u8]) -> Result<(u64, &'b [u8]), EngineError> {
    match bytes.split_first_chunk::<VERSION_BYTES>() {
        Some((version, value)) => Ok((u64::from_be_bytes(*version), value)),
        None => {
            Err(EngineError::damage(format!("the value under key {} has no version", key.escape_ascii())))
        }
    }
}

/// Whether the engine did not open because its files are still locked.
fn is_locked(error: &::sled::Error) -> bool {
    // sled wraps the lock error in another kind, with the original text
    matches!(error, ::sled::Error::Io(io) if io.kind() == io::ErrorKind::WouldBlock || io.to_string().contains("WouldBlock"))
}

/// Runs a call of sled with its garbage collector pinned; errors and panics become [`EngineError`].
fn call_engine<T>(call: impl FnOnce() -> ::sled::Result<T>) -> Result<T, EngineError> {
    let _quiet = quiet_panics::within_engine();
    let _pinned = crossbeam_epoch::pin();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|error| EngineError::of(&error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let reason = format!("sled panicked: {}", text.unwrap_or("without a word"));
            Err(EngineError::panic(reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use log::{LevelFilter, Log, Metadata, Record};

    use super::*;

    thread_local! {
        /// Buffers of its log that sled sealed on this thread, and how many of them while they could be freed.
        static SEALED: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }

    /// Listens to what sled says of itself.
    struct SealLog;

    impl Log for SealLog {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "sled::pagecache::iobuf"
        }

        fn log(&self, record: &Record<'_>) {
            if self.enabled(record.metadata()) && record.args().to_string().starts_with("sealed iobuf") {
                let (sealed, loose) = SEALED.get();
                SEALED.set((sealed + 1, loose + u32::from(!crossbeam_epoch::is_pinned())));
            }
        }

        fn flush(&self) {}
    }

    /// Seals since the last question: how many there were, and how many of them while the buffer could be freed.
    fn sealed() -> (u32, u32) {
        SEALED.take()
    }

    #[test]
    fn a_flush_never_sees_freed_memory() {
        log::set_logger(&SealLog).unwrap();
        log::set_max_level(LevelFilter::Trace);
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open_to_fill(dir.path(), 1 << 20).unwrap();
        let identity = StoreIdentity { format: FORMAT_VERSION, id: Ulid::nil(), sequence: 1 };
        let mut seals = 0;
        for _ in 0..20 {
            engine.apply(&[(b"key", Some((1, b"value")))], identity).unwrap();
            let (sealed, loose) = sealed();
            assert_eq!(loose, 0, "of {sealed}");
            seals += sealed;
        }
        assert!(seals >= 20, "{seals}");
        // what is not flushed yet is flushed as the engine is dropped, or closed
        for close in [|engine: Engine| drop(engine), |engine: Engine| engine.close().unwrap()] {
            let dir = tempfile::tempdir().unwrap();
            let engine = Engine::open_to_fill(dir.path(), 1 << 20).unwrap();
            engine.lay_out([b"a".as_slice(), b"b"].into_iter()).unwrap();
            let _before = sealed();
            close(engine);
            let (sealed, loose) = sealed();
            assert!(sealed > 0 && loose == 0, "{loose} of {sealed}");
        }
        log::set_max_level(LevelFilter::Off);
    }

    #[test]
    fn a_closed_engine_is_not_a_damaged_range() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = Engine::open_to_fill(dir.path(), 1 << 20).unwrap();
        engine.release_files().unwrap();
        assert!(engine.scan_past(b"", None, PageLimit::PAGE).is_err());
    }

    #[test]
    fn a_full_disk_is_no_damage() {
        let io = |kind: io::ErrorKind| EngineError::of(&::sled::Error::Io(kind.into()));
        let damage = EngineError::of(&::sled::Error::Corruption { at: None, bt: () });
        let panicked =
            call_engine(|| -> ::sled::Result<()> { panic!("a page without its parent") }).unwrap_err();
        for (error, of_files, of_reading) in [
            (io(io::ErrorKind::StorageFull), false, false),
            (io(io::ErrorKind::UnexpectedEof), true, true),
            (damage, true, true),
            (panicked, false, true),
        ] {
            assert_eq!((error.is_damage(), error.is_damage_of_reading()), (of_files, of_reading), "{error}");
        }
    }
}
