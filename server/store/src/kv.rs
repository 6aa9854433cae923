//! The interface of a storage engine: ordered keys and values of bytes, atomic commits, reads in pages.
//!
//! The interface is small, so that an engine in one process and one in a cluster can both offer it. Fragments, seals and
//! records are built once on top of it. Callers must be able to repeat a commit with an unknown result: keys
//! are unique, so a repeat writes the same bytes again.

use std::{ops::AddAssign, time::Instant};

use ulid::Ulid;

use super::{
    bounds::{BATCH_BYTES, BATCH_OPERATIONS, MAX_KEY, MAX_VALUE},
    errors::{CommitBound, CommitError, KeyText},
};

/// Most entries of one page.
pub const PAGE_ITEMS: usize = 1000;
/// A page ends when it has this many bytes.
pub const PAGE_BYTES: usize = 1 << 20;

/// A batch of writes that are applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The writes in order: the last one for a key wins.
    pub writes: Vec<WriteOp>,
}

/// A write: stores or removes one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOp {
    /// Stores a value under a key, replacing any other.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value, at most [`MAX_VALUE`] bytes.
        value: Vec<u8>,
    },
    /// Removes a key, if it exists.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

/// The result of a commit that is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// Version of every value that the commit wrote: the number of the commit.
    pub version: u64,
}

/// A value with its version. A snapshot skips values with later versions; a repair keeps the newer of two
/// records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// Number of the commit that wrote it.
    pub version: u64,
    /// The bytes.
    pub value: Vec<u8>,
}

/// Limits of a page. Engines cap them at [`PAGE_ITEMS`] and [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// Most entries of the page.
    pub items: usize,
    /// The page ends when it has this many bytes. It has at least one entry, however large, if any entry is
    /// left.
    pub bytes: usize,
}

impl PageLimit {
    /// The largest page.
    pub const PAGE: Self = Self { items: PAGE_ITEMS, bytes: PAGE_BYTES };

    /// Most entries of the page, capped.
    pub(super) fn rows(self) -> usize {
        self.items.clamp(1, PAGE_ITEMS)
    }

    /// Whether a page with `items` entries and `bytes` bytes may take another entry.
    pub(super) fn takes_more(self, items: usize, bytes: usize) -> bool {
        items < self.rows() && bytes < self.bytes.clamp(1, PAGE_BYTES)
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, including its prefix.
    pub key: Vec<u8>,
    /// The value.
    pub value: VersionedValue,
}

/// Consecutive entries in byte order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The entries.
    pub entries: Vec<KeyValue>,
    /// Whether there may be more entries after the last one.
    pub more: bool,
}

impl ScanPage {
    /// Key after which the next page starts; `None` if this is the last page.
    pub fn next_after(&self) -> Option<Vec<u8>> {
        self.entries.last().filter(|_| self.more).map(|last| last.key.clone())
    }
}

/// Progress of a delete that removes a limited number of entries at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteProgress {
    /// Number of entries removed.
    pub items: usize,
    /// Whether there may be more entries: call again.
    pub more: bool,
}

impl AddAssign for DeleteProgress {
    fn add_assign(&mut self, step: Self) {
        self.items += step.items;
        self.more = step.more;
    }
}

impl Batch {
    /// Adds a write of `value` under `key`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.push(WriteOp::Put { key, value });
    }

    /// Adds the removal of `key`.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.push(WriteOp::Delete { key });
    }

    /// Appends the writes of another batch.
    pub fn append(&mut self, other: Self) {
        self.writes.extend(other.writes);
    }

    /// Whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.operations() == 0
    }

    /// Number of writes.
    pub fn operations(&self) -> usize {
        self.writes.len()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|write| write.key().len() + write.value().len()).sum()
    }

    /// Checks the bounds that apply to every engine.
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
    /// The key.
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

/// Status of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Whether the store accepts commits.
    pub mode: StoreMode,
    /// Size of the store's files on disk, at most some seconds old.
    pub bytes_on_disk: u64,
    /// Commits since the store was created.
    pub commits: u64,
    /// Groups of commits written since the store was opened. Each group takes one sync.
    pub syncs: u64,
    /// Attempts to become writable again since it was opened.
    pub tries: u64,
    /// Number of the lease under which a store in a database is open: each takeover raises it. 0 for other stores.
    pub lease_epoch: u64,
    /// Duration of the last group of commits, from the first commit in it to the last answer, sync included,
    /// microseconds.
    pub last_commit_micros: u64,
    /// Groups of commits that had no answer from the database, and of which the store then found out whether they are there. 0 for
    /// stores that are not in a database.
    pub unknown_fates: u64,
    /// Acknowledged commits that failovers of the database lost since the store was created, as far as a server saw it. 0 for stores that
    /// are not in a database.
    pub commits_lost: u64,
    /// What the clock of the database showed, milliseconds since 1970, and when that was read. `None` for stores that are not in a
    /// database, and until it is known.
    pub database_clock: Option<(i64, Instant)>,
}

/// Whether a store accepts commits, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// The store accepts writes.
    #[default]
    Writable,
    /// The store does not accept writes.
    ReadOnly {
        /// Why the store accepts no commits, and what helps.
        reason: String,
    },
    /// Another server has taken the store, or its database lost commits, so what this server knows is no longer true. It accepts no commits
    /// any more.
    Taken {
        /// How that is known, and what helps.
        reason: String,
    },
}

impl StoreMode {
    /// Why the store accepts no commits; `None` if it does.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Writable => None,
            Self::ReadOnly { reason } | Self::Taken { reason } => Some(reason),
        }
    }
}

/// Identity of a store, and the number of its last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Version of the store's format.
    pub format: u32,
    /// Random id of the store, chosen when it was created.
    pub id: Ulid,
    /// Number of the store's last commit.
    pub sequence: u64,
}

/// A range of keys that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRange {
    /// The last readable key before the range; empty if the range starts with the store.
    pub after: KeyText,
    /// The first readable key after the range; `None` if the range ends with the store.
    pub until: Option<KeyText>,
    /// The engine's error when it read this range.
    pub reason: String,
}

impl std::fmt::Display for UnreadableRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = if self.after.0.is_empty() { "the start".to_owned() } else { self.after.to_string() };
        let end = self.until.as_ref().map_or_else(|| "the end".to_owned(), ToString::to_string);
        write!(f, "what lies between {start} and {end} cannot be read: {}", self.reason)
    }
}
