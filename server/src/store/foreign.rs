//! Bytes of a data directory whose checksum is right and whose content is anything, for fuzzing.

use super::{bytes, chunk, codec::Record as _};
use crate::domain::{Attempt, Summary, Verdict};

/// Reads them as a record, or as samples, by the first byte. What can be read can be written again.
pub(crate) fn read(stored: &[u8]) {
    let [kind, codec, body @ ..] = stored else { return };
    let mut again = Vec::new();
    let written = match kind % 4 {
        0 => Attempt::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        1 => Summary::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        2 => Verdict::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        _ => {
            let sealed = bytes::seal([&[*codec], body].concat());
            chunk::decode(1, &sealed).ok().map(|runs| runs.iter().all(|run| run.end() >= run.start()))
        }
    };
    debug_assert!(written.unwrap_or(true), "what was read cannot be written");
}
