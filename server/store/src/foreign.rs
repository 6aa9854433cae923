//! A fuzz target: bytes of a data directory with a right checksum and arbitrary content.

use plimsoll_core::{
    domain::{Attempt, Summary, Verdict},
    fuzz::{Target, target},
};

use super::{bytes, chunk, codec::Record as _};

/// The targets of this crate.
pub const TARGETS: [Target; 1] = [target("record", read)];

/// Decodes bytes as a record or as samples, chosen by the first byte. Decoded values must encode again.
fn read(stored: &[u8]) {
    let [kind, codec, body @ ..] = stored else { return };
    let mut again = Vec::new();
    let written = match kind % 4 {
        0 => Attempt::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        1 => Summary::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        2 => Verdict::unpack(*codec, body).ok().map(|record| record.pack(&mut again).is_ok()),
        _ => {
            let sealed = bytes::with_checksum([&[*codec], body].concat());
            chunk::decode(1, &sealed).ok().map(|runs| runs.iter().all(|run| run.end() >= run.start()))
        }
    };
    assert!(written.unwrap_or(true), "what was read cannot be written");
}

/// One example of each kind.
#[expect(clippy::unwrap_used, reason = "a fixture that is wrong may end its test")]
pub fn examples() -> Vec<(&'static str, Vec<u8>)> {
    use plimsoll_core::domain::{Millis, Sample, test_summary};

    let mut summary = vec![1];
    test_summary("7", "zlib", "1", 270).pack(&mut summary).unwrap();
    let samples = (1..200).map(|n| Sample { elapsed: Millis(n * 1000), ..Sample::default() }).collect();
    let mut examples = vec![("summary", summary)];
    let runs = vec![super::SampleRun { first_sequence: 1, lost: 0, samples }];
    for (name, effort) in
        [("fragment", chunk::CompressionEffort::Fast), ("block", chunk::CompressionEffort::Smallest)]
    {
        let encoded = chunk::encode_all(runs.clone(), effort).unwrap();
        let stored = encoded.first().map(|one| one.bytes.clone()).unwrap_or_default();
        // without its checksum, which the target computes
        let content = stored.get(..stored.len() - 4).unwrap_or_default();
        examples.push((name, [&[3], content].concat()));
    }
    examples
}
