//! A walk over the messages of one segment.

use super::message::{LogMessage, MessageKind, SEGMENT, SEGMENT_HEADER, may_begin, message_at};

/// What a walk over a segment meets.
#[derive(Debug)]
pub(super) enum WalkStep<'a> {
    Message(usize, LogMessage<'a>),
    /// From here to there nothing can be read. `overwritten` if what stands there is of another segment.
    Gap {
        from: usize,
        to: usize,
        overwritten: bool,
        inside: bool,
    },
}

/// Walks over the messages of the segment with this number.
pub(super) fn walk<'a>(bytes: &'a [u8], number: u64, mut take: impl FnMut(WalkStep<'a>)) {
    let mut at = SEGMENT_HEADER;
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
        let (to, inside) = (next.unwrap_or(SEGMENT), next.is_some());
        take(WalkStep::Gap { from: at, to, overwritten, inside });
        at = to;
    }
}

/// Where the next message of this segment begins, and whether one of another segment stands before it.
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
