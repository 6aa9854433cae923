//! The bytes of a file: plain or gzip, what they are, and how far they are read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::gzip::{self, GzipMembers};

/// Why a whole file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("{path}: cannot be read: {cause}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The file is truncated or damaged.
    #[error("{path}: unreadable behind {unit} {line}: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is counted.
        unit: &'static str,
        /// Last line or row that could be read.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A column that is needed is not there.
    #[error("{path}: {reason}")]
    Columns {
        /// The file.
        path: PathBuf,
        /// The missing column, and the columns that the file has.
        reason: String,
    },
}

/// How far a file is read, in bytes of the file itself.
#[derive(Debug, Clone, Default)]
pub struct ReadPosition {
    bytes_read: Arc<AtomicU64>,
    size: u64,
}

impl ReadPosition {
    /// The position at the start of something with `size` parts.
    #[cfg(feature = "sqlite")]
    pub(super) fn of(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// `count` more are read.
    #[cfg(feature = "sqlite")]
    pub(super) fn forward(&self, count: u64) {
        self.bytes_read.fetch_add(count, Ordering::Relaxed);
    }

    /// Share of the file that is read, 0 to 1.
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

/// What every SQLite database begins with (sqlite.org/fileformat.html, 1.3).
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileForm {
    Csv,
    JsonLines,
    Sqlite,
}

/// A file's bytes, unpacked, what they are, and how far they are read.
pub(super) struct UnpackedFile {
    pub(super) bytes: Box<dyn BufRead>,
    pub(super) form: FileForm,
    pub(super) place: ReadPosition,
}

/// Opens a file and reads its first bytes to find its format.
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

/// Finds the format of bytes that are being read; `path` is the name for errors.
pub(super) fn open_bytes(
    path: &Path,
    mut packed: impl BufRead + 'static,
    place: ReadPosition,
) -> Result<UnpackedFile, FileError> {
    let fail = |cause| FileError::Open { path: path.to_owned(), cause };
    let gzip = packed.fill_buf().map_err(fail)?.starts_with(&gzip::GZIP_MAGIC);
    let mut bytes: Box<dyn BufRead> =
        if gzip { Box::new(BufReader::new(GzipMembers::new(packed))) } else { Box::new(packed) };
    let broken = |error: io::Error| FileError::Broken {
        path: path.to_owned(),
        unit: "line",
        line: 0,
        reason: explain(&error),
    };
    let head = bytes.fill_buf().map_err(broken)?;
    let columns = |reason: &str| FileError::Columns { path: path.to_owned(), reason: reason.to_owned() };
    let form = match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err(columns("is empty")),
        Some(_) if head.starts_with(SQLITE_MAGIC) && gzip => {
            return Err(columns("is a packed SQLite database; unpack it first (gunzip)"));
        }
        Some(_) if head.starts_with(SQLITE_MAGIC) => FileForm::Sqlite,
        Some(b'{') => FileForm::JsonLines,
        Some(_) => FileForm::Csv,
    };
    Ok(UnpackedFile { bytes, form, place })
}

/// An error of reading, in words that help.
pub(super) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the gzip ends in the middle; the file is not complete".to_owned(),
        _ => error.to_string(),
    }
}
