//! Keeps the end of the build's log: as many bytes as a request may have, and before them enough to find a
//! secret that the cut would split.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use plimsoll_proto::limits;

use crate::key::SECRET_BYTES;

/// Most bytes kept: the length of a request's log, plus the length of the longest secret.
const HELD_BYTES: usize = limits::LOG_TAIL_BYTES + SECRET_BYTES;

/// The last bytes of standard output and standard error together, in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct LogTail(Mutex<VecDeque<u8>>);

impl LogTail {
    /// Adds bytes, and drops the oldest ones if there are too many.
    pub(super) fn push(&self, bytes: &[u8]) {
        let newest = bytes.len().saturating_sub(HELD_BYTES);
        let bytes = bytes.get(newest..).unwrap_or_default();
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond = tail.len().saturating_add(bytes.len()).saturating_sub(HELD_BYTES);
        tail.drain(..beyond);
        tail.extend(bytes);
    }

    /// Returns a copy of the bytes that are kept.
    pub(super) fn copy(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_stay_whatever_their_pieces() {
        let all: Vec<u8> = (0..3 * HELD_BYTES).map(|n| u8::try_from(n % 251).unwrap()).collect();
        for piece in [7, 4096, HELD_BYTES, all.len()] {
            let tail = LogTail::default();
            all.chunks(piece).for_each(|bytes| tail.push(bytes));
            assert!(tail.copy() == all[all.len() - HELD_BYTES..], "{piece}");
        }
        let tail = LogTail::default();
        tail.push(b"short");
        assert_eq!(tail.copy(), b"short");
    }
}
