//! Recorded history as bytes that nobody has looked at yet, for fuzzing.

use std::{io::Cursor, path::Path};

use super::{
    Reader,
    source::{self, Form, Place},
};

/// Reads the bytes as a file of CSV or of JSON lines, row by row.
pub(crate) fn read(bytes: &[u8]) {
    let path = Path::new("history");
    let Ok(text) = source::look(path, Cursor::new(bytes.to_vec()), Place::default()) else { return };
    // a database is a file, and SQLite's own to read
    if matches!(text.form, Form::Sqlite) {
        return;
    }
    let Ok(mut reader) = Reader::of(path, text) else { return };
    while let Ok(Some(record)) = reader.next() {
        assert!(record.line > 0, "a record says where it stands");
    }
}
