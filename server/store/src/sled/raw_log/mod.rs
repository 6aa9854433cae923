//! Reads the engine's log without the engine, to recover a store that sled does not open at all or completely.
//!
//! Nothing here writes, lengths are checked before use, and a message counts only if its checksum is right.
//!
//! The format below is taken from the source of sled 0.34.7 (`pagecache/{constants,logger,iobuf,iterator,snapshot}.rs`,
//! `serialization.rs`, `node.rs`, `prefix.rs`). Numbers of fixed width are little-endian. A *varint* is sled's own: up to 240 the byte itself; 241 to 248, then one
//! byte: 240 + 256 * (first - 241) + second; 249, then two bytes: 2288 + 256 * second + third; 250 to 255, then 3 to 8 bytes of the
//! number, lowest first. A *slice* is a length as a varint, and that many bytes.
//!
//! ```text
//! sled/db  = segments of 512 KiB, in any order; the last may be short
//! segment  = crc u32, lsn u64, stable u64, messages           both numbers xor 2^63 - 1; crc over both, xor 2^32 - 1
//! message  = crc u32, kind u8, length varint, segment varint, page varint, body
//!                                                             crc over body, then kind to page; xor 2^32 - 1
//! kind     = 0 nothing, 1 canceled, 2 cap, 3 batch, 4 free, 5 counter, 6 table of trees, 8 node, 10 link; 7, 9, 11 in `blobs/`
//! batch    = lsn u64 of the last byte of the batch that begins here: all of it counts, or nothing
//! node     = next varint, merging child varint, merging u8, prefix length u8, lo slice, hi slice, content
//! content  = 0, count varint, keys: slices, values: slices    the keys without the first bytes of `lo`, so many as the prefix has
//!          | 1, count varint, keys: slices, pages: varints
//! link     = 0, key slice, value slice | 1, key slice | 2, page varint | 3 | 4
//! ```
//!
//! `lsn` (log sequence number) is a position in the log since its creation. A segment's `lsn` is that of its first byte, a multiple of
//! 512 KiB. Divided by 512 KiB it is the number of the segment, which each of its messages repeats. When all pages of a segment were
//! written again elsewhere, its space is reused with a higher number; after its newest message there may then be old messages, with the
//! old number. A message never begins in the last 32 bytes of a segment; if more space than that is left, a cap fills it. All messages
//! before `stable` were on disk when the segment was begun.
//!
//! The content of a page is its newest node with the links after it applied. A leaf is split with three messages: a node for the new right
//! part, one for the left part, one for the page above. The prefix of a page is what `lo` and `hi` have in common, at most 255 bytes; if
//! `hi` is empty, which means the end of the tree, there is no prefix.
//!
//! `sled/snap.*` is a table of the newest messages of all pages up to a log position, so that a start need not read the log before it.
//! Its content: that position as i64 plus 1 (0 for none), the position of the segment in the file, the pages, length u64, and a crc u32 of
//! everything before the length. `sled/conf` has three lines, which are always the same for this store, and a crc u32 of them.

mod foresight;
mod message;
mod page;
mod replay;
mod survey;
#[cfg(test)]
mod tests;
mod walk;

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

pub(crate) use foresight::{OpenForecast, forecast};
use replay::{KeyRange, Replay, ValueLocation};
use survey::{LogHole, LogSurvey, read_segment};
use walk::{WalkStep, walk};

use super::{engine::IDENTITY, open_error::OpenError};
use crate::{
    bounds::VERSION_BYTES,
    errors::KeyText,
    kv::{KeyValue, StoreIdentity, VersionedValue},
};

/// Content of the log, and what is missing from it.
#[derive(Debug)]
pub(crate) struct RawLog {
    path: PathBuf,
    file: File,
    replay: Replay,
    survey: LogSurvey,
    /// The highest version before each hole of the log.
    before_holes: Vec<u64>,
    /// The highest version of all values in the log.
    newest: u64,
}

/// Something that the log has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLoss {
    /// A range of bytes of `sled/db` cannot be read.
    Bytes {
        /// Position of the first byte in the file.
        at: u64,
        /// Number of bytes.
        len: u64,
        /// Number of the last commit that has a message before these bytes.
        after_commit: u64,
    },
    /// A whole page is lost. Older messages about its keys were used instead.
    Keys {
        /// The first key that the page may have had; empty for the start of the store.
        from: KeyText,
        /// The first key after the page; `None` for the end of the store.
        until: Option<KeyText>,
    },
    /// The number of changes that are lost because the pages are lost that show the beginnings of their keys.
    Changes(u64),
}

impl RawLog {
    /// Reads a whole log. `behind` is true if the log is known to lack commits.
    /// Errors: the disk cannot be read.
    pub(crate) fn read(path: &Path, behind: bool) -> io::Result<Self> {
        Self::read_before(path, u64::MAX, behind)
    }

    /// Reads the part of a log before the log position `lsn`.
    fn read_before(path: &Path, lsn: u64, behind: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let survey = LogSurvey::before(path, lsn)?;
        let mut log = Self::replay(path, file, survey, false);
        if behind || !log.losses().is_empty() {
            // the log has losses, so a missing segment may be a lost one and not a reused one
            log.survey.expect_losses(behind);
            log = Self::replay(path, log.file, log.survey, true);
        }
        Ok(log)
    }

    fn replay(path: &Path, file: File, survey: LogSurvey, gaps_count: bool) -> Self {
        let (mut replay, mut bytes, mut before_holes) = (Replay::default(), Vec::new(), Vec::new());
        let (mut newest, mut expected) = (0, None);
        for slot in &survey.slots {
            read_segment(&file, slot.at, &mut bytes);
            let base = slot.number * message::SEGMENT_BYTES as u64;
            if gaps_count && expected.is_some_and(|expected| slot.number > expected) {
                replay.mark_all_outdated();
            }
            expected = Some(slot.number + 1);
            walk(&bytes, slot.number, |step| match step {
                WalkStep::Message(at, message) if base + (at as u64) < survey.end => {
                    newest = newest.max(version_in(&message));
                    replay.apply_message(&message, base + at as u64, slot.at, &survey);
                }
                WalkStep::Message(..) => {}
                WalkStep::Gap { from, .. } => {
                    let hole = survey.hole_at(base + from as u64);
                    hole.map(|hole| replay.mark_outdated(&hole)).unwrap_or_default();
                    before_holes.extend(hole.map(|hole| (hole, newest)));
                }
            });
        }
        let known = |hole: &LogHole| {
            before_holes.iter().find(|(known, _)| known == hole).map_or(0, |(_, newest)| *newest)
        };
        let before_holes = survey.holes.iter().map(known).collect();
        let path = path.to_owned();
        Self { path, file, replay, survey, before_holes, newest }
    }

    /// Whether the part of the log that was read has no losses.
    fn is_whole(&self) -> bool {
        self.survey.holes.is_empty() && self.losses().is_empty()
    }

    /// The highest version of all values in the log.
    pub(crate) fn newest_version(&self) -> u64 {
        self.newest
    }

    /// The store's identity according to the log.
    /// Errors: the disk cannot be read.
    pub(crate) fn identity(&self) -> io::Result<Option<StoreIdentity>> {
        let stored = self.replay.entries.get(IDENTITY);
        let bytes = stored.map(|stored| self.value(stored)).transpose()?;
        Ok(bytes.and_then(|bytes| StoreIdentity::decode(&bytes)))
    }

    /// Number of the last commit that is completely in the log. It is taken from the store's identity, which
    /// each commit writes. The versions of entries do not show it: in a store that was filled at once, they
    /// follow the order of the keys.
    /// Errors: the disk cannot be read.
    pub(crate) fn last_whole_commit(&self) -> io::Result<u64> {
        let newest = match self.survey.torn_at(self.survey.end) {
            None => self.identity()?,
            Some(torn) => foresight::newest_identity(&self.path, &self.survey, torn)?,
        };
        Ok(newest.map_or(0, |identity| identity.sequence))
    }

    /// Whether the log has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        !self.replay.entries.keys().any(|key| key.len() > 1)
    }

    /// The log file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest value of a key.
    /// Errors: the disk cannot be read.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Option<VersionedValue>> {
        let value = self.replay.entries.get(key).map(|stored| self.value(stored)).transpose()?;
        Ok(value.and_then(|value| versioned(&value)))
    }

    /// Passes all entries with a version to `take`, sorted by key, except those with a key of one byte (the
    /// store's identity).
    /// Errors: the disk cannot be read, or the error of `take`.
    pub(crate) fn each(
        &self,
        mut take: impl FnMut(KeyValue) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        for (key, stored) in self.replay.entries.iter().filter(|(key, _)| key.len() > 1) {
            let value = self.value(stored).map_err(OpenError::io("read", &self.path))?;
            if let Some(value) = versioned(&value) {
                take(KeyValue { key: key.clone(), value })?;
            }
        }
        Ok(())
    }

    pub(crate) fn losses(&self) -> Vec<LogLoss> {
        let holes = self.survey.holes.iter().zip(&self.before_holes);
        let bytes =
            holes.map(|(hole, after)| LogLoss::Bytes { at: hole.at, len: hole.len, after_commit: *after });
        let text = |key: &[u8]| KeyText(key.to_vec());
        let keys = |range: &KeyRange| LogLoss::Keys {
            from: text(&range.start),
            until: Some(text(&range.end)).filter(|hi| !hi.0.is_empty()),
        };
        let changes = self.replay.lost_changes();
        let changes = (changes > 0).then_some(LogLoss::Changes(changes));
        bytes.chain(self.replay.missing_ranges().map(keys)).chain(changes).collect()
    }

    /// The value of each key, and the range of its message in the file.
    #[cfg(test)]
    pub(crate) fn spans(&self) -> Vec<(Vec<u8>, std::ops::Range<u64>)> {
        let (mut messages, mut bytes) = (Vec::new(), Vec::new());
        for slot in &self.survey.slots {
            read_segment(&self.file, slot.at, &mut bytes);
            let place = |at: usize| slot.at + at as u64;
            walk(&bytes, slot.number, |step| match step {
                WalkStep::Message(at, message) => messages.push(place(at)..place(message.end())),
                WalkStep::Gap { .. } => {}
            });
        }
        messages.sort_by_key(|message| message.start);
        let span = |stored: &ValueLocation| {
            let next = messages.partition_point(|message| message.start <= stored.at);
            messages[next - 1].clone()
        };
        self.replay.entries.iter().map(|(key, stored)| (key.clone(), span(stored))).collect()
    }

    fn value(&self, stored: &ValueLocation) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; stored.len];
        self.file.read_exact_at(&mut bytes, stored.at)?;
        Ok(bytes)
    }
}

fn versioned(bytes: &[u8]) -> Option<VersionedValue> {
    let (version, value) = bytes.split_first_chunk::<VERSION_BYTES>()?;
    Some(VersionedValue { version: u64::from_be_bytes(*version), value: value.to_vec() })
}

/// The version of the value that this message writes; 0 if it writes none.
fn version_in(message: &message::LogMessage<'_>) -> u64 {
    let change =
        (message.kind == message::MessageKind::Link).then(|| page::PageChange::read(message.body)).flatten();
    let Some(page::PageChange::Set(_, value)) = change else { return 0 };
    let value = message.body.get(value.position..value.position + value.len);
    // the store's identity is the only value without a version; it is recognized by its length
    let value = value.filter(|value| value.len() != IDENTITY_BYTES);
    value.and_then(<[u8]>::first_chunk).map_or(0, |version| u64::from_be_bytes(*version))
}

/// Length of the store's identity, bytes.
const IDENTITY_BYTES: usize = 32;
