//! The bounds of keys, values and commits, for every engine.

/// Longest key, bytes.
pub const MAX_KEY: usize = 256;
/// Bytes that an engine may put in front of a value for its version.
pub(crate) const VERSION_BYTES: usize = 8;
/// Longest value, bytes. A value and its version together have at most 4 KiB: sled stores larger values in
/// separate files, which it never syncs.
pub const MAX_VALUE: usize = 4096 - VERSION_BYTES;
/// Most writes in one commit.
pub const BATCH_OPERATIONS: usize = 1024;
/// Most bytes of one commit, keys and values.
pub const BATCH_BYTES: usize = 1 << 20;
