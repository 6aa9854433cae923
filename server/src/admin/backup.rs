//! Backup and restore: an archive of all entries, from a running store or from one at rest, and back into an empty directory.

use std::{
    io::{self, BufReader, Read, Write},
    path::Path,
};

use anyhow::{Context as _, bail};
use ulid::Ulid;

use super::{
    archive::{Packer, Unpacker},
    link::{self, Running},
};
use crate::store::{Filling, Offline, Snapshot, StoreError, StoreSettings};

/// Where a running server gives its backup.
pub(crate) const ENDPOINT: &str = "/admin/backup";

/// Most bytes of an HTTP head.
const HEAD_BYTES: usize = 16 << 10;

/// The archive of a snapshot, piece by piece.
#[derive(Debug)]
pub(crate) struct Live {
    snapshot: Snapshot,
    packer: Option<Packer>,
    head: Option<Vec<u8>>,
}

impl Live {
    /// Begins an archive.
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        let (packer, head) = Packer::begin(snapshot.identity());
        Self { snapshot, packer: Some(packer), head: Some(head) }
    }

    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    /// The store cannot be read, or changes faster than it is read. The archive is then cut short, and says nothing more: whoever reads it
    /// misses its end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        while let Some(mut packer) = self.packer.take() {
            let Some(entries) = self.snapshot.next().await? else {
                return packer.end().map(Some).map_err(Into::into);
            };
            // to compress takes milliseconds, in which the threads of the runtime answer some hundred questions
            let work = move || packer.take(entries).map(|bytes| (packer, bytes));
            let (packer, bytes) = tokio::task::spawn_blocking(work).await??;
            self.packer = Some(packer);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Writes the archive of a store that nobody has open. `tell` gets the bytes of entries so far. Gives the number of entries.
pub(crate) fn write(store: &Offline, out: &mut impl Write, mut tell: impl FnMut(u64)) -> anyhow::Result<u64> {
    let (mut packer, head) = Packer::begin(store.identity());
    out.write_all(&head)?;
    let mut done = 0;
    let count = store.each(|entry| {
        done += (entry.key.len() + entry.value.value.len()) as u64;
        tell(done);
        let written = packer.take(vec![entry]).and_then(|bytes| out.write_all(&bytes));
        written.map_err(|error| StoreError::Unavailable(format!("the backup cannot be written: {error}")))
    })?;
    out.write_all(&packer.end()?)?;
    Ok(count)
}

/// Copies the archive that a running server gives.
///
/// # Errors
/// Nobody answers, or what answers is not a server of this kind, or has another store than the one `wanted`, or the archive is cut short.
pub(crate) fn fetch(
    server: &Running<'_>,
    wanted: Option<Ulid>,
    out: &mut impl Write,
    tell: impl FnMut(u64),
) -> anyhow::Result<()> {
    let authorization = link::authorization(server.token.as_deref())?;
    let mut stream = link::connect(server)?;
    // HTTP/1.0: the body ends with the connection; whether it is complete says the archive
    let request = format!("GET {ENDPOINT} HTTP/1.0\r\nHost: localhost\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).with_context(|| format!("{} takes no request", server.address))?;
    stream.flush()?;
    let mut answer = BufReader::new(stream);
    let head = read_head(&mut answer)?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let mut reason = String::new();
        answer.take(HEAD_BYTES as u64).read_to_string(&mut reason)?;
        bail!("the server at {} gives no backup: status {status}, {}", server.address, reason.trim());
    }
    let mut passing = Passing { source: answer, out, done: 0, tell };
    let mut unpacker = Unpacker::begin(&mut passing)?;
    let given = unpacker.identity.id;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != given) {
        bail!("the server at {} has another store open: {given}, and not {wanted}", server.address);
    }
    while unpacker.next()?.is_some() {}
    Ok(())
}

fn read_head(answer: &mut impl Read) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        answer.read_exact(&mut byte).context("the server closed the connection")?;
        head.extend(byte);
        anyhow::ensure!(head.len() <= HEAD_BYTES, "what answers is not a plimsoll-server");
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Hands on what is read: the archive is checked while it is copied.
struct Passing<'a, R, W, T> {
    source: R,
    out: &'a mut W,
    done: u64,
    tell: T,
}

impl<R: Read, W: Write, T: FnMut(u64)> Read for Passing<'_, R, W, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.out.write_all(buffer.get(..count).unwrap_or_default())?;
        self.done += count as u64;
        (self.tell)(self.done);
        Ok(count)
    }
}

/// Makes a data directory from an archive. Gives the number of entries. Where the same archive can be read twice, `before` is it: its
/// keys are laid out first, and the store takes half of the disk.
///
/// # Errors
/// The directory is not empty, or the archive is not whole; what is then in the directory is marked as half restored.
pub(crate) fn restore(
    before: Option<impl Read>,
    archive: impl Read,
    settings: &StoreSettings,
) -> anyhow::Result<u64> {
    // a file that is none must not make a directory
    let mut unpacker = Unpacker::begin(archive)?;
    let mut filling = Filling::begin(settings, unpacker.identity)?;
    if let Some(mut before) = before.map(Unpacker::begin).transpose().with_context(|| half(&settings.dir))? {
        while let Some(entries) = before.next().with_context(|| half(&settings.dir))? {
            filling.lay_out(&entries).with_context(|| half(&settings.dir))?;
        }
    }
    let mut count = 0;
    while let Some(entries) = unpacker.next().with_context(|| half(&settings.dir))? {
        for entry in entries {
            count += 1;
            filling.put(entry).with_context(|| half(&settings.dir))?;
        }
    }
    filling.end().with_context(|| half(&settings.dir))?;
    Ok(count)
}

fn half(dir: &Path) -> String {
    format!("{} is half restored and no server opens it; remove it before the next try", dir.display())
}
