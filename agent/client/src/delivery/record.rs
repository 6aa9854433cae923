//! One record of a spool file: its bytes, and how damage to them is detected.

use std::{fs::File, os::unix::fs::FileExt as _};

use plimsoll_proto::{
    limits,
    v1::{AgentMessage, agent_message::Message},
};
use prost::Message as _;

/// Number of bytes before the payload.
const HEAD_BYTES: usize = 8;

/// Encodes a message as a record.
pub(super) fn encode(message: Message) -> Vec<u8> {
    let payload = AgentMessage { message: Some(message) }.encode_to_vec();
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(HEAD_BYTES.saturating_add(payload.len()));
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(&crc32fast::hash(&payload).to_be_bytes());
    record.extend_from_slice(&payload);
    record
}

/// Reads the record at `offset`; also returns the offset of the next record. `None` at the end of the file, and if the record is truncated
/// or damaged: nothing after it can be read then, because its length is not reliable.
pub(super) fn read_at(file: &File, offset: u64) -> Option<(Message, u64)> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, offset).ok()?;
    let (length, crc) = head.split_at_checked(4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    let crc = u32::from_be_bytes(crc.try_into().ok()?);
    let mut payload = vec![0; usize::try_from(length).ok().filter(|bytes| *bytes <= limits::MESSAGE_BYTES)?];
    let start = offset.checked_add(HEAD_BYTES as u64)?;
    file.read_exact_at(&mut payload, start).ok()?;
    if crc32fast::hash(&payload) != crc {
        return None;
    }
    let message = AgentMessage::decode(payload.as_slice()).ok()?.message?;
    Some((message, start.checked_add(u64::from(length))?))
}
