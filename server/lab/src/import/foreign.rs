//! Recorded history as unchecked bytes, for fuzzing.

use std::{io::Cursor, path::Path};

use plimsoll_core::fuzz::{Target, target};

use super::{
    Reader,
    source::{self, ReadPosition},
};

/// The parsers here.
pub const TARGETS: [Target; 1] = [target("history", read)];

/// Reads the bytes as a file of CSV or of JSON lines, row by row.
fn read(bytes: &[u8]) {
    let path = Path::new("history");
    let Ok(text) = source::open_bytes(path, Cursor::new(bytes.to_vec()), ReadPosition::default()) else {
        return;
    };
    let Ok(mut reader) = Reader::of(path, text) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.line > 0, "a record names its line");
    }
}
