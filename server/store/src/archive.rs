//! The format of a backup: a stream that shows where it is damaged and whether it is complete.
//!
//! ```text
//! archive = "PLIMSOLL BACKUP\n", frame 'h', frames 'e', frame 'z'
//! frame   = kind u8, length u32, body, crc u32        crc: CRC-32 (IEEE) over kind, length and body
//! h       = archive version u32 = 1, format of the store u32, store id 16 bytes, commit sequence u64
//! e       = zstd frame of entries: key length u16, key, version u64, value length u16, value
//! z       = number of entries u64
//! ```
//!
//! Numbers are big-endian. An entry may come twice, with the same bytes. Without its frame 'z' an archive is cut short.

use std::io::{self, Read};

use plimsoll_proto::figures::counted_as;
use ulid::Ulid;

use super::{FORMAT_VERSION, KeyValue, StoreIdentity, VersionedValue};

const MAGIC: &[u8; 16] = b"PLIMSOLL BACKUP\n";
const VERSION: u32 = 1;
const HEAD_FRAME: u8 = b'h';
const ENTRIES_FRAME: u8 = b'e';
const END_FRAME: u8 = b'z';
/// A frame is written when its unpacked entries reach this many bytes.
const FRAME_BYTES: usize = 512 << 10;
/// Longest frame body, packed or unpacked, that the reader accepts: a full frame plus the largest entry.
const MAX_FRAME_BYTES: usize = 2 * FRAME_BYTES;
/// Compression level of zstd: fast, and the entries take about half their bytes.
const ZSTD_LEVEL: i32 = 3;

/// Why an archive cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The source cannot be read.
    #[error("the backup cannot be read: {0}")]
    Io(io::Error),
    /// The file is not a backup of this program.
    #[error("this is no backup: it does not begin as one; name a file that plimsoll-server backup wrote")]
    Foreign,
    /// The backup was written in another format.
    #[error(
        "the backup has {what} {found}, and this program reads {known} only: restore it with the program that wrote it"
    )]
    OtherFormat {
        /// Name of the number that differs.
        what: &'static str,
        /// The value of that number in the archive.
        found: u32,
        /// The value that this program supports.
        known: u32,
    },
    /// The archive ends before its last frame.
    #[error(
        "the backup ends in the middle, after {}: it was cut short; take another one",
        counted_as(*entries, "entry", "entries")
    )]
    Short {
        /// Number of complete entries before the end.
        entries: u64,
    },
    /// A frame is damaged.
    #[error("the backup is damaged after {}: {reason}; take another one", counted_as(*entries, "entry", "entries"))]
    Damaged {
        /// Number of complete entries before the damage.
        entries: u64,
        /// What is damaged, in words.
        reason: String,
    },
}

/// Packs entries into frames.
#[derive(Debug)]
pub struct Packer {
    unpacked_entries: Vec<u8>,
    entries: u64,
}

impl Packer {
    /// Creates a packer; also returns the first bytes of the archive.
    pub fn begin(identity: StoreIdentity) -> (Self, Vec<u8>) {
        let fields: [&[u8]; 4] = [
            &VERSION.to_be_bytes(),
            &identity.format.to_be_bytes(),
            &identity.id.to_bytes(),
            &identity.sequence.to_be_bytes(),
        ];
        let head = [MAGIC.as_slice(), &frame_bytes(HEAD_FRAME, &fields.concat())].concat();
        (Self { unpacked_entries: Vec::new(), entries: 0 }, head)
    }

    /// Adds entries; returns the frames that are complete.
    /// Errors: A frame cannot be packed.
    pub fn add_entries(&mut self, entries: Vec<KeyValue>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        for entry in entries {
            self.entries += 1;
            put_entry(&mut self.unpacked_entries, &entry)?;
            if self.unpacked_entries.len() >= FRAME_BYTES {
                out.extend(self.pack_frame()?);
            }
        }
        Ok(out)
    }

    /// Packs the entries that remain; returns the last bytes of the archive.
    /// Errors: A frame cannot be packed.
    pub fn end(mut self) -> io::Result<Vec<u8>> {
        let mut out = self.pack_frame()?;
        out.extend(frame_bytes(END_FRAME, &self.entries.to_be_bytes()));
        Ok(out)
    }

    fn pack_frame(&mut self) -> io::Result<Vec<u8>> {
        if self.unpacked_entries.is_empty() {
            return Ok(Vec::new());
        }
        let packed = zstd::bulk::compress(&self.unpacked_entries, ZSTD_LEVEL)?;
        self.unpacked_entries.clear();
        Ok(frame_bytes(ENTRIES_FRAME, &packed))
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &KeyValue) -> io::Result<()> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).map_err(io::Error::other).map(u16::to_be_bytes);
    out.extend(length(&entry.key)?);
    out.extend(&entry.key);
    out.extend(entry.value.version.to_be_bytes());
    out.extend(length(&entry.value.value)?);
    out.extend(&entry.value.value);
    Ok(())
}

fn frame_bytes(kind: u8, body: &[u8]) -> Vec<u8> {
    // the callers keep every body far below 4 GiB, so its length fits
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut bytes = [&[kind], length.to_be_bytes().as_slice(), body].concat();
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

/// Unpacks an archive.
#[derive(Debug)]
pub struct Unpacker<R> {
    source: R,
    /// Identity of the store that was backed up, with the number of its last commit.
    pub identity: StoreIdentity,
    entries: u64,
}

impl<R: Read> Unpacker<R> {
    /// Reads the head of an archive.
    /// Errors: the source is not an archive, or has another format.
    pub fn begin(mut source: R) -> Result<Self, ArchiveError> {
        let mut magic = [0; MAGIC.len()];
        match source.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(ArchiveError::Io(error));
            }
            Ok(()) if &magic == MAGIC => {}
            _ => return Err(ArchiveError::Foreign),
        }
        let identity = StoreIdentity { format: 0, id: Ulid::nil(), sequence: 0 };
        let mut unpacker = Self { source, identity, entries: 0 };
        let (kind, body) = unpacker.read_frame()?;
        unpacker.identity = read_head(&body)
            .filter(|_| kind == HEAD_FRAME)
            .ok_or_else(|| unpacker.damaged_error("its head cannot be understood"))??;
        Ok(unpacker)
    }

    /// Reads the next frame of entries; `None` at the end of a complete archive.
    /// Errors: the archive is cut short or damaged.
    pub fn next_entries(&mut self) -> Result<Option<Vec<KeyValue>>, ArchiveError> {
        let (kind, body) = self.read_frame()?;
        match kind {
            ENTRIES_FRAME => {
                let bytes = zstd::bulk::decompress(&body, MAX_FRAME_BYTES)
                    .map_err(|error| self.damaged_error(&format!("zstd cannot unpack it: {error}")))?;
                let entries =
                    read_entries(&bytes).ok_or_else(|| self.damaged_error("an entry is cut short"))?;
                self.entries += entries.len() as u64;
                Ok(Some(entries))
            }
            END_FRAME if body == self.entries.to_be_bytes() => {
                // an error after the last frame does not matter (a connection may end with one); more bytes do
                if matches!(self.source.read(&mut [0]), Ok(1..)) {
                    return Err(self.damaged_error("something follows its end"));
                }
                Ok(None)
            }
            END_FRAME => Err(self.damaged_error("it promises another number of entries")),
            other => Err(self.damaged_error(&format!("frame {other} is not known"))),
        }
    }

    fn read_frame(&mut self) -> Result<(u8, Vec<u8>), ArchiveError> {
        let mut head = [0; 5];
        self.fill_bytes(&mut head)?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(self.damaged_error(&format!("a frame of {length} bytes")));
        }
        let mut body = vec![0; length];
        self.fill_bytes(&mut body)?;
        let mut crc = [0; 4];
        self.fill_bytes(&mut crc)?;
        let mut hash = crc32fast::Hasher::new();
        hash.update(&head);
        hash.update(&body);
        if hash.finalize().to_be_bytes() == crc {
            Ok((kind, body))
        } else {
            Err(self.damaged_error("wrong checksum"))
        }
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), ArchiveError> {
        self.source.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ArchiveError::Short { entries: self.entries },
            _ => ArchiveError::Io(error),
        })
    }

    fn damaged_error(&self, reason: &str) -> ArchiveError {
        ArchiveError::Damaged { entries: self.entries, reason: reason.to_owned() }
    }
}

/// The store's identity from the archive's head, or why this archive is not supported; `None` if the head is
/// too short.
fn read_head(body: &[u8]) -> Option<Result<StoreIdentity, ArchiveError>> {
    let (version, rest) = body.split_first_chunk()?;
    let version = u32::from_be_bytes(*version);
    let other = |what, found, known| Some(Err(ArchiveError::OtherFormat { what, found, known }));
    if version != VERSION {
        return other("archive version", version, VERSION);
    }
    let (format, rest) = rest.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (sequence, _) = rest.split_first_chunk()?;
    let format = u32::from_be_bytes(*format);
    if format != FORMAT_VERSION {
        return other("store format", format, FORMAT_VERSION);
    }
    Some(Ok(StoreIdentity { format, id: Ulid::from_bytes(*id), sequence: u64::from_be_bytes(*sequence) }))
}

fn read_entries(mut bytes: &[u8]) -> Option<Vec<KeyValue>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = read_text(bytes)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (value, rest) = read_text(rest)?;
        let value = VersionedValue { version: u64::from_be_bytes(*version), value };
        entries.push(KeyValue { key, value });
        bytes = rest;
    }
    Some(entries)
}

fn read_text(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((text.to_vec(), rest))
}
