//! Drops from the front of a spool file what the server has, so that the file of a build of days stays small.
//!
//! The rest is copied to a new file, which takes the place of the old one in one rename: a reader sees one or the other, whole
//! and locked. The newest sample that the server has stays, because it says when the attempt ended if its end is not seen.
//! A kill before the rename leaves the old file and a `.draft`, which a later run sweeps.
//!
//! An offset counts the bytes that were dropped, so it means the same record before and after.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use plimsoll_proto::{own_files, v1::agent_message::Message};

use super::{
    quota::DRAFT,
    record,
    spool::{Spool, lock},
};

/// Bytes that must be dropped for a copy to be worth it. A new file may also go beyond the bound of the directory by so much,
/// because a full directory is the one that needs room most.
const WORTH: u64 = 64 * 1024;
/// Bytes that are copied at most: a few milliseconds in which no sample is taken.
const COPY: u64 = 4 << 20;

impl Spool {
    /// Drops what the server has up to number `acknowledged`, if it is worth it. A failure costs nothing but disk.
    pub(super) fn forget(&mut self, acknowledged: u64) {
        if self.len.saturating_sub(self.front.first_record_at) < WORTH || self.len < self.front.not_before {
            return;
        }
        self.look_for(acknowledged);
        let gain = self.front.acknowledged_at.saturating_sub(self.front.first_record_at);
        let rest = self.len.saturating_sub(self.front.acknowledged_at);
        if gain < WORTH || rest > gain.min(COPY) {
            return;
        }
        let len = self.front.first_record_at.saturating_add(rest);
        if len > WORTH && !self.room.admits(&self.path, self.len, len) {
            return;
        }
        let draft = self.path.with_extension(DRAFT);
        match self.copy(&draft, rest) {
            Ok(file) => {
                self.file = file;
                self.len = len;
                self.front.acknowledged_at = self.front.first_record_at;
                self.front.dropped = self.front.dropped.saturating_add(gain);
                self.room.shrank(len);
            }
            Err(error) => {
                tracing::debug!(path = %draft.display(), %error, "cannot drop acknowledged samples");
                drop(fs::remove_file(&draft));
                self.front.not_before = self.len.saturating_add(WORTH);
            }
        }
    }

    /// Moves on to the newest record that the server has. Each record is looked at once or twice.
    fn look_for(&mut self, acknowledged: u64) {
        let mut at = self.front.acknowledged_at;
        while let Some((Message::Batch(batch), next)) = record::read_at(&self.file, at) {
            if batch.first_sequence > acknowledged {
                return;
            }
            self.front.acknowledged_at = at;
            at = next;
        }
    }

    fn copy(&self, draft: &Path, rest: u64) -> io::Result<File> {
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
