//! The memory and CPU that an attempt requested. A size that is too small for any build, or larger than any machine, does not count as a
//! request: it is shown as it was written, but left out of ratios and sums.

use crate::{figures, limits, v1::Resources};

/// Least memory that counts as a request, bytes: 1 MiB. Even a shell that only waits needs half of it. A smaller value was entered only
/// because a form required a number (0, or 1 byte), and the ratio of a need to it has no meaning.
pub const MIN_ASK_BYTES: u64 = 1 << 20;

/// Whether a build can be given this much memory: from [`MIN_ASK_BYTES`] to below [`limits::MEMORY_BYTES`]. No machine has more, so
/// larger values mean "no limit".
#[must_use]
pub fn is_valid_memory(bytes: u64) -> bool {
    (MIN_ASK_BYTES..limits::MEMORY_BYTES).contains(&bytes)
}

/// The memory that an attempt reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedMemory {
    /// The size in bytes ([`is_valid_memory`]).
    pub bytes: u64,
    /// Whether the size is the limit, because there was no request.
    pub is_limit: bool,
}

/// The requested memory as it was written, valid or not: the request, else the limit.
fn written_ask(resources: Option<&Resources>) -> Option<RequestedMemory> {
    let resources = resources?;
    let request = resources.memory_request_bytes.map(|bytes| RequestedMemory { bytes, is_limit: false });
    request.or_else(|| resources.memory_limit_bytes.map(|bytes| RequestedMemory { bytes, is_limit: true }))
}

/// The memory that an attempt requested: the request, else the limit. `None` if it has neither, or the size is not one that a build can be
/// given.
pub fn memory_asked(resources: Option<&Resources>) -> Option<RequestedMemory> {
    written_ask(resources).filter(|asked| is_valid_memory(asked.bytes))
}

/// Words for the requested memory: `2.00 GiB, limit 3.00 GiB`, `120 MiB, its limit`, `nothing`, `nothing (1 B is no size), no limit`.
pub fn memory_asked_words(resources: Option<&Resources>) -> String {
    let Some(RequestedMemory { bytes, is_limit }) = written_ask(resources) else {
        return "nothing".to_owned();
    };
    let limit = resources.and_then(|resources| resources.memory_limit_bytes);
    let limit = match limit {
        _ if is_limit => String::new(),
        None => ", no limit".to_owned(),
        Some(limit) => format!(", limit {}", figures::bytes(limit)),
    };
    match (is_valid_memory(bytes), is_limit) {
        (true, true) => format!("{}, its limit", figures::bytes(bytes)),
        (true, false) => figures::bytes(bytes) + &limit,
        (false, _) => format!("nothing ({} is no size){limit}", figures::bytes(bytes)),
    }
}
