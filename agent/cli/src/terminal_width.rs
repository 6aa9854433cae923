//! How wide the terminals of this process are, and text that fits them. What is no terminal gets text as it is.

use std::{borrow::Cow, os::fd::AsFd};

use plimsoll_proto::wrap::wrapped;
use rustix::termios::{isatty, tcgetwinsize};

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;
/// A narrower terminal breaks lines itself.
const LEAST: usize = 40;

/// Columns of a stream, if it is a terminal.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    let stream = stream.as_fd();
    if !isatty(stream) {
        return None;
    }
    let width = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if width == 0 { COLUMNS } else { width })
}

/// Text for people as it is written to this stream.
pub(crate) fn fitted(text: &str, stream: impl AsFd) -> Cow<'_, str> {
    match columns(stream).filter(|columns| *columns >= LEAST) {
        Some(columns) => Cow::Owned(wrapped(text, columns)),
        None => Cow::Borrowed(text),
    }
}
