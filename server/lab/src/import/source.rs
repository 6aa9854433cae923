//! Opens a file: finds its format, unpacks gzip, and reports how much was read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use plimsoll_base::unpack::{self, format_of};

/// Why a file cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("{path}: cannot be read: {cause}")]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file is truncated or damaged.
    #[error("{path}: unreadable behind {unit} {line}: {reason}")]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// What is counted: lines, or rows of a table.
        unit: &'static str,
        /// The last line or row that could be read.
        line: u64,
        /// What is wrong with the file, in words.
        reason: String,
    },
    /// A required column is missing.
    #[error("{path}: {reason}")]
    Columns {
        /// Path of the file.
        path: PathBuf,
        /// The missing column, and the columns that the file has.
        reason: String,
    },
}

/// How much of a file was read, in bytes of the file itself (packed if it is gzip). Clones share the position.
#[derive(Debug, Clone, Default)]
pub struct ReadPosition {
    bytes_read: Arc<AtomicU64>,
    size: u64,
}

impl ReadPosition {
    /// Share of the file that was read, 0 to 1.
    pub fn share(&self) -> f64 {
        let read = plimsoll_core::domain::Bytes(self.bytes_read.load(Ordering::Relaxed)).as_f64();
        let size = plimsoll_core::domain::Bytes(self.size).as_f64();
        if size > 0.0 { (read / size).min(1.0) } else { 0.0 }
    }
}

struct CountingReader {
    file: File,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes_read.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(count)
    }
}

/// Bytes that are read to find the format of a file.
const HEAD_BYTES: u64 = 8 << 10;
/// The mark that some programs put before text in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
/// The first bytes of every SQLite database (sqlite.org/fileformat.html, 1.3).
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileForm {
    Csv,
    JsonLines,
}

/// A file's bytes, unpacked, with its format and the read position.
pub(super) struct UnpackedFile {
    pub(super) bytes: Box<dyn BufRead>,
    pub(super) form: FileForm,
    pub(super) position: ReadPosition,
}

/// Opens a file, and finds its format from its first bytes.
pub(super) fn open(path: &Path) -> Result<UnpackedFile, FileError> {
    let fail = |cause| FileError::Open { path: path.to_owned(), cause };
    let file = File::open(path).map_err(fail)?;
    let place = ReadPosition { size: file.metadata().map_err(fail)?.len(), ..ReadPosition::default() };
    open_bytes(
        path,
        BufReader::new(CountingReader { file, bytes_read: Arc::clone(&place.bytes_read) }),
        place,
    )
}

/// Finds the format of `bytes`, the content of a file; `path` is its name for errors.
pub(super) fn open_bytes(
    path: &Path,
    mut packed: impl BufRead + 'static,
    place: ReadPosition,
) -> Result<UnpackedFile, FileError> {
    let fail = |cause| FileError::Open { path: path.to_owned(), cause };
    let columns = |reason: &str| FileError::Columns { path: path.to_owned(), reason: reason.to_owned() };
    let format = format_of(packed.fill_buf().map_err(fail)?);
    let mut bytes = match format {
        Some((name, program)) if !matches!(name, "gzip" | "zstd") => {
            return Err(columns(&format!("is packed with {name}; unpack it first ({program})")));
        }
        _ => unpack::unpacked(packed).map_err(fail)?,
    };
    let broken = |error: io::Error| FileError::Broken {
        path: path.to_owned(),
        unit: "line",
        line: 0,
        reason: io_error_words(&error),
    };
    let mut head = Vec::new();
    bytes.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(broken)?;
    let head = head.strip_prefix(UTF8_MARK).unwrap_or(&head).to_vec();
    let form = form_of(&head).map_err(columns)?;
    Ok(UnpackedFile { bytes: Box::new(io::Cursor::new(head).chain(bytes)), form, position: place })
}

/// The format of a file that begins with `head`.
/// Errors: why such a file cannot be imported.
fn form_of(head: &[u8]) -> Result<FileForm, &'static str> {
    match head.trim_ascii_start() {
        _ if head.starts_with(SQLITE_MAGIC) => Err(
            "is a SQLite database; write its rows as CSV (sqlite3 -header -csv; the guide import.md has the query for Gantry's)",
        ),
        [] => Err("is empty"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err("is UTF-16; save it as UTF-8"),
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [] | [b'{' | b']', ..]) => {
            Err("is a JSON array; write one object on each line, as jq -c '.[]' does")
        }
        [b'{', rest @ ..]
            if rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) == Some(&b'\n') =>
        {
            Err("is JSON with objects of several lines; write one object on each line, as jq -c . does")
        }
        [b'{', ..] => Ok(FileForm::JsonLines),
        _ => Ok(FileForm::Csv),
    }
}

/// A read error in words that help to fix it.
pub(super) fn io_error_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "what is packed ends in the middle; the file is not complete".to_owned()
        }
        _ => error.to_string(),
    }
}
