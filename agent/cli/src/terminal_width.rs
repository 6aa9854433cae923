//! The width of the process's terminals, and text wrapped to that width. Text for a file or a pipe is not
//! wrapped.

use std::{borrow::Cow, os::fd::AsFd};

use plimsoll_proto::wrap::wrapped;
use rustix::termios::{isatty, tcgetwinsize};

/// Width if the terminal does not report it, in columns.
const COLUMNS: usize = 80;
/// Least width that text is wrapped to. A narrower terminal breaks the lines itself.
const MIN_COLUMNS: usize = 40;

/// The width of a stream's terminal, in columns; `None` if the stream is not a terminal.
pub(crate) fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    let stream = stream.as_fd();
    if !isatty(stream) {
        return None;
    }
    let width = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if width == 0 { COLUMNS } else { width })
}

/// Text for people, wrapped to the width of the stream's terminal.
pub(crate) fn wrapped_for(text: &str, stream: impl AsFd) -> Cow<'_, str> {
    match terminal_columns(stream).filter(|columns| *columns >= MIN_COLUMNS) {
        Some(columns) => Cow::Owned(wrapped(text, columns)),
        None => Cow::Borrowed(text),
    }
}
