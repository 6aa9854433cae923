//! Requests a backup from a running server, and checks the archive while it is copied.

use std::{
    io::{self, BufReader, Read, Write},
    net::SocketAddr,
};

use anyhow::{Context as _, bail};
use plimsoll_store::archive::Unpacker;
use ulid::Ulid;

use super::link::{self, RunningServer};
use crate::{door::BACKUP_PATH, runtime::outgoing::OversizedAnswer};

/// Most bytes of an HTTP head.
const HEAD_BYTES: usize = 16 << 10;

/// Copies the archive from a running server.
/// Errors: there is no answer, the answer is not from a Plimsoll server, the archive is of another store than `wanted`, or the archive is
/// incomplete.
pub(crate) fn fetch_archive(
    server: &RunningServer<'_>,
    wanted_store: Option<Ulid>,
    out: &mut impl Write,
    on_progress: impl FnMut(u64),
) -> anyhow::Result<()> {
    let authorization = link::authorization(server.token.as_deref())?;
    let mut stream = link::connect(server)?;
    // HTTP/1.0: the body ends when the connection closes. A body that is cut short is noticed,
    // because the archive is checked.
    let host = server.remote.as_ref().map_or("localhost", |elsewhere| elsewhere.host.as_str());
    let request = format!("GET {BACKUP_PATH} HTTP/1.0\r\nHost: {host}\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).with_context(|| format!("{} takes no request", server.address))?;
    stream.flush()?;
    let mut answer = BufReader::new(stream);
    let head = read_head(&mut answer, server.address)?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let mut reason = String::new();
        answer.take(HEAD_BYTES as u64).read_to_string(&mut reason)?;
        let way_out = match status {
            "401" | "403" => "; name the token of an operator with --token-file",
            _ => "",
        };
        bail!(
            "the server at {} gives no backup: status {status}, {}{way_out}",
            server.address,
            reason.trim()
        );
    }
    let mut passing = ReportingReader { source: answer, out, bytes_done: 0, on_progress };
    let mut unpacker = Unpacker::begin(&mut passing)?;
    let given = unpacker.identity.id;
    if let Some(wanted) = wanted_store.filter(|wanted| *wanted != given) {
        bail!("the server at {} has another store open: {given}, and not {wanted}", server.address);
    }
    while unpacker.next_entries()?.is_some() {}
    Ok(())
}

fn read_head(answer: &mut impl Read, address: SocketAddr) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        answer.read_exact(&mut byte).context(
            "the connection was closed before an answer; a server with TLS needs its settings, --config FILE",
        )?;
        head.extend(byte);
        if head.len() > HEAD_BYTES {
            let text = format!(
                "the program that answers at {address} is not a plimsoll-server: its header is too large"
            );
            return Err(OversizedAnswer(text).into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A reader that also writes what is read: the archive is checked while it is copied.
struct ReportingReader<'a, R, W, T> {
    source: R,
    out: &'a mut W,
    bytes_done: u64,
    on_progress: T,
}

impl<R: Read, W: Write, T: FnMut(u64)> Read for ReportingReader<'_, R, W, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.out.write_all(buffer.get(..count).unwrap_or_default())?;
        self.bytes_done += count as u64;
        (self.on_progress)(self.bytes_done);
        Ok(count)
    }
}
