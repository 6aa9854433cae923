//! Selects the lines at the end of a log that can show why something failed.
//!
//! Of a long log an excerpt is read ([`log_excerpt`]), line by line: wrappers are removed ([`reader`](mod@crate::retry::log::line_wrappers)), and lines that only mention a failure are
//! skipped ([`mentioned_failures`](mod@crate::retry::log::mentioned_failures)). A carriage return ends a line too, so a progress bar becomes many
//! lines; all of them keep the line number that an editor shows. NUL bytes are removed, because ASCII text in UTF-16 has one after each
//! letter.

use std::borrow::Cow;

use plimsoll_base::log_excerpt;

use crate::retry::{
    log::line_wrappers::{json_message, plain_text, unwrapped},
    log::mentioned_failures::{LineBefore, went_well},
};
use crate::{domain::LogPlace, mask};

/// Most bytes read of a log; of a longer one its errors and its end. The limit bounds the time.
const READ_BYTES: usize = 64 << 10;
/// Longest text shown for a line, in bytes.
const SHOWN_BYTES: usize = 200;

/// A log that is at most this many bytes shorter than the maximum was probably cut by its sender; masking of secrets may have removed a
/// line or two.
const CUT_MARGIN_BYTES: usize = 4 << 10;

/// The end of a log as plain text, with its carriage returns.
#[derive(Debug)]
pub(in crate::retry) struct LogTail {
    text: String,
    /// Number of lines in `text`, if the beginning of the log is missing.
    lines_if_cut: Option<usize>,
    /// Number of lines at the start of `text` that come from somewhere above the rest.
    lines_above: usize,
}

/// A line with its index in the text, from 0.
#[derive(Debug, Clone, Copy)]
pub(in crate::retry) struct NumberedLine<'l> {
    pub(in crate::retry) text: &'l str,
    number: usize,
}

impl LogTail {
    /// Takes the end of this log.
    pub(in crate::retry) fn of(log: &str) -> Self {
        let excerpt = if log.len() > READ_BYTES {
            Cow::Owned(String::from_utf8_lossy(&log_excerpt::of(log.as_bytes(), READ_BYTES)).into_owned())
        } else {
            Cow::Borrowed(log)
        };
        let above =
            excerpt.find(log_excerpt::END_MARK).map_or("", |at| excerpt.get(..at).unwrap_or_default());
        let lines_above = if above.is_empty() { 0 } else { above.split('\n').count() };
        let is_cut = lines_above > 0 || log.len() + CUT_MARGIN_BYTES > READ_BYTES;
        let text = with_messages(plain_text(&excerpt));
        let cut = is_cut.then(|| text.trim_end_matches('\n').split('\n').count());
        Self { text, lines_if_cut: cut, lines_above }
    }

    /// Lines that can show why something failed, the last one first.
    pub(in crate::retry) fn failure_lines_reversed(&self) -> impl Iterator<Item = &str> {
        self.rev_with_passed().map(|line| line.text).filter(|line| !went_well(line))
    }

    /// Like [`Self::failure_lines_reversed`], but with the lines that report a passed check.
    pub(in crate::retry) fn rev_with_passed(&self) -> impl Iterator<Item = NumberedLine<'_>> {
        let mut before = LineBefore::default();
        let lines = self.text.split('\n').enumerate();
        let all =
            lines.flat_map(|(number, line)| line.split('\r').map(move |text| (number, unwrapped(text))));
        let says = all.filter(|(_, line)| !before.is_quoted_by(line));
        let says = says.map(|(number, line)| NumberedLine { number, text: line.trim_start() });
        let says: Vec<NumberedLine<'_>> = says.filter(|line| !line.text.is_empty()).collect();
        says.into_iter().rev()
    }

    /// Position of a line in the log, or from the end of the log if its beginning is missing; `None` if what is between it and the end is
    /// missing too.
    pub(in crate::retry) fn place(&self, line: NumberedLine<'_>) -> Option<LogPlace> {
        if line.number < self.lines_above {
            return None;
        }
        let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(match self.lines_if_cut {
            None => LogPlace::FromStart(place(line.number + 1)),
            Some(lines) => LogPlace::FromEnd(place(lines.saturating_sub(line.number).max(1))),
        })
    }
}

/// The text, with the message in place of each line that is a JSON object. Its escapes may have hidden a secret from the mask.
fn with_messages(text: String) -> String {
    if !text.contains("\":") {
        return text;
    }
    let masked = |mut message: String| {
        mask::mask(&mut message);
        message
    };
    let lines =
        text.split('\n').map(|line| json_message(line).map(masked).map_or(Cow::Borrowed(line), Cow::Owned));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text to show for a line: a long one is cut in the middle.
pub(in crate::retry) fn shown(line: &str) -> String {
    if line.len() <= SHOWN_BYTES {
        return line.to_owned();
    }
    format!("{} ... {}", start(line, SHOWN_BYTES / 2), text_end(line, SHOWN_BYTES / 2))
}

/// The last bytes of a text, at most `most`, cut at a character boundary.
pub(in crate::retry) fn text_end(text: &str, most: usize) -> &str {
    let from = (text.len().saturating_sub(most)..=text.len()).find(|at| text.is_char_boundary(*at));
    text.get(from.unwrap_or(0)..).unwrap_or_default()
}

/// The first bytes of a text, at most `most`, cut at a character boundary.
pub(in crate::retry) fn start(text: &str, most: usize) -> &str {
    let to = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..to.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_removed_and_quoted_source_lines_skipped() {
        let log = "#7 0.1   File \"x.py\", line 3, in f\n#7 0.2     raise OSError(1)\n#7 0.3 OSError: 1\n";
        let lines = LogTail::of(log);
        let found: Vec<_> = lines.failure_lines_reversed().collect();
        assert_eq!(found, ["OSError: 1", "File \"x.py\", line 3, in f"]);
    }

    #[test]
    fn agent_output_in_a_log_is_skipped() {
        let report = "plimsoll: regex@1 was ended by SIGKILL after 3.0 s; the kernel killed 1 process; needed more than 120 MiB\n  \
             memory    needed more than 120 MiB, limit 120 MiB\n            most in build (120 MiB)\n  killed    1 process by the kernel\n";
        let folded = format!(
            "\x1b[0Ksection_start:1:plimsoll[collapsed=true]\r\x1b[0K{report}\x1b[0Ksection_end:1:plimsoll\r\x1b[0K\n  \
             verdict   Do not retry: error\n            failed to build\n"
        );
        for agents in [report, &folded] {
            let log = format!("cc1: error: no\n{agents}Cleaning up\n  killed it later\n");
            let tail = LogTail::of(&log);
            let lines: Vec<&str> = tail.failure_lines_reversed().collect();
            assert_eq!(lines, ["killed it later", "Cleaning up", "cc1: error: no"]);
        }
    }

    #[test]
    fn an_escape_of_json_hides_no_secret() {
        let line = r#"{"message":"fatal: https:\/\/user:hunter2Xyz99@git.x\/y: Could not resolve host: x"}"#;
        let tail = LogTail::of(line);
        let read: Vec<&str> = tail.failure_lines_reversed().collect();
        assert!(read[0].contains("Could not resolve host") && !read[0].contains("hunter2"), "{read:?}");
    }

    #[test]
    fn only_the_end_of_a_log_is_held() {
        let log = "ü building\n".repeat(1_000_000);
        let end = LogTail::of(&log);
        let text = &end.text;
        assert!(text.len() <= READ_BYTES);
        assert!(text.capacity() <= 2 * READ_BYTES);
        assert!(end.failure_lines_reversed().count() > 1000);
    }

    #[test]
    fn line_numbers_match_an_editor() {
        let places = |log: &str| -> Vec<(String, LogPlace)> {
            let tail = LogTail::of(log);
            tail.rev_with_passed().map(|line| (line.text.to_owned(), tail.place(line).unwrap())).collect()
        };
        let few = places("one\n\n10 %\r50 %\rthree\r\nfour\n");
        let at = |text: &str| few.iter().find(|(line, _)| line == text).unwrap().1;
        assert_eq!([at("one"), at("50 %"), at("three"), at("four")], [1, 3, 3, 4].map(LogPlace::FromStart));
        let many = places(&"building\n".repeat(100_000));
        assert_eq!(many[..2].iter().map(|line| line.1).collect::<Vec<_>>(), [1, 2].map(LogPlace::FromEnd));
        let colour = places("\x1b]0;a title that never ends\nnext\n");
        assert_eq!(colour.last().unwrap().1, LogPlace::FromStart(2), "a colour ends with its line");
    }
}
