//! Lines of a log that mention an error in general words, for failures that no rule matches.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::retry::log::log_tail::{LogTail, shown, start};

/// Most bytes of a line that are read.
const LINE_BYTES: usize = 4 << 10;

/// Matches a line that starts to report what went wrong: `error` or a similar word, and a colon.
static BEGINS_REPORT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u:(?:error|fatal|fail|failed|failure|exception|panic|abort) ?:)").ok());
/// Matches a line that mentions an error.
static ERROR_WORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u:error|fatal|fail|abort|exception|panic|cannot|unable)").ok());

/// Whether the line starts to report what went wrong.
pub(in crate::retry) fn begins_to_report(line: &str) -> bool {
    BEGINS_REPORT.as_ref().is_some_and(|words| words.is_match(start(line, LINE_BYTES).as_bytes()))
}

/// The last line that mentions an error in general words. It distinguishes failures that no rule matches.
pub(in crate::retry) fn last_words(tail: &LogTail) -> Option<String> {
    let speaks = |line: &&str| {
        ERROR_WORDS.as_ref().is_some_and(|words| words.is_match(start(line, LINE_BYTES).as_bytes()))
    };
    tail.failure_lines_reversed().find(speaks).map(shown)
}

/// The first line that names an error in general words, else the last one that mentions an error.
pub(in crate::retry) fn first_words(tail: &LogTail) -> Option<String> {
    let first = tail.failure_lines_reversed().filter(|line| begins_to_report(line)).last().map(shown);
    first.or_else(|| last_words(tail))
}

/// The last line in which GitLab's runner reports that the job failed. It ends the log: a build that prints the same line prints it
/// earlier.
pub(in crate::retry) fn runners_last_word(tail: &LogTail) -> Option<String> {
    tail.failure_lines_reversed().find(|line| line.starts_with("ERROR: Job failed")).map(shown)
}
