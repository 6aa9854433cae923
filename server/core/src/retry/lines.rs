//! The lines at the end of a log that can say why something failed.
//!
//! Read is only the end, line by line: without what wraps a line ([`reader`](mod@super::reader)), and without the lines that only mention a
//! failure ([`mention`](mod@super::mention)). A carriage return ends a line, so that a progress bar is many lines and not one. UTF-16 read as
//! bytes is ASCII with NUL between.

use super::{
    mention::{LineBefore, went_well},
    reader::{clean, unwrapped},
};

/// Bytes at the end of a log that are read. The reason of a failure stands near the end; this bounds the time.
const READ: usize = 64 << 10;
/// Bytes of a line that are shown.
const SHOWN: usize = 200;

/// The end of a log as plain text.
#[derive(Debug)]
pub(super) struct LogTail(String);

impl LogTail {
    /// Of this log.
    pub(super) fn of(log: &str) -> Self {
        Self(clean(end(log, READ)))
    }

    /// Lines that can say why something failed, the last one first.
    pub(super) fn rev(&self) -> impl Iterator<Item = &str> {
        self.rev_with_passed().filter(|line| !went_well(line))
    }

    /// The same, and checks that passed.
    pub(super) fn rev_with_passed(&self) -> impl Iterator<Item = &str> {
        let mut before = LineBefore::default();
        let all = self.0.lines().map(unwrapped);
        let says = all.filter(|line| !before.is_quoted_by(line)).map(str::trim_start);
        let says: Vec<&str> = says.filter(|line| !line.is_empty()).collect();
        says.into_iter().rev()
    }
}

/// A line as it is shown: the start and the end of a long one.
pub(super) fn shown(line: &str) -> String {
    if line.len() <= SHOWN {
        return line.to_owned();
    }
    format!("{} ... {}", start(line, SHOWN / 2), end(line, SHOWN / 2))
}

/// At most so many bytes of the end.
pub(super) fn end(text: &str, most: usize) -> &str {
    let from = (text.len().saturating_sub(most)..=text.len()).find(|at| text.is_char_boundary(*at));
    text.get(from.unwrap_or(0)..).unwrap_or_default()
}

/// At most so many bytes of the start.
pub(super) fn start(text: &str, most: usize) -> &str {
    let to = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..to.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_without_its_wrapper_and_a_quotation_not_at_all() {
        let log = "#7 0.1   File \"x.py\", line 3, in f\n#7 0.2     raise OSError(1)\n#7 0.3 OSError: 1\n";
        let lines = LogTail::of(log);
        assert_eq!(lines.rev().collect::<Vec<_>>(), ["OSError: 1", "File \"x.py\", line 3, in f"]);
    }

    #[test]
    fn only_the_end_of_a_log_is_held() {
        let log = "ü building\n".repeat(1_000_000);
        let end = LogTail::of(&log);
        assert!(end.0.len() <= READ && end.0.capacity() <= 2 * READ && end.rev().count() > 1000);
    }
}
