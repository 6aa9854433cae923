//! Iterates over the messages of one segment.

use super::message::{LogMessage, MessageKind, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, may_begin, message_at};

/// One step of reading a segment.
#[derive(Debug)]
pub(super) enum WalkStep<'a> {
    Message(usize, LogMessage<'a>),
    /// This range of the segment has no readable message. `overwritten` is true if it has bytes of another
    /// segment.
    Gap {
        from: usize,
        to: usize,
        overwritten: bool,
        inside: bool,
    },
}

/// Passes the messages and gaps of the segment with this number to `take`, in order.
pub(super) fn walk<'a>(bytes: &'a [u8], number: u64, mut take: impl FnMut(WalkStep<'a>)) {
    let mut at = SEGMENT_HEADER_BYTES;
    while may_begin(at) {
        if let Some(message) = message_at(bytes, at).filter(|message| message.segment == number) {
            if message.kind == MessageKind::Cap {
                return;
            }
            take(WalkStep::Message(at, message));
            at = message.end();
            continue;
        }
        let (next, overwritten) = next_message(bytes, at + 1, number);
        let (to, inside) = (next.unwrap_or(SEGMENT_BYTES), next.is_some());
        take(WalkStep::Gap { from: at, to, overwritten, inside });
        at = to;
    }
}

/// Start of the next message of this segment, and whether a message of another segment was found before it.
fn next_message(bytes: &[u8], from: usize, number: u64) -> (Option<usize>, bool) {
    let mut overwritten = false;
    for at in from..bytes.len() {
        match message_at(bytes, at) {
            Some(message) if message.segment == number => return (Some(at), overwritten),
            Some(_other) => overwritten = true,
            None => {}
        }
    }
    (None, overwritten)
}
