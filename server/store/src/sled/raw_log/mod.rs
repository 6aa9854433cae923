//! Reads the engine's log without the engine, to recover a store that sled does not open at all or completely.
//!
//! Nothing here writes, lengths are checked before use, and a message counts only if its checksum is right.
//!
//! The facts, from the source of sled 0.34.7 (`pagecache/{constants,logger,iobuf,iterator,snapshot}.rs`, `serialization.rs`, `node.rs`,
//! `prefix.rs`). Numbers of fixed width are little-endian. A *varint* is sled's own: up to 240 the byte itself; 241 to 248, then one
//! byte: 240 + 256 * (first - 241) + second; 249, then two bytes: 2288 + 256 * second + third; 250 to 255, then 3 to 8 bytes of the
//! number, lowest first. *slice* is a varint and so many bytes.
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
//! `lsn` is a position in the life of the log: the first one of a segment, a multiple of 512 KiB; that divided by 512 KiB is the number
//! that each message of the segment repeats. A segment whose pages were all written again is used anew, with a higher number; the
//! messages behind its newest one may then be old ones, with the old number. A message never begins in the last 32 bytes of a segment:
//! where more is left, a cap fills it. `stable` says up to where all was on the disk when the segment was begun.
//!
//! A page is its newest node, and the links behind it. A leaf is cut in two with three messages: a node for the new right part, one for
//! the left part, one for the page above. Its prefix is what `lo` and `hi` have in common, at most 255 bytes; with an empty `hi`, which
//! is the end of the tree, it is none.
//!
//! `sled/snap.*` is a table of the newest messages of all pages up to a log position, so that a start need not read them all: that
//! position as i64 plus 1 (0 for none), the file place of the segment, pages; length u64, crc u32 over all before the length.
//! `sled/conf` holds three lines that are always the same here, and a crc u32 of them.

pub(crate) mod flipped;
mod foresight;
mod message;
mod page;
mod placing;
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

pub(crate) use flipped::FlippedBit;
pub(crate) use foresight::{OpenForecast, forecast};
use replay::{KeyRange, Replay, ValueLocation};
use survey::{LogHole, LogSurvey};
use walk::{WalkStep, walk};

use super::{engine::IDENTITY, fault::OpenError};
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
    /// The highest version before each hole.
    before_holes: Vec<u64>,
    /// The highest version of all.
    newest: u64,
    /// Changes whose key is unknown.
    unplaced: u64,
}

/// A loss in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLoss {
    /// Bytes of `sled/db`.
    Bytes {
        /// Position of the first.
        at: u64,
        /// Number of bytes.
        len: u64,
        /// The last commit with a message before them.
        after_commit: u64,
    },
    /// A whole page is lost: older messages about its keys were used instead.
    Keys {
        /// The first key it may have held; empty for the start.
        from: KeyText,
        /// The first key after it; `None` for the end.
        until: Option<KeyText>,
    },
    /// Changes of pages that are lost; which keys they changed is unknown.
    Changes(u64),
}

impl RawLog {
    /// Reads a whole log. `behind`: it is known to lack something.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn read(path: &Path, behind: bool) -> io::Result<Self> {
        Self::read_before(path, u64::MAX, behind)
    }

    /// Reads the part of a log before a log position.
    fn read_before(path: &Path, lsn: u64, behind: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let survey = LogSurvey::before(path, lsn)?;
        let mut log = Self::replay(path, file, survey, false);
        if behind || !log.losses().is_empty() {
            // a missing segment may be one that was lost, and not one that was reused
            log.survey.expect_losses(behind);
            log = Self::replay(path, log.file, log.survey, true);
        }
        log.unplaced = log.place();
        Ok(log)
    }

    fn replay(path: &Path, file: File, survey: LogSurvey, gaps_count: bool) -> Self {
        let (mut replay, mut bytes, mut before_holes) = (Replay::default(), Vec::new(), Vec::new());
        let (mut newest, mut expected) = (0, None);
        for slot in &survey.slots {
            survey.read(&file, slot.at, &mut bytes);
            let base = slot.number * message::SEGMENT as u64;
            if gaps_count && expected.is_some_and(|expected| slot.number > expected) {
                replay.mark_outdated_before(base);
            }
            expected = Some(slot.number + 1);
            walk(&bytes, slot.number, |step| match step {
                WalkStep::Message(at, message) if base + (at as u64) < survey.end => {
                    newest = newest.max(version_in(&message));
                    replay.take(&message, base + at as u64, slot.at, &survey);
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
        Self { path, file, replay, survey, before_holes, newest, unplaced: 0 }
    }

    /// Whether the engine could read all of it.
    fn is_whole(&self) -> bool {
        self.survey.holes.is_empty() && self.losses().is_empty()
    }

    /// The highest version of any value in it.
    pub(crate) fn newest_version(&self) -> u64 {
        self.newest
    }

    /// The store's identity according to the log.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn identity(&self) -> io::Result<Option<StoreIdentity>> {
        let stored = self.replay.entries.get(IDENTITY);
        let bytes = stored.map(|stored| self.value(stored)).transpose()?;
        Ok(bytes.and_then(|bytes| StoreIdentity::decode(&bytes)))
    }

    /// The last complete commit: if the log ends within a commit, the one before it. Taken from the identity, which each commit writes: in
    /// a store that was filled, versions follow the order of keys and do not show it.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn last_whole_commit(&self) -> io::Result<u64> {
        let newest = match self.survey.torn_at(self.survey.end) {
            None => self.identity()?,
            Some(torn) => foresight::newest_identity(&self.path, &self.survey, torn)?,
        };
        Ok(newest.map_or(0, |identity| identity.sequence))
    }

    /// Whether it has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        !self.replay.entries.keys().any(|key| key.len() > 1)
    }

    /// Flipped bits, which are corrected in what is read.
    pub(crate) fn flipped(&self) -> &[FlippedBit] {
        &self.survey.flipped
    }

    /// The file that it was read from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest value of a key.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Option<VersionedValue>> {
        let value = self.replay.entries.get(key).map(|stored| self.value(stored)).transpose()?;
        Ok(value.and_then(|value| versioned(&value)))
    }

    /// Passes all entries with a version to `take`, sorted by key, except those with a key of one byte.
    ///
    /// # Errors
    /// The disk cannot be read, or the error of `take`.
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

    /// All losses.
    pub(crate) fn losses(&self) -> Vec<LogLoss> {
        let holes = self.survey.holes.iter().zip(&self.before_holes);
        let bytes =
            holes.map(|(hole, after)| LogLoss::Bytes { at: hole.at, len: hole.len, after_commit: *after });
        let text = |key: &[u8]| KeyText(key.to_vec());
        let keys = |range: &KeyRange| LogLoss::Keys {
            from: text(&range.lo),
            until: Some(text(&range.hi)).filter(|hi| !hi.0.is_empty()),
        };
        let changes = self.unplaced + self.replay.unknown_forms;
        let changes = (changes > 0).then_some(LogLoss::Changes(changes));
        bytes.chain(self.replay.missing().map(keys)).chain(changes).collect()
    }

    /// The value of each key, and the range of its message in the file.
    #[cfg(test)]
    pub(crate) fn spans(&self) -> Vec<(Vec<u8>, std::ops::Range<u64>)> {
        let (mut messages, mut bytes) = (Vec::new(), Vec::new());
        for slot in &self.survey.slots {
            self.survey.read(&self.file, slot.at, &mut bytes);
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
        self.survey.flipped.iter().for_each(|bit| bit.put_right_within(stored.at, &mut bytes));
        Ok(bytes)
    }
}

fn versioned(bytes: &[u8]) -> Option<VersionedValue> {
    let (version, value) = bytes.split_first_chunk::<VERSION_BYTES>()?;
    Some(VersionedValue { version: u64::from_be_bytes(*version), value: value.to_vec() })
}

/// The version of the value that a change writes; 0 for everything else.
fn version_in(message: &message::LogMessage<'_>) -> u64 {
    let change =
        (message.kind == message::MessageKind::Link).then(|| page::PageChange::read(message.body)).flatten();
    let Some(page::PageChange::Set(_, value)) = change else { return 0 };
    let value = message.body.get(value.at..value.at + value.len);
    // the identity is the only value without a version: it is recognized by its length
    let value = value.filter(|value| value.len() != IDENTITY_BYTES);
    value.and_then(<[u8]>::first_chunk).map_or(0, |version| u64::from_be_bytes(*version))
}

/// Bytes of the identity of a store.
const IDENTITY_BYTES: usize = 32;
