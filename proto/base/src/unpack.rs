//! Opens text that may be packed, above all logs. What it is packed with is found by its first bytes, never by its name.
//!
//! gzip and zstd are unpacked while they are read, in bounded memory, however much comes out of them. For others, the error names the
//! program that unpacks them. So it does for all where the feature `unpack` is left out: the container's agent stays small.

use std::io::{self, BufRead, BufReader, Cursor, Read};

#[cfg(feature = "unpack")]
use flate2::bufread::GzDecoder;

/// The two bytes that every gzip begins with (RFC 1952, section 2.3.1).
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes that are read to find out what a file is packed with.
const HEAD_BYTES: u64 = 16;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Logarithm of the most bytes that a zstd frame may ask to hold while it is unpacked: 8 MiB, which RFC 8878 (section 3.1.1.1.2) asks of
/// every decoder, and which no frame exceeds that was packed without `--long` or `--ultra`.
#[cfg(feature = "unpack")]
const WINDOW_LOG: u32 = 23;

/// First bytes, the name of the format, and the program that unpacks it to standard output.
const FORMATS: [(&[u8], &str, &str); 9] = [
    (&GZIP_MAGIC, "gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"LZIP\x01", "lzip", "lzip -dc"),
    (b"\x1f\x9d", "compress", "uncompress -c"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so"),
];

/// The content of `from`, unpacked while it is read.
/// Errors: it cannot be read, or is packed in a way that this program does not unpack. Reads fail if what is packed is damaged.
pub fn unpacked<'f>(mut from: impl Read + 'f) -> io::Result<Box<dyn BufRead + 'f>> {
    let mut head = Vec::new();
    from.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let format = format_of(&head);
    let bytes = BufReader::with_capacity(PIECE_BYTES, Cursor::new(head).chain(from));
    match format {
        None => Ok(Box::new(bytes)),
        #[cfg(feature = "unpack")]
        Some((name @ "gzip", _)) => Ok(named(GzipMembers::new(bytes), name)),
        #[cfg(feature = "unpack")]
        Some((name @ "zstd", _)) => {
            let mut frames = zstd::stream::read::Decoder::with_buffer(bytes)?;
            frames.window_log_max(WINDOW_LOG)?;
            Ok(named(frames, name))
        }
        Some((name, program)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("it is packed with {name}: unpack it first, as with `{program} FILE | COMMAND -`"),
        )),
    }
}

/// The name of the format and the program that unpacks it to standard output; `None` for text.
pub fn format_of(head: &[u8]) -> Option<(&'static str, &'static str)> {
    // pzstd and others begin with a frame that is skipped (RFC 8878, section 3.1.2); its first byte is 0x50 to 0x5f
    let skips = matches!(head, [0x50..=0x5f, b'\x2a', b'\x4d', b'\x18', ..]);
    let is_format = |magic: &[u8], name: &str| match name {
        "zstd" if skips => true,
        // text may begin with these letters: the first block begins with the digits of pi, or the end with those of its square root
        "bzip2" => head.starts_with(magic) && matches!(head.get(4..7), Some(b"1AY" | b"\x17\x72\x45")),
        _ => head.starts_with(magic),
    };
    let found = FORMATS.iter().find(|(magic, name, _)| is_format(magic, name));
    found.map(|&(_, name, program)| (name, program))
}

/// A reader whose errors say what its content is packed with.
#[cfg(feature = "unpack")]
struct PackedText<R>(R, &'static str);

#[cfg(feature = "unpack")]
impl<R: Read> Read for PackedText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let name = self.1;
        self.0.read(buffer).map_err(|error| {
            io::Error::new(error.kind(), format!("it is packed with {name}, and not whole: {error}"))
        })
    }
}

#[cfg(feature = "unpack")]
fn named<'f>(from: impl Read + 'f, name: &'static str) -> Box<dyn BufRead + 'f> {
    Box::new(BufReader::with_capacity(PIECE_BYTES, PackedText(from, name)))
}

/// Unpacks all members of a gzip file, one after the other, as gzip itself does; and skips zeros after the last one, which tapes and block
/// devices add.
#[cfg(feature = "unpack")]
#[derive(Debug)]
pub struct GzipMembers<R>(Option<GzDecoder<R>>);

#[cfg(feature = "unpack")]
impl<R: BufRead> GzipMembers<R> {
    /// Begins with the first member.
    pub fn new(packed: R) -> Self {
        Self(Some(GzDecoder::new(packed)))
    }
}

#[cfg(feature = "unpack")]
impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut rest) = self.0.take().map(GzDecoder::into_inner) else { break };
            if ends_in_zeros(&mut rest)? {
                return Ok(0);
            }
            if !rest.fill_buf()?.starts_with(GZIP_MAGIC.get(..1).unwrap_or_default()) {
                let reason =
                    "the bytes behind the end of the gzip are no gzip; something else was appended to it";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            self.0 = Some(GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Skips zeros; returns whether the file ends after them.
#[cfg(feature = "unpack")]
fn ends_in_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        let (all, zeros) = (bytes.len(), bytes.iter().take_while(|byte| **byte == 0).count());
        packed.consume(zeros);
        if all == 0 || zeros < all {
            return Ok(all == 0);
        }
    }
}

#[cfg(all(test, feature = "unpack"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "packing into memory does not fail")]

    use std::io::Write as _;

    use super::*;
    use crate::log_excerpt::LogExcerpt;

    fn packed(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    fn all_of(parts: &[&[u8]]) -> io::Result<String> {
        let packed = BufReader::with_capacity(7, Cursor::new(parts.concat()));
        io::read_to_string(GzipMembers::new(packed))
    }

    #[test]
    fn gzip_members_concatenate_and_ignore_zero_padding() {
        let (one, two) = (packed("one "), packed("two"));
        let zeros = [0; 1000];
        assert_eq!(all_of(&[&one]).unwrap(), "one ");
        assert_eq!(all_of(&[&one, &two]).unwrap(), "one two");
        assert_eq!(all_of(&[&one, &two, &zeros]).unwrap(), "one two");
        assert_eq!(all_of(&[&one, &zeros, &two]).unwrap(), "one two");
        let appended = all_of(&[&one, &zeros, b"x"]).unwrap_err().to_string();
        assert!(appended.contains("something else was appended"), "{appended}");
        assert!(all_of(&[one.get(..one.len() / 2).unwrap()]).is_err(), "a file that is cut short");
    }
    /// Reads one byte at a time, as a slow pipe.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(buffer.get_mut(..most).unwrap_or_default())
        }
    }

    #[test]
    fn text_is_read_however_it_is_packed() {
        let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let frame = zstd::bulk::compress(b"the log", 3).unwrap();
        let two =
            [zstd::bulk::compress(b"the ", 3).unwrap(), zstd::bulk::compress(b"log", 3).unwrap()].concat();
        let table =
            [b"the log".to_vec(), packed("the log"), frame.clone(), [&skipped[..], &frame].concat(), two];
        for bytes in table {
            assert_eq!(io::read_to_string(unpacked(Slow(&bytes)).unwrap()).unwrap(), "the log");
        }
        for text in ["", "x", "BZh", "BZh9 is a name", "LZ"] {
            assert_eq!(io::read_to_string(unpacked(text.as_bytes()).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_named() {
        let gzip = packed("the log");
        let zstd = zstd::bulk::compress(b"the log", 3).unwrap();
        let window_of_128_mib = b"\x28\xb5\x2f\xfd\0\x88\x01\0\0";
        let table: [(&[u8], &str); 6] = [
            (b"\xfd7zXZ\0\0", "xz -dc FILE"),
            (b"BZh91AY&SY", "bzip2 -dc FILE"),
            (b"BZh9\x17\x72\x45\x38\x50\x90", "bzip2"),
            (gzip.get(..12).unwrap(), "packed with gzip, and not whole"),
            (zstd.get(..12).unwrap(), "packed with zstd"),
            (window_of_128_mib, "packed with zstd"),
        ];
        for (bytes, words) in table {
            let error = unpacked(bytes).and_then(io::read_to_string).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_bomb_takes_no_memory() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut io::repeat(b'0').take(64 << 20), &mut bomb).unwrap();
        bomb.write_all(b"\nthe end").unwrap();
        let mut excerpt = LogExcerpt::new(64 << 10, 0);
        excerpt.read_all(&*bomb.finish().unwrap()).unwrap();
        let kept = excerpt.finish(<[u8]>::to_vec);
        assert!(kept.len() <= 64 << 10 && kept.ends_with(b"\nthe end"));
    }
}
