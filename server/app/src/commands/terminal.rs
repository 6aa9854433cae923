//! Lines for people, as wide as the terminal that shows them. What goes into a pipe or a file stays as it is, and so does a table.

use std::{borrow::Cow, os::fd::AsFd};

use plimsoll_proto::wrap::wrapped;
use rustix::termios::{isatty, tcgetwinsize};

/// Columns of a terminal that does not tell.
const COLUMNS: u16 = 80;
/// A narrower terminal breaks lines itself.
const LEAST: u16 = 40;

/// A text as it is written to this stream.
pub(super) fn fitted(text: &str, stream: impl AsFd) -> Cow<'_, str> {
    let stream = stream.as_fd();
    if !isatty(stream) {
        return Cow::Borrowed(text);
    }
    let width = tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    match if width == 0 { COLUMNS } else { width } {
        ..LEAST => Cow::Borrowed(text),
        columns => Cow::Owned(wrapped(text, usize::from(columns))),
    }
}

/// The same, but rows of tables stay whole: lines with two spaces in a row.
pub(super) fn fitted_beside_tables(text: &str, stream: impl AsFd) -> String {
    let line = |line| if str::contains(line, "  ") { Cow::Borrowed(line) } else { fitted(line, &stream) };
    text.split_inclusive('\n').map(line).collect()
}
