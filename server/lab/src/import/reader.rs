//! Reads a file as a stream of records.

use std::{
    collections::{HashMap, HashSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    io::{self, BufRead, Read as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    columns::{IMPORT_COLUMNS, misspelt_column, required_names},
    draft::{ReadRow, Record, RecordDraft},
    json,
    refusals::{Refusals, RowRefusal},
    source::{self, FileError, FileForm, ReadPosition},
    whole,
};

/// Longest line of JSON or row of CSV that is accepted, bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes that the CSV library may read beyond the current row.
const READ_AHEAD: u64 = 8 << 10;

/// Reads the records of a file one after the other. In memory are one row and, to find duplicates, 8 bytes for
/// each row read, or 24 for a row without an id.
pub struct Reader {
    path: PathBuf,
    lines: RowSource,
    line: u64,
    seen_ids: HashSet<u64>,
    /// By fingerprint of the texts: number of rows without an id that had these texts.
    rows_without_id: HashMap<u64, u64>,
    has_times: Option<bool>,
    /// Rows that were refused.
    pub refusals: Refusals,
    /// How much of the file was read.
    pub position: ReadPosition,
}

enum RowSource {
    /// The CSV reader, and for each of our columns its position in the file.
    Csv(Box<csv::Reader<BoundedRows>>, Vec<Option<usize>>),
    Json(Box<dyn BufRead>),
}

/// The bytes of a CSV file; fails if a row is too long. Without this limit a quote that is never closed would
/// make the whole file one field.
struct BoundedRows {
    bytes: Box<dyn BufRead>,
    /// Bytes read since the last row began. The reader of the rows shares this counter, and resets it.
    row_bytes: Arc<AtomicU64>,
}

impl io::Read for BoundedRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        let new = u64::try_from(count).unwrap_or(u64::MAX);
        let before = self.row_bytes.fetch_add(new, Ordering::Relaxed);
        if before > LONGEST_LINE + READ_AHEAD {
            let reason = format!("the next row has more than {LONGEST_LINE} bytes; is a quote never closed?");
            return Err(io::Error::other(reason));
        }
        Ok(count)
    }
}

impl Reader {
    /// Opens a file, and reads the names of its columns.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::of(path, source::open(path)?)
    }

    /// Like [`Self::open`], for a file that is open already.
    pub(super) fn of(path: &Path, text: source::UnpackedFile) -> Result<Self, FileError> {
        let lines = match text.form {
            FileForm::JsonLines => RowSource::Json(text.bytes),
            FileForm::Csv => csv_columns(path, text.bytes)?,
        };
        Ok(Self {
            path: path.to_owned(),
            lines,
            line: 0,
            seen_ids: HashSet::new(),
            rows_without_id: HashMap::new(),
            has_times: None,
            refusals: Refusals::default(),
            position: text.position,
        })
    }

    /// The next valid record; `None` at the end of the file. Invalid rows are counted as refused.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, FileError> {
        loop {
            let read = match &mut self.lines {
                RowSource::Csv(reader, columns) => next_csv(reader, columns, &mut self.line),
                RowSource::Json(bytes) => next_json(bytes, &mut self.line),
            };
            let read = read.map_err(|reason| FileError::Broken {
                path: self.path.clone(),
                unit: self.refusals.unit,
                line: self.line,
                reason,
            })?;
            let Some(row) = read else { return Ok(None) };
            match row.and_then(|record| self.accept(record)) {
                Ok(record) => return Ok(Some(record)),
                Err(refusal) => self.refusals.add(refusal),
            }
        }
    }

    fn accept(&mut self, mut record: Record) -> Result<Record, RowRefusal> {
        let line = record.line;
        let refuse = |column, reason: &str| RowRefusal { line, column, reason: reason.to_owned() };
        match (*self.has_times.get_or_insert(record.timed), record.timed) {
            (true, false) => {
                return Err(refuse(
                    "submitted_ms",
                    "is empty, and rows before it have it; it must be in all or in none",
                ));
            }
            (false, true) => {
                return Err(refuse(
                    "submitted_ms",
                    "is given, and rows before it lack it; it must be in all or in none",
                ));
            }
            _ => {}
        }
        if let Some(unnamed) = &mut record.unnamed_rows {
            let alike = self.rows_without_id.entry(unnamed.fingerprint).or_default();
            *alike += 1;
            unnamed.number = *alike;
            record.summary.attempt = unnamed.id().map_err(|reason| refuse("attempt", &reason))?;
        }
        let mut hasher = DefaultHasher::new();
        record.summary.attempt.hash(&mut hasher);
        if !self.seen_ids.insert(hasher.finish()) {
            return Err(refuse("attempt", "is there twice; the first one counts"));
        }
        Ok(record)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("line", &self.line).finish_non_exhaustive()
    }
}

fn csv_columns(path: &Path, bytes: Box<dyn BufRead>) -> Result<RowSource, FileError> {
    let bounded = BoundedRows { bytes, row_bytes: Arc::default() };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bounded);
    let broken = |error: csv::Error| FileError::Broken {
        path: path.to_owned(),
        unit: "line",
        line: 0,
        reason: csv_problem(&error),
    };
    let names = reader.headers().map_err(broken)?.clone();
    let unusable = |reason: String| FileError::Columns { path: path.to_owned(), reason };
    let find = |name: &str| names.iter().position(|there| there.trim() == name);
    let columns: Vec<Option<usize>> = IMPORT_COLUMNS.iter().map(|column| find(column.name)).collect();
    let absent: Vec<&str> = IMPORT_COLUMNS
        .iter()
        .zip(&columns)
        .filter(|(c, at)| c.is_required && at.is_none())
        .map(|(c, _)| c.name)
        .collect();
    if absent.is_empty() {
        check_names(&names).map_err(unusable)?;
        return Ok(RowSource::Csv(Box::new(reader), columns));
    }
    let there: Vec<&str> = names.iter().collect();
    Err(unusable(format!(
        "line 1 lacks the column {} (required: {}); the columns there are: {}",
        absent.join(", "),
        required_names(),
        there.join(", ")
    )))
}

/// Refuses a header that names a known column twice, or a column that seems to be misspelt.
fn check_names(names: &csv::StringRecord) -> Result<(), String> {
    let mut seen = HashSet::new();
    let known = names.iter().map(str::trim).filter(|name| IMPORT_COLUMNS.iter().any(|c| c.name == *name));
    for name in known {
        if !seen.insert(name) {
            return Err(format!("line 1 has the column {name} twice; remove one of them"));
        }
    }
    match misspelt(names.iter(), |known| seen.contains(known)) {
        Some((name, known)) => Err(format!(
            "line 1 has the unknown column {name:?}; if it is {known}, correct its name, else rename or remove it"
        )),
        None => Ok(()),
    }
}

/// The first name that is not known, and the column that it seems to mean and that is not there beside it.
fn misspelt<'n>(
    mut names: impl Iterator<Item = &'n str>,
    is_there: impl Fn(&str) -> bool,
) -> Option<(&'n str, &'static str)> {
    names.find_map(|name| misspelt_column(name).filter(|known| !is_there(known)).map(|known| (name, known)))
}

fn next_csv(
    reader: &mut csv::Reader<BoundedRows>,
    columns: &[Option<usize>],
    line: &mut u64,
) -> Result<ReadRow, String> {
    let mut row = csv::StringRecord::new();
    reader.get_ref().row_bytes.store(0, Ordering::Relaxed);
    match reader.read_record(&mut row) {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
            *line = error.position().map_or(*line, csv::Position::line);
            let reason = "holds bytes that are not UTF-8".to_owned();
            return Ok(Some(Err(RowRefusal { line: *line, column: "row", reason })));
        }
        Err(error) => return Err(csv_problem(&error)),
    }
    *line = row.position().map_or(*line, csv::Position::line);
    let named = reader.headers().map_or(row.len(), csv::StringRecord::len);
    if row.len() > named {
        let reason = format!(
            "has {} cells, and line 1 names {named} columns; put a text that holds a comma in quotes",
            row.len()
        );
        return Ok(Some(Err(RowRefusal { line: *line, column: "row", reason })));
    }
    let texts = columns.iter().map(|at| at.and_then(|at| row.get(at)).unwrap_or_default());
    Ok(Some(RecordDraft::read(*line, texts)))
}

fn next_json(bytes: &mut dyn BufRead, line: &mut u64) -> Result<ReadRow, String> {
    let mut text = Vec::new();
    loop {
        text.clear();
        let read =
            bytes.take(LONGEST_LINE).read_until(b'\n', &mut text).map_err(|e| source::io_error_words(&e))?;
        if read == 0 {
            return Ok(None);
        }
        *line += 1;
        if text.len() as u64 >= LONGEST_LINE && !text.ends_with(b"\n") {
            return Err(format!("line {line} is longer than {LONGEST_LINE} bytes"));
        }
        if !text.trim_ascii().is_empty() {
            break;
        }
    }
    let fields = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&text);
    let fields =
        fields.or_else(|error| serde_json::from_slice(&json::without_nan(&text)).map_err(|_same| error));
    let mut fields = match fields {
        Ok(fields) => fields,
        Err(error) => {
            let reason = format!("is not a JSON object: {error}");
            return Ok(Some(Err(RowRefusal { line: *line, column: "row", reason })));
        }
    };
    if let Some(summary) = fields.remove("summary") {
        return Ok(Some(whole::read(*line, summary)));
    }
    let names = fields.keys().map(String::as_str);
    if let Some((name, column)) = misspelt(names, |known| fields.contains_key(known)) {
        let reason =
            format!("is not there, but the unknown field {name:?} is; correct its name, or remove it");
        return Ok(Some(Err(RowRefusal { line: *line, column, reason })));
    }
    let texts: Vec<String> = IMPORT_COLUMNS
        .iter()
        .map(|column| match fields.get(column.name) {
            None | Some(serde_json::Value::Null) => String::new(),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
        .collect();
    Ok(Some(RecordDraft::read(*line, texts.iter().map(String::as_str))))
}

fn csv_problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => source::io_error_words(error),
        _ => error.to_string(),
    }
}
