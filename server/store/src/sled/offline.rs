//! A store that no server has open, for commands that read all of it: checks, copies, compaction. Its functions
//! block, so the server does not use them.
//!
//! Entries keep their versions, and a copy keeps the identity: it is the same store.

use std::path::Path;

use super::{
    directory::{Directory, remove_snapshots},
    engine::Engine,
    engine_error::EngineError,
    marker::Marker,
    open_error::OpenError,
    opening::{open_compared, reconcile, refuse_by_forecast},
    preload::EngineFiller,
    prepared::PreparedEngine,
    small_files,
    store_copy::{self, CopiedFiles},
    witness::CommitWitness,
};
use crate::{
    StoreSettings,
    check::{CheckFinding, CheckReport, Checker},
    errors::{KeyText, StoreError, StoreResult},
    kv::{KeyValue, PageLimit, ScanPage, StoreIdentity, UnreadableRange},
};

/// An existing store, locked while this value exists.
#[derive(Debug)]
pub struct OfflineStore {
    directory: Directory,
    marker: Marker,
    engine: Engine,
    identity: StoreIdentity,
    /// The error that a server would report for this store, if it was opened despite it.
    server_refusal: Option<OpenError>,
    /// The copied files that are read instead of the original ones; removed after the engine is closed.
    _copy: Option<CopiedFiles>,
}

impl OfflineStore {
    /// Opens an existing store. The engine may truncate its log at the first message that it cannot read: after
    /// a crash it drops unfinished work, in damaged files everything after the damage. Nothing else changes.
    /// Errors: there is no store, it is in use, or it cannot be opened.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open_existing(&settings.dir)?;
        let cache_bytes = settings.cache_bytes;
        let (engine, identity) =
            open_compared(&directory, &marker, cache_bytes, PreparedEngine::prepare_in_place)?;
        Ok(Self { directory, marker, engine, identity, server_refusal: None, _copy: None })
    }

    /// Opens a copy of a store, in `scratch` if given, so that the store's files stay unchanged. A store that
    /// has lost its last commits is opened too; [`Self::server_refusal`] then returns why a server would refuse it.
    /// Errors: as for [`Self::open`], or there is no space for the copy.
    pub fn open_copy(settings: &StoreSettings, scratch: Option<&Path>) -> Result<Self, OpenError> {
        let (directory, marker) = Directory::open_to_read(&settings.dir)?;
        // find out which error a server would report for the files as they are
        let foreseen = match refuse_by_forecast(directory.path(), &directory.engine(), &marker) {
            Ok(()) => None,
            Err(other @ OpenError::OtherFormat { .. }) => return Err(other),
            Err(refused) => Some(refused),
        };
        let copy = match store_copy::copy(&directory, &directory.engine(), scratch) {
            Ok(copy) => copy,
            Err(error) => return Err(foreseen.unwrap_or(error)),
        };
        let failed = |error: EngineError| error.at(&directory.engine());
        let (engine, refused) = match Engine::open(&copy.engine(), settings.cache_bytes) {
            Ok(engine) => (engine, foreseen),
            Err(error) => {
                let refused = foreseen.unwrap_or_else(|| failed(error));
                match open_without_snapshot_if_needed(&copy.engine(), settings.cache_bytes) {
                    Ok(engine) => (engine, Some(refused)),
                    Err(_same) => return Err(refused),
                }
            }
        };
        let found = match engine.identity() {
            Ok(found) => found,
            Err(error) => return Err(refused.unwrap_or_else(|| failed(error))),
        };
        let (identity, behind) = match (reconcile(directory.path(), &marker, found), found) {
            (Ok(identity), _) => (identity, refused),
            (Err(behind @ OpenError::Behind { .. }), Some(found)) => (found, refused.or(Some(behind))),
            (Err(other), _) => return Err(refused.unwrap_or(other)),
        };
        Ok(Self { directory, marker, engine, identity, server_refusal: behind, _copy: Some(copy) })
    }

    /// Accepts that a store has lost its last commits: sets marker and witness back to the last commit that
    /// exists. It tries this in a copy first (in `scratch` if given); if that fails, nothing was changed.
    /// Errors: as for [`Self::open_copy`]; or the store is empty, or another one.
    pub fn accept_loss(settings: &StoreSettings, scratch: Option<&Path>) -> Result<(), OpenError> {
        let (directory, marker) = Directory::open_existing(&settings.dir)?;
        if let Err(other @ OpenError::OtherFormat { .. }) =
            refuse_by_forecast(directory.path(), &directory.engine(), &marker)
        {
            return Err(other);
        }
        let copy = store_copy::copy(&directory, &directory.engine(), scratch)?;
        open_readable_part(&copy.engine(), &directory, &marker, settings.cache_bytes)?;
        drop(copy);
        small_files::remove_unusable(&directory.engine())?;
        let (engine, found) =
            open_readable_part(&directory.engine(), &directory, &marker, settings.cache_bytes)?;
        let failed = |error: EngineError| error.at(&directory.engine());
        engine.apply(&[], found).map_err(failed)?;
        Marker { commit_sequence: found.sequence, attempts: None, ..marker }.write(directory.path())?;
        CommitWitness::begin(directory.path(), found)?;
        engine.close().map_err(failed)
    }

    /// The error that a server would report for this store; `None` if a server would open it.
    pub fn server_refusal(&self) -> Option<&OpenError> {
        self.server_refusal.as_ref()
    }

    /// Identity of the store, and its last commit.
    pub fn identity(&self) -> StoreIdentity {
        self.identity
    }

    /// Size of the store's files, bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        self.directory.bytes()
    }

    /// Passes all entries to `take`, sorted by key, until `take` returns an error.
    /// Errors: the engine cannot read, or the error of `take`.
    pub fn each_entry(&self, mut take: impl FnMut(KeyValue) -> StoreResult<()>) -> StoreResult<u64> {
        let mut count = 0;
        self.each_page(|page| {
            page.into_iter().try_for_each(|entry| {
                count += 1;
                take(entry)
            })
        })?;
        Ok(count)
    }

    /// Checks every readable entry. Passes each finding to `on_finding`, and after each entry the number of bytes
    /// read so far to `progress`.
    pub fn check(
        &self,
        mut on_finding: impl FnMut(CheckFinding),
        mut progress: impl FnMut(u64),
    ) -> CheckReport {
        let mut checker = Checker::new(self.identity.sequence);
        let mut after = None;
        loop {
            let read = self.engine.scan_past(&[], after.as_deref(), PageLimit::PAGE);
            let (page, gap) = read.unwrap_or_else(|error| {
                let after = KeyText(after.take().unwrap_or_default());
                (ScanPage::default(), Some(UnreadableRange { after, until: None, reason: error.reason }))
            });
            after = page.next_after();
            for read in gap.map(Err).into_iter().chain(page.entries.into_iter().map(Ok)) {
                progress(checker.check(read, &mut on_finding));
            }
            if after.is_none() {
                return checker.finish(on_finding);
            }
        }
    }

    fn each_page(&self, mut take: impl FnMut(Vec<KeyValue>) -> StoreResult<()>) -> StoreResult<()> {
        let mut after = None;
        loop {
            let page = self.engine.scan(&[], after.as_deref(), PageLimit::PAGE);
            let page = page.map_err(|error| {
                let place = after.as_ref().map(|key: &Vec<u8>| key.escape_ascii().to_string());
                let place = place.unwrap_or_else(|| "the start".to_owned());
                StoreError::Unavailable(format!(
                    "{dir} cannot be read behind {place}: {error}; restore a backup into another directory, or save what is left into a new one \
                     (plimsoll-server repair {dir})",
                    dir = self.directory.path().display()
                ))
            })?;
            after = page.next_after();
            take(page.entries)?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies all entries into new files, reads them back, and replaces the old files if the new ones are
    /// smaller. Returns whether they are.
    /// Errors: there is no space, or the store cannot be read. The old files are then unchanged.
    pub fn compact(self, cache_bytes: u64, mut on_finding: impl FnMut(u64)) -> Result<bool, OpenError> {
        let path = self.directory.begin_copy()?;
        let failed = |reason: String| OpenError::Engine { dir: path.clone(), reason };
        let mut filler = EngineFiller::begin(&path, cache_bytes, self.identity)?;
        // write all keys first, then the values: that makes the copy small
        let unwritten = |error: OpenError| StoreError::Unavailable(error.to_string());
        let laid_out = self.each_page(|page| filler.lay_out(&page).map_err(unwritten));
        laid_out.map_err(|error| failed(error.to_string()))?;
        let mut done = 0;
        let copied = self.each_entry(|entry| {
            done += (entry.key.len() + entry.value.value.len()) as u64;
            on_finding(done);
            filler.put(entry).map_err(unwritten)
        });
        let copied = copied.map_err(|error| failed(error.to_string()))?;
        filler.end()?;
        let engine = Engine::open(&path, cache_bytes).map_err(|error| error.at(&path))?;
        let Self { directory, marker, engine: old, identity, .. } = self;
        if engine.identity().map_err(|error| error.at(&path))? != Some(identity) {
            return Err(failed("the copy is not what was written; the old files stay".to_owned()));
        }
        let copy = Self { directory, marker, engine, identity, server_refusal: None, _copy: None };
        let read = copy.each_entry(|_entry| Ok(())).map_err(|error| failed(error.to_string()))?;
        if read != copied {
            return Err(failed(format!("the copy holds {read} of {copied} entries; the old files stay")));
        }
        old.close().and_then(|()| copy.engine.close()).map_err(|error| error.at(&path))?;
        let smaller = copy.directory.is_copy_smaller();
        if !smaller {
            copy.directory.remove_copy()?;
            return Ok(false);
        }
        // this marker suits the old files and the copy; if the copy is incomplete, its last commit is missing,
        // and a server refuses it
        Marker { commit_sequence: identity.sequence, ..copy.marker }.write(copy.directory.path())?;
        copy.directory.swap_copy()?;
        Ok(true)
    }
}

/// Opens the engine in `dir` (the directory of the store's engine, or a copy) up to the first damage; also
/// returns the store's identity.
fn open_readable_part(
    dir: &Path,
    directory: &Directory,
    marker: &Marker,
    cache_bytes: u64,
) -> Result<(Engine, StoreIdentity), OpenError> {
    let failed = |error: EngineError| error.at(&directory.engine());
    let engine = open_without_snapshot_if_needed(dir, cache_bytes).map_err(failed)?;
    let found = engine.identity().map_err(failed)?;
    match (reconcile(directory.path(), marker, found), found) {
        (Err(OpenError::Behind { .. }), Some(found)) => Ok((engine, found)),
        (reconciled, _) => Ok((engine, reconciled?)),
    }
}

/// Opens an engine; if it refuses, tries again without its snapshot. sled refuses files that are damaged before
/// the snapshot's position; without a snapshot it reads its log up to the damage.
fn open_without_snapshot_if_needed(dir: &Path, cache_bytes: u64) -> Result<Engine, EngineError> {
    Engine::open(dir, cache_bytes).or_else(|first| match remove_snapshots(dir) {
        Ok(true) => Engine::open(dir, cache_bytes),
        _ => Err(first),
    })
}
