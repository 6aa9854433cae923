//! Width of the process's terminals, and text wrapped to it. Other outputs get unwrapped text.

use std::{borrow::Cow, os::fd::AsFd};

use plimsoll_proto::wrap::wrapped;
use rustix::termios::{isatty, tcgetwinsize};

/// Columns if the terminal's width is unknown.
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

/// Text for people, wrapped for this stream.
pub(crate) fn fitted(text: &str, stream: impl AsFd) -> Cow<'_, str> {
    match columns(stream).filter(|columns| *columns >= LEAST) {
        Some(columns) => Cow::Owned(wrapped(text, columns)),
        None => Cow::Borrowed(text),
    }
}
