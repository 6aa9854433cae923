//! Drops the samples that the server has from the front of a spool file, so that the file of a build that runs for days stays small.
//!
//! The rest is copied to a new file, which replaces the old one by a rename: a reader sees one or the other file, complete and locked. The
//! newest sample that the server has is kept, because its time is the end of the attempt if the end of the build is not seen. A kill before
//! the rename leaves the old file and a `.draft` file, which a later run removes.
//!
//! Offsets also count the bytes that were dropped, so an offset means the same record before and after.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use plimsoll_base::own_files;
use plimsoll_proto::v1::agent_message::Message;

use super::{
    quota::DRAFT_SUFFIX,
    record,
    spool::{Spool, lock},
};

/// Least number of bytes to drop for which a copy is worth its cost. The new file may exceed the directory's limit by this much, because a
/// full directory needs the space most.
const WORTH_DROPPING_BYTES: u64 = 64 * 1024;
/// Most bytes that are copied. A copy of that many takes a few milliseconds, in which no sample is taken.
const MAX_COPIED_BYTES: u64 = 4 << 20;

impl Spool {
    /// Drops the samples up to number `acknowledged`, if they are large enough. If that fails, the file only stays larger.
    pub(super) fn drop_acknowledged(&mut self, acknowledged: u64) {
        if self.len.saturating_sub(self.front.first_record_at) < WORTH_DROPPING_BYTES
            || self.len < self.front.not_before
        {
            return;
        }
        self.find_acknowledged(acknowledged);
        let gain = self.front.acknowledged_at.saturating_sub(self.front.first_record_at);
        let rest = self.len.saturating_sub(self.front.acknowledged_at);
        if gain < WORTH_DROPPING_BYTES || rest > gain.min(MAX_COPIED_BYTES) {
            return;
        }
        let len = self.front.first_record_at.saturating_add(rest);
        if len > WORTH_DROPPING_BYTES && !self.quota.admits(&self.path, self.len, len) {
            return;
        }
        let draft = self.path.with_extension(DRAFT_SUFFIX);
        match self.copy_rest(&draft, rest) {
            Ok(file) => {
                self.file = file;
                self.len = len;
                self.front.acknowledged_at = self.front.first_record_at;
                self.front.dropped = self.front.dropped.saturating_add(gain);
                self.quota.note_shrunk(len);
            }
            Err(error) => {
                tracing::debug!(path = %draft.display(), %error, "cannot drop acknowledged samples");
                drop(fs::remove_file(&draft));
                self.front.not_before = self.len.saturating_add(WORTH_DROPPING_BYTES);
            }
        }
    }

    /// Moves `acknowledged_at` to the newest record that the server has. Each record is read at most twice.
    fn find_acknowledged(&mut self, acknowledged: u64) {
        let mut at = self.front.acknowledged_at;
        while let Some((Message::Batch(batch), next)) = record::read_at(&self.file, at) {
            if batch.first_sequence > acknowledged {
                return;
            }
            self.front.acknowledged_at = at;
            at = next;
        }
    }

    fn copy_rest(&self, draft: &Path, rest: u64) -> io::Result<File> {
        let mut new = own_files::create_new(draft)?;
        lock(&new);
        for (from, bytes) in [(0, self.front.first_record_at), (self.front.acknowledged_at, rest)] {
            let mut old = &self.file;
            old.seek(SeekFrom::Start(from))?;
            if io::copy(&mut old.take(bytes), &mut new)? < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        fs::rename(draft, &self.path)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests;
