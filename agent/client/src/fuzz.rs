//! Parsers of untrusted bytes as functions, which the fuzz targets in `tests/fuzz/` call.

/// Reads these bytes as a spool file that an earlier run left.
pub fn spool(bytes: &[u8]) {
    crate::delivery::fuzzed::read(bytes);
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{self as pb, agent_message::Message};
    use prost::Message as _;

    /// The spool file of an agent that was killed: an attempt, samples, and its end.
    fn left() -> Vec<u8> {
        let hello = pb::Hello {
            attempt: "gitlab.example:7".into(),
            session: "one".into(),
            key: Some(pb::Key { package: "zlib".into(), ..pb::Key::default() }),
            number: 1,
            ..pb::Hello::default()
        };
        let sample =
            |n: u64| pb::Sample { elapsed_ms: n * 1000, memory_bytes: n << 20, ..pb::Sample::default() };
        let batch = |n| pb::Batch { first_sequence: n, samples: vec![sample(n)], ..pb::Batch::default() };
        let finish = pb::Finish { last_sequence: 4, wall_ms: 9000, ..pb::Finish::default() };
        let mut file = b"plimsoll\0\0\0\x01".to_vec();
        let messages = std::iter::once(Message::Hello(hello))
            .chain((1..5).map(|n| Message::Batch(batch(n))))
            .chain([Message::Finish(finish)]);
        for message in messages {
            let payload = pb::AgentMessage { message: Some(message) }.encode_to_vec();
            file.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
            file.extend(crc32fast::hash(&payload).to_be_bytes());
            file.extend(payload);
        }
        file
    }

    #[test]
    fn the_corpus_matches_what_agents_write() {
        let corpus =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus/spool/left");
        super::spool(&left());
        assert_eq!(std::fs::read(corpus).unwrap(), left());
    }
}
