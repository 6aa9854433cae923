//! The interface that a storage engine has to offer: ordered bytes to bytes, all-or-nothing commits, pages.
//!
//! Narrow on purpose, so that one process and a cluster can promise the same. What the rest of the server wants (fragments,
//! seals, records) is written once above it. Callers must be able to repeat a commit whose fate they do not know: the keys of
//! this store are unique, so a repeat writes the same bytes again.

use std::ops::AddAssign;

use ulid::Ulid;

use super::{
    bounds::{BATCH_BYTES, BATCH_OPERATIONS, MAX_KEY, MAX_VALUE},
    errors::{CommitBound, CommitError, KeyText},
};

/// Most entries of one page.
pub const PAGE_ITEMS: usize = 1000;
/// Bytes after which a page ends.
pub const PAGE_BYTES: usize = 1 << 20;

/// What is written: all of it or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// What is written, in this order: the last write of a key wins.
    pub writes: Vec<WriteOp>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOp {
    /// Put a value under a key, over whatever was there.
    Put {
        /// Where.
        key: Vec<u8>,
        /// What, at most [`MAX_VALUE`] bytes.
        value: Vec<u8>,
    },
    /// Remove a key, if it is there.
    Delete {
        /// Where.
        key: Vec<u8>,
    },
}

/// A commit that happened, and is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// Version of every value that it put.
    pub version: u64,
}

/// A value with its version: a snapshot leaves out by it what was written later, and a repair tells by it which of two records is newer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// Number of the commit that wrote it.
    pub version: u64,
    /// The bytes.
    pub value: Vec<u8>,
}

/// How much a page may hold. Engines cut it to [`PAGE_ITEMS`] and [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// Entries.
    pub items: usize,
    /// Bytes after which the page ends; it holds at least one entry if there is one.
    pub bytes: usize,
}

impl PageLimit {
    /// The largest page.
    pub const PAGE: Self = Self { items: PAGE_ITEMS, bytes: PAGE_BYTES };

    /// True if a page with this much in it takes another entry.
    pub(super) fn takes_more(self, items: usize, bytes: usize) -> bool {
        items < self.items.clamp(1, PAGE_ITEMS) && bytes < self.bytes.clamp(1, PAGE_BYTES)
    }
}

/// One key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, prefix included.
    pub key: Vec<u8>,
    /// What is there.
    pub value: VersionedValue,
}

/// Neighbouring entries in byte order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The entries.
    pub entries: Vec<KeyValue>,
    /// There may be entries after the last one.
    pub more: bool,
}

/// What a bounded delete did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteProgress {
    /// Entries that are gone.
    pub items: usize,
    /// There may be entries left: call again.
    pub more: bool,
}

impl AddAssign for DeleteProgress {
    fn add_assign(&mut self, step: Self) {
        self.items += step.items;
        self.more = step.more;
    }
}

impl Batch {
    /// Adds a value to put.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.push(WriteOp::Put { key, value });
    }

    /// Adds a key to remove.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.push(WriteOp::Delete { key });
    }

    /// Adds all of another batch after this one's.
    pub fn append(&mut self, other: Self) {
        self.writes.extend(other.writes);
    }

    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.operations() == 0
    }

    /// Writes.
    pub fn operations(&self) -> usize {
        self.writes.len()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|write| write.key().len() + write.value().len()).sum()
    }

    /// Checks the bounds that every engine keeps.
    pub(super) fn check_bounds(&self) -> Result<(), CommitError> {
        let (operations, bytes) = (self.operations(), self.bytes());
        if operations > BATCH_OPERATIONS {
            return Err(CommitError::TooLarge(CommitBound::Operations(operations)));
        }
        if bytes > BATCH_BYTES {
            return Err(CommitError::TooLarge(CommitBound::Bytes(bytes)));
        }
        for key in self.writes.iter().map(WriteOp::key) {
            if key.is_empty() || key.len() > MAX_KEY {
                return Err(CommitError::TooLarge(CommitBound::Key(key.len())));
            }
        }
        match self.writes.iter().find(|write| write.value().len() > MAX_VALUE) {
            Some(write) => {
                let excess =
                    CommitBound::Value { key: KeyText(write.key().clone()), bytes: write.value().len() };
                Err(CommitError::TooLarge(excess))
            }
            None => Ok(()),
        }
    }
}

impl WriteOp {
    /// The key that changes.
    pub fn key(&self) -> &Vec<u8> {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// The new value; empty for a delete.
    pub fn value(&self) -> &[u8] {
        match self {
            Self::Put { value, .. } => value,
            Self::Delete { .. } => &[],
        }
    }
}

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    /// Whether it takes commits.
    pub mode: StoreMode,
    /// Size on disk, at most some seconds old.
    pub bytes_on_disk: u64,
    /// Commits since the store was created.
    pub commits: u64,
    /// Groups of commits that were written since it was opened: each is one sync.
    pub syncs: u64,
    /// Tries to take up writing again since it was opened.
    pub tries: u64,
    /// Time from the first commit of the last group to its end, sync included, microseconds.
    pub last_commit_micros: u64,
}

/// Whether a store takes commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMode {
    /// It does.
    Writable,
    /// It does not.
    ReadOnly {
        /// Why not, and what helps.
        reason: String,
    },
}

/// Which store this is and how far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Format that it was last opened with.
    pub format: u32,
    /// Drawn when it was made.
    pub id: Ulid,
    /// Number of its last commit.
    pub sequence: u64,
}

/// Keys that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRange {
    /// The last key before it; empty at the start of the store.
    pub after: KeyText,
    /// The first key behind it; none where it lasts to the end of the store.
    pub until: Option<KeyText>,
    /// What the engine says.
    pub reason: String,
}

impl std::fmt::Display for UnreadableRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = if self.after.0.is_empty() { "the start".to_owned() } else { self.after.to_string() };
        let end = self.until.as_ref().map_or_else(|| "the end".to_owned(), ToString::to_string);
        write!(f, "what lies between {start} and {end} cannot be read: {}", self.reason)
    }
}
