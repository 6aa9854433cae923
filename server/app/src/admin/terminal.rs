//! Wraps text for people to the width of the terminal. Output to a pipe or a file is not wrapped,
//! and neither are tables.

use std::{borrow::Cow, os::fd::AsFd};

use plimsoll_proto::wrap::wrapped;
use rustix::termios::{isatty, tcgetwinsize};

/// Columns if the terminal's width is unknown.
const COLUMNS: u16 = 80;
/// Least width for wrapping: a narrower terminal breaks lines itself.
const MIN_COLUMNS: u16 = 40;

/// The text, wrapped if this stream is a terminal.
pub(super) fn wrapped_for(text: &str, stream: impl AsFd) -> Cow<'_, str> {
    let stream = stream.as_fd();
    if !isatty(stream) {
        return Cow::Borrowed(text);
    }
    let width = tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    match if width == 0 { COLUMNS } else { width } {
        ..MIN_COLUMNS => Cow::Borrowed(text),
        columns => Cow::Owned(wrapped(text, usize::from(columns))),
    }
}

/// Like [`wrapped_for`], but rows of tables (lines with two consecutive spaces) are not wrapped.
pub(super) fn wrapped_except_tables(text: &str, stream: impl AsFd) -> String {
    let line =
        |line| if str::contains(line, "  ") { Cow::Borrowed(line) } else { wrapped_for(line, &stream) };
    text.split_inclusive('\n').map(line).collect()
}
