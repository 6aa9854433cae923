//! Limits HTTP/2 frames that carry no message. Each costs the server a little work, so that a
//! client that sends them without end would keep a core busy for ever, and no limit of the HTTP/2
//! library stops it. Such frames are paid for with credit; the connection is closed when the client
//! has none left. This module only counts; [`Metered`] applies it to a connection.
//!
//! Only the nine bytes at the start of each frame are read (RFC 9113, section 4.1); the payload is
//! skipped by its length.
//!
//! | frame | effect |
//! |---|---|
//! | HEADERS, DATA with bytes | a message: brings credit |
//! | DATA that ends a stream, CONTINUATION with bytes | part of a message: neither |
//! | SETTINGS, PING, PRIORITY, `RST_STREAM`, `WINDOW_UPDATE`, GOAWAY, DATA and CONTINUATION without bytes, DATA with padding, others | costs credit |
//!
//! Bytes that the server writes bring credit, too: a client that reads an answer sends window
//! updates and pings, even if it sends no message.
//!
//! Nothing of this brings credit before a request of the connection was admitted. Until then
//! HEADERS cost credit, because each is answered with a refusal.

mod metered;

use std::time::Duration;

pub(crate) use metered::Metered;
use tokio::time::Instant;

/// Kind of closed connections, in metrics.
pub(crate) const CONTROL_FRAMES: &str = "control_frames";

/// What a frame without a message costs. It is above the bytes of its answer (17 for a ping, 9 for
/// settings), so that no such frame pays for another.
const FRAME_COST: i64 = 64;
/// What a message brings: a client may cancel the call, send two window updates and a ping for it,
/// and no client sends more.
const MESSAGE_CREDIT: i64 = 4 * FRAME_COST;
/// What each byte brings that the server writes: a client sends a window update for thousands of
/// them, and a ping after a frame.
const BYTE_CREDIT: i64 = 1;
/// What a second brings: clients ping every few seconds, and a proxy with many of them on one
/// connection pings not much more often.
const SECOND_CREDIT: i64 = 100 * FRAME_COST;
/// Credit of a new connection. Clients begin with a few frames, and reconnecting for more credit
/// costs a client a handshake.
const START_CREDIT: i64 = 1000 * FRAME_COST;
/// Most credit: a client that sent a thousand requests may cancel all of them at once.
const MAX_CREDIT: i64 = 20_000 * FRAME_COST;

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
pub(super) const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame before its payload.
const FRAME_HEAD_BYTES: usize = 9;

const DATA_FRAME: u8 = 0;
const HEADERS_FRAME: u8 = 1;
const CONTINUATION_FRAME: u8 = 9;
const END_STREAM_FLAG: u8 = 1;
const PADDED_FLAG: u8 = 8;

/// The client has sent too many frames that carry no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many frames of HTTP/2 without a message")]
pub(crate) struct Flood;

/// Position of the next byte from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramePosition {
    /// The next byte is in the preface, after this many bytes of it.
    Preface(usize),
    /// The next byte is in the head of a frame, after this many bytes of it.
    Head(usize),
    /// The next byte is in the payload of a frame, which has this many bytes left.
    Payload(usize),
    /// The client does not speak HTTP/2.
    Elsewhere,
}

/// Counts the frames of one client.
#[derive(Debug)]
pub(crate) struct FrameMeter {
    position: FramePosition,
    head_bytes: [u8; FRAME_HEAD_BYTES],
    credit_left: i64,
    /// Time up to which seconds have brought credit.
    since: Instant,
    /// Whether a request was admitted: from then on messages and written bytes bring credit.
    is_admitted: bool,
}

impl FrameMeter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            position: FramePosition::Preface(0),
            head_bytes: [0; FRAME_HEAD_BYTES],
            credit_left: START_CREDIT,
            since: now,
            is_admitted: false,
        }
    }

    /// Call it when a request of the connection was admitted.
    pub(crate) fn mark_admitted(&mut self) {
        self.is_admitted = true;
    }

    /// Counts bytes that the server has written.
    pub(crate) fn note_written(&mut self, bytes: usize) {
        self.earn(i64::try_from(bytes).unwrap_or(MAX_CREDIT).saturating_mul(BYTE_CREDIT));
    }

    /// Counts bytes that the client has sent.
    ///
    /// # Errors
    /// The client has no credit left.
    pub(crate) fn note_received(&mut self, mut bytes: &[u8]) -> Result<(), Flood> {
        while !bytes.is_empty() {
            let used = match self.position {
                FramePosition::Elsewhere => return Ok(()),
                FramePosition::Preface(behind) => self.read_preface(behind, bytes),
                FramePosition::Head(behind) => self.read_head(behind, bytes)?,
                FramePosition::Payload(left) => self.skip_payload(left, bytes.len()),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    fn read_preface(&mut self, behind: usize, bytes: &[u8]) -> usize {
        let expected = PREFACE.get(behind..).unwrap_or_default();
        let used = expected.len().min(bytes.len());
        self.position = match behind + used {
            _ if bytes.get(..used) != expected.get(..used) => FramePosition::Elsewhere,
            all if all == PREFACE.len() => FramePosition::Head(0),
            some => FramePosition::Preface(some),
        };
        used
    }

    /// Skips bytes of the body of a frame; returns how many. `left`: the bytes of the body that have not come yet.
    fn skip_payload(&mut self, left: usize, bytes: usize) -> usize {
        let used = left.min(bytes);
        self.position =
            if used == left { FramePosition::Head(0) } else { FramePosition::Payload(left - used) };
        used
    }

    fn read_head(&mut self, behind: usize, bytes: &[u8]) -> Result<usize, Flood> {
        let used = (FRAME_HEAD_BYTES - behind).min(bytes.len());
        if let Some((to, from)) = self.head_bytes.get_mut(behind..behind + used).zip(bytes.get(..used)) {
            to.copy_from_slice(from);
        }
        self.position = FramePosition::Head(behind + used);
        if behind + used == FRAME_HEAD_BYTES {
            let [high, middle, low, kind, flags, ..] = self.head_bytes;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            self.position = if length == 0 { FramePosition::Head(0) } else { FramePosition::Payload(length) };
            self.count_frame(kind, flags, length)?;
        }
        Ok(used)
    }

    fn count_frame(&mut self, kind: u8, flags: u8, length: usize) -> Result<(), Flood> {
        match kind {
            HEADERS_FRAME if self.is_admitted => self.earn(MESSAGE_CREDIT),
            DATA_FRAME if length > 0 && flags & PADDED_FLAG == 0 => self.earn(MESSAGE_CREDIT),
            DATA_FRAME if flags & END_STREAM_FLAG != 0 => {}
            CONTINUATION_FRAME if length > 0 => {}
            _ => return self.pay_for_frame(),
        }
        Ok(())
    }

    /// Adds credit, if a request was admitted.
    fn earn(&mut self, credit: i64) {
        if self.is_admitted {
            self.add_credit(credit);
        }
    }

    fn add_credit(&mut self, credit: i64) {
        self.credit_left = self.credit_left.saturating_add(credit).min(MAX_CREDIT);
    }

    /// Takes the cost of a frame. The clock is read only if there is no credit left.
    fn pay_for_frame(&mut self) -> Result<(), Flood> {
        self.credit_left -= FRAME_COST;
        if self.credit_left >= 0 {
            return Ok(());
        }
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.since).min(Duration::from_mins(10));
        self.since = now;
        self.add_credit(
            i64::try_from(passed.as_millis()).unwrap_or(MAX_CREDIT).saturating_mul(SECOND_CREDIT) / 1000,
        );
        if self.credit_left >= 0 { Ok(()) } else { Err(Flood) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let head = [0, 0, length, kind, flags, 0, 0, 0, 1];
        // a payload that looks like heads of frames is none
        [&head[..], &vec![SETTINGS; length.into()]].concat()
    }

    fn begun() -> FrameMeter {
        let mut frames = FrameMeter::new(Instant::now());
        frames.note_received(&PREFACE).unwrap();
        frames.mark_admitted();
        frames
    }

    /// How many of these are taken.
    fn taken(frames: &mut FrameMeter, bytes: &[u8]) -> usize {
        (0..100_000).take_while(|_| frames.note_received(bytes).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_carry_nothing_are_bounded_whatever_they_are() {
        for bytes in [
            frame(SETTINGS, 0, 6),
            frame(PING, 0, 8),
            frame(2, 0, 5),
            frame(3, 0, 4),
            frame(7, 0, 8),
            frame(WINDOW_UPDATE, 0, 4),
            frame(DATA_FRAME, 0, 0),
            frame(DATA_FRAME, PADDED_FLAG, 1),
            frame(CONTINUATION_FRAME, 0, 0),
            frame(99, 0, 3),
        ] {
            assert_eq!(taken(&mut begun(), &bytes), 1000, "{bytes:?}");
        }
        let mut frames = begun();
        (0..1000).for_each(|_| frames.note_received(&frame(PING, 0, 8)).unwrap());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(taken(&mut frames, &frame(PING, 0, 8)), 200, "a second brings a hundred");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_a_client_that_was_let_in_nowhere_are_bounded_as_such_frames_are() {
        let knocking = || {
            let mut frames = FrameMeter::new(Instant::now());
            frames.note_received(&PREFACE).unwrap();
            frames
        };
        let mut frames = knocking();
        let asked = (0..100_000).take_while(|_| {
            // what it is refused with
            frames.note_written(150);
            frames.note_received(&[frame(HEADERS_FRAME, 5, 30), frame(DATA_FRAME, 0, 20)].concat()).is_ok()
        });
        assert_eq!(asked.count(), 1000);
        let mut frames = knocking();
        (0..1000).for_each(|_| frames.note_received(&frame(HEADERS_FRAME, 5, 30)).unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            taken(&mut frames, &frame(HEADERS_FRAME, 5, 30)),
            100,
            "a probe every few seconds goes on"
        );
        let mut frames = knocking();
        frames.mark_admitted();
        assert_eq!(taken(&mut frames, &frame(HEADERS_FRAME, 5, 30)), 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_answers_to_such_frames_pay_for_no_others() {
        let mut frames = begun();
        let pings = (0..100_000).take_while(|_| {
            frames.note_written(17);
            frames.note_received(&frame(PING, 0, 8)).is_ok()
        });
        assert!(pings.count() < 1500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_or_reads_may_ping_and_give_windows_back_as_often_as_it_needs_to() {
        let mut asks = begun();
        let question =
            [frame(HEADERS_FRAME, 4, 30), frame(DATA_FRAME, 0, 20), frame(DATA_FRAME, END_STREAM_FLAG, 0)]
                .concat();
        let aside =
            [frame(PING, 0, 8), frame(WINDOW_UPDATE, 0, 4), frame(WINDOW_UPDATE, 0, 4), frame(3, 0, 4)];
        for _ in 0..100_000 {
            asks.note_received(&question).unwrap();
            asks.note_received(&aside.concat()).unwrap();
        }
        let mut reads = begun();
        for _ in 0..100_000 {
            // one answer of a stream, with the measured way behind it
            reads.note_written(150);
            reads.note_received(&[frame(PING, 0, 8), frame(WINDOW_UPDATE, 0, 4)].concat()).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_found_however_the_bytes_of_a_client_come() {
        let all = [
            &PREFACE[..],
            &frame(SETTINGS, 0, 6).repeat(600),
            &frame(HEADERS_FRAME, 4, 200),
            &frame(PING, 0, 8),
        ]
        .concat();
        let mut credit = Vec::new();
        for piece in [1, 2, 3, 7, 9, 24, 64, 4096, all.len()] {
            let mut frames = FrameMeter::new(Instant::now());
            frames.mark_admitted();
            all.chunks(piece).for_each(|bytes| frames.note_received(bytes).unwrap());
            assert_eq!(frames.position, FramePosition::Head(0));
            credit.push(frames.credit_left);
        }
        assert_eq!(credit, vec![START_CREDIT - 600 * FRAME_COST + MESSAGE_CREDIT - FRAME_COST; credit.len()]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_http_2_is_not_looked_at() {
        let mut frames = FrameMeter::new(Instant::now());
        frames.note_received(b"POST /v1/collect HTTP/1.1\r\n\r\n").unwrap();
        frames.note_received(&frame(SETTINGS, 0, 0).repeat(10_000)).unwrap();
        assert_eq!((frames.position, frames.credit_left), (FramePosition::Elsewhere, START_CREDIT));
    }
}
