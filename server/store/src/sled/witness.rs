//! The witness: a small file beside the engine with the last acknowledged commit.
//!
//! sled takes an unreadable record for the end of its log, and drops what follows it. The marker would show
//! that commits are missing, but it is too expensive to write at every commit. The witness is cheap: it is
//! written after each group of commits, when the engine has synced and before the answers are sent, and is not
//! synced itself. After the process is killed it is exact, because the kernel has the write. After a power cut
//! it may be too low, but never too high. `FORMAT.md` has its bytes.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

use plimsoll_base::own_files;
use ulid::Ulid;

use super::{marker::sync_dir, open_error::OpenError};
use crate::{bytes, kv::StoreIdentity};

/// Name of the file in the data directory.
pub(crate) const WITNESS_FILE: &str = "plimsoll.last";
/// Size of a slot. Each slot has a disk sector of its own, so an interrupted write damages one slot and leaves
/// the other.
const SLOT_BYTES: usize = 512;
/// Bytes used in a slot: store id, number of the commit, checksum.
const RECORD_BYTES: usize = 16 + 8 + 4;
/// Number of slots, which are written in turn.
const SLOTS: usize = 2;

/// The open witness file.
#[derive(Debug)]
pub(crate) struct CommitWitness {
    file: File,
    /// Index of the slot that was written last; the next write goes to the other.
    last_slot: usize,
}

impl CommitWitness {
    /// The last commit that the witness records for this store. `None` if the witness belongs to another store
    /// or its slots cannot be decoded.
    /// Errors: the file exists and cannot be read at all.
    pub(crate) fn read(dir: &Path, store: Ulid) -> Result<Option<u64>, OpenError> {
        let path = dir.join(WITNESS_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io("read", path)(error)),
        };
        Ok(bytes.chunks(SLOT_BYTES).take(SLOTS).filter_map(|slot| decode(slot, store)).max())
    }

    /// Opens the witness file, and creates it if needed. Writes `identity` to both slots, and syncs.
    /// Errors: the file cannot be written.
    pub(crate) fn begin(dir: &Path, identity: StoreIdentity) -> Result<Self, OpenError> {
        let path = dir.join(WITNESS_FILE);
        let file = own_files::open_or_create(&path).map_err(OpenError::io("create", &path))?;
        let slot = encode(identity);
        let written = file.write_all_at(&slot.repeat(SLOTS), 0).and_then(|()| file.sync_all());
        written.map_err(OpenError::io("write", &path))?;
        sync_dir(dir)?;
        Ok(Self { file, last_slot: 0 })
    }

    /// Records the last commit. Call this after the engine's sync and before any answer is sent.
    /// Errors: the write failed. The witness keeps an older commit, which is safe.
    pub(crate) fn record_commit(&mut self, identity: StoreIdentity) -> io::Result<()> {
        self.last_slot = (self.last_slot + 1) % SLOTS;
        self.file.write_all_at(&encode(identity), (self.last_slot * SLOT_BYTES) as u64)
    }
}

fn encode(identity: StoreIdentity) -> Vec<u8> {
    let mut slot =
        bytes::with_checksum([&identity.id.to_bytes()[..], &identity.sequence.to_be_bytes()].concat());
    slot.resize(SLOT_BYTES, 0);
    slot
}

fn decode(slot: &[u8], store: Ulid) -> Option<u64> {
    let filled = slot.get(..RECORD_BYTES)?;
    bytes::checked(filled).ok()?;
    let (id, rest) = filled.split_first_chunk()?;
    let (sequence, _crc) = rest.split_first_chunk()?;
    (Ulid::from_bytes(*id) == store).then_some(u64::from_be_bytes(*sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(sequence: u64) -> StoreIdentity {
        StoreIdentity { format: 1, id: Ulid::from_parts(1, 2), sequence }
    }

    #[test]
    fn a_torn_note_leaves_the_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let read = || CommitWitness::read(dir.path(), identity(0).id).unwrap();
        assert_eq!(read(), None);
        let mut witness = CommitWitness::begin(dir.path(), identity(7)).unwrap();
        for sequence in 8..12 {
            witness.record_commit(identity(sequence)).unwrap();
            assert_eq!(read(), Some(sequence));
            let path = dir.path().join(WITNESS_FILE);
            let whole = std::fs::read(&path).unwrap();
            let mut torn = whole.clone();
            torn[witness.last_slot * SLOT_BYTES + 20] ^= 1;
            std::fs::write(&path, torn).unwrap();
            assert_eq!(read(), Some(sequence - 1));
            std::fs::write(&path, whole).unwrap();
        }
        assert_eq!(CommitWitness::read(dir.path(), Ulid::from_parts(3, 4)).unwrap(), None, "another store's");
        std::fs::write(dir.path().join(WITNESS_FILE), [0; 2 * SLOT_BYTES]).unwrap();
        assert_eq!(read(), None, "a file of zeros, as a power cut may leave it");
    }
}
