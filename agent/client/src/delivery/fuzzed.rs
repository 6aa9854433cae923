//! A spool file that anything may have written: what a fuzzer calls. It must not panic, hang, or hold more than a small multiple of its input.

use std::{fs::File, io::Write as _, path::Path};

use plimsoll_proto::limits;
use rustix::fs::{MemfdFlags, memfd_create};

use super::spool::{AdoptedSpool, BatchBounds, Spool};

/// Bytes before the first record, and before the payload of each.
const MAGIC_BYTES: usize = 12;
const HEAD_BYTES: usize = 8;
/// Records that are read of one file.
const MAX_RECORDS: usize = 100_000;

/// Reads a file as it is, and once more with corrected checksums: with wrong checksums, reading would stop at the first record.
pub(crate) fn read(bytes: &[u8]) {
    look(bytes);
    let mut summed = bytes.to_vec();
    let mut at = MAGIC_BYTES;
    while let Some(next) = sum(&mut summed, at) {
        at = next;
    }
    look(&summed);
}

/// Puts the sum of the record at `at` right; where the next one begins.
fn sum(file: &mut [u8], at: usize) -> Option<usize> {
    let (head, rest) = file.get_mut(at..)?.split_at_mut_checked(HEAD_BYTES)?;
    let (length, sum) = head.split_at_mut_checked(4)?;
    let length = u32::from_be_bytes((&*length).try_into().ok()?) as usize;
    sum.copy_from_slice(&crc32fast::hash(rest.get(..length)?).to_be_bytes());
    at.checked_add(HEAD_BYTES)?.checked_add(length)
}

fn look(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    let AdoptedSpool::Orphan(spool, mut contents) = Spool::classify_file(file, Path::new("spool")) else {
        return;
    };
    let more = spool.look_through(&mut contents, MAX_RECORDS);
    assert!(!more || bytes.len() > MAX_RECORDS, "a file comes to an end");
    let bounds = BatchBounds { samples: 1000, bytes: limits::MESSAGE_BYTES };
    let mut offset = 0;
    let run = spool.read_run(&mut offset, 1, u64::MAX, bounds);
    let mut numbers = run.iter().map(|(number, _)| *number);
    let first = numbers.next();
    let has_gap = first.is_some_and(|first| (first.saturating_add(1)..).zip(numbers).any(|(n, m)| n != m));
    assert!(!has_gap, "a run has no gap");
}

/// A file of memory; `None` where there can be no more files.
fn file(bytes: &[u8]) -> Option<File> {
    let mut file = File::from(memfd_create("spool", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(bytes).ok()?;
    Some(file)
}
