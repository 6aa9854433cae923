//! Drops from the front of a spool file what the server has, so that the file of a build of days stays small.
//!
//! The rest is copied to a new file, which takes the place of the old one in one rename: who looks sees one or the other, whole
//! and locked. The newest sample that the server has stays, because it says when the attempt ended if nobody sees its end.
//! A kill before the rename leaves the old file and a `.draft`, which a later run sweeps.
//!
//! An offset counts the bytes that were dropped, so it means the same record before and after.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use plimsoll_proto::v1::agent_message::Message;

use super::{
    record,
    room::DRAFT,
    spool::{Spool, lock},
};

/// Bytes that must be dropped for a copy to be worth it. A new file may also go beyond the bound of the directory by so much,
/// because a full directory is the one that needs room most.
const WORTH: u64 = 64 * 1024;
/// Bytes that are copied at most: a few milliseconds in which no sample is taken.
const COPY: u64 = 4 << 20;

/// What a spool file has at its front. Places are bytes of the file as it is, offsets count what was dropped before.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// Place of the first record after Hello.
    first: u64,
    /// Place of the newest record that the server has, as far as it was looked for.
    keep: u64,
    /// Bytes that were dropped.
    dropped: u64,
    /// Length at which to try again after a failure.
    not_before: u64,
}

impl Front {
    /// The front of a file from which nothing was dropped.
    pub(super) fn new(first: u64) -> Self {
        Self { first, keep: first, dropped: 0, not_before: 0 }
    }

    /// The place of an offset; that of the first record if what it means was dropped.
    pub(super) fn place(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.dropped).max(self.first)
    }

    /// The offset of a place.
    pub(super) fn offset(&self, place: u64) -> u64 {
        place.saturating_add(self.dropped)
    }
}

impl Spool {
    /// Drops what the server has up to number `acknowledged`, if it is worth it. A failure costs nothing but disk.
    pub(super) fn forget(&mut self, acknowledged: u64) {
        if self.len.saturating_sub(self.front.first) < WORTH || self.len < self.front.not_before {
            return;
        }
        self.look_for(acknowledged);
        let gain = self.front.keep.saturating_sub(self.front.first);
        let rest = self.len.saturating_sub(self.front.keep);
        if gain < WORTH || rest > gain.min(COPY) {
            return;
        }
        let len = self.front.first.saturating_add(rest);
        if len > WORTH && !self.room.admits(&self.path, self.len, len) {
            return;
        }
        let draft = self.path.with_extension(DRAFT);
        match self.copy(&draft, rest) {
            Ok(file) => {
                self.file = file;
                self.len = len;
                self.front.keep = self.front.first;
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
        let mut at = self.front.keep;
        while let Some((Message::Batch(batch), next)) = record::read_at(&self.file, at) {
            if batch.first_sequence > acknowledged {
                return;
            }
            self.front.keep = at;
            at = next;
        }
    }

    fn copy(&self, draft: &Path, rest: u64) -> io::Result<File> {
        let mut new = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(draft)?;
        lock(&new);
        for (from, bytes) in [(0, self.front.first), (self.front.keep, rest)] {
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
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use plimsoll_proto::v1::{Hello, Sample};
    use tempfile::TempDir;

    use super::*;
    use crate::delivery::{backlog::Backlog, room::list, spool::Found};

    fn hello() -> Hello {
        Hello { attempt: "a".to_owned(), session: "s".to_owned(), ..Hello::default() }
    }

    fn backlog(dir: &Path, bound: u64) -> Backlog {
        Backlog::new(hello(), Some(Spool::create(dir, bound, &hello()).unwrap()))
    }

    fn sample(number: u64) -> Sample {
        Sample { elapsed_ms: number * 1000, need_bytes: 1 << 30, cpu_usec: number << 20, ..Sample::default() }
    }

    fn file_bytes(backlog: &Backlog) -> u64 {
        fs::metadata(backlog.path().unwrap()).unwrap().size()
    }

    #[test]
    fn the_file_of_a_long_build_stays_small_while_the_server_keeps_up() {
        let dir = TempDir::new().unwrap();
        let mut backlog = backlog(dir.path(), 1 << 20);
        for number in 1..=100_000 {
            backlog.push(sample(number));
            // the server is ten samples behind
            backlog.acknowledge(number.saturating_sub(10));
            if number % 100 == 0 {
                assert!(file_bytes(&backlog) < 2 * WORTH, "{number}: {}", file_bytes(&backlog));
            }
        }
        assert_eq!((backlog.lost(), backlog.unspooled()), (0, 0));
        assert!(list(dir.path(), DRAFT).is_empty());
    }

    #[test]
    fn what_was_not_acknowledged_is_still_there_and_an_old_cursor_finds_it() {
        let dir = TempDir::new().unwrap();
        let mut backlog = backlog(dir.path(), 64 << 20);
        (1..=30_000).for_each(|number| backlog.push(sample(number)));
        let mut cursor = backlog.begin(0);
        let mut numbers = Vec::new();
        let whole = file_bytes(&backlog);
        while let Some(batch) = backlog.next_batch(&mut cursor) {
            numbers.extend(batch.first_sequence..batch.first_sequence + batch.samples.len() as u64);
            // acknowledged late, so that the cursor stands in the middle when the front goes
            backlog.acknowledge(cursor.sent.saturating_sub(3000));
        }
        assert!(file_bytes(&backlog) < whole / 2);
        assert_eq!(numbers, (1..=30_000).collect::<Vec<_>>());
        assert_eq!(backlog.lost(), 0);
    }

    #[test]
    fn a_killed_agent_leaves_what_the_server_has_not_and_the_time_of_its_end() {
        let dir = TempDir::new().unwrap();
        let mut left = backlog(dir.path(), 1 << 20);
        (1..=5000).for_each(|number| left.push(sample(number)));
        left.acknowledge(5000);
        assert!(file_bytes(&left) < WORTH);
        let path = left.path().unwrap().to_owned();
        assert!(matches!(Spool::adopt(&path).unwrap(), Found::Busy), "the new file is locked too");
        drop(left);
        let Found::Orphan(spool, mut contents) = Spool::adopt(&path).unwrap() else { panic!("no orphan") };
        while spool.look_through(&mut contents, 10) {}
        let mut orphan = Backlog::orphan(spool, *contents);
        let mut cursor = orphan.begin(5000);
        assert_eq!(orphan.next_batch(&mut cursor), None);
        let finish = orphan.finish_after(5000).unwrap();
        assert_eq!((finish.last_sequence, finish.lost, finish.wall_ms), (5000, 0, 5_000_000));
    }

    #[test]
    fn a_front_that_cannot_be_dropped_costs_nothing_but_disk() {
        let dir = TempDir::new().unwrap();
        let mut backlog = backlog(dir.path(), 64 << 20);
        // in the way of the draft
        fs::create_dir(backlog.path().unwrap().with_extension(DRAFT)).unwrap();
        (1..=5000).for_each(|number| backlog.push(sample(number)));
        backlog.acknowledge(4000);
        assert!(file_bytes(&backlog) > 2 * WORTH);
        let mut cursor = backlog.begin(4000);
        let batch = backlog.next_batch(&mut cursor).unwrap();
        assert_eq!((batch.first_sequence, batch.samples.len(), batch.lost), (4001, 1000, 0));
    }
}
