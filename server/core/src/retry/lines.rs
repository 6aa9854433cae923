//! The lines at the end of a log that can say why something failed.
//!
//! Read is only the end, line by line: without colours and NUL (UTF-16 read as bytes is ASCII with NUL between), a carriage
//! return ends a line, so that a progress bar is many lines and not one, and without the time or number that a runner or
//! Spack prints in front. Passed over is what only quotes:
//!
//! | line | for example |
//! |---|---|
//! | source beside a message of a compiler, or under a frame of a Python traceback | ` 12 \| puts("Killed");` |
//! | a command that a shell echoes | `+ grep Killed log`, `$ grep Killed log` |
//! | a check that passed | `ok 3 - disk: No space left on device` |

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// Bytes at the end of a log that are read. The reason of a failure stands near the end; this bounds the time.
const READ: usize = 64 << 10;
/// Bytes of a line that are shown.
const SHOWN: usize = 200;

static COLOURS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))").ok());

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
        self.rev_with_passed().filter(|line| !went_well(line.trim_start()))
    }

    /// The same, and checks that passed.
    pub(super) fn rev_with_passed(&self) -> impl Iterator<Item = &str> {
        // a line after a frame of a traceback quotes the source: so each line is looked at with the one before it
        let all: Vec<&str> = self.0.lines().map(|line| without_gutter(line.trim_end())).collect();
        let before = [""].into_iter().chain(all.iter().copied()).collect::<Vec<_>>();
        let pairs: Vec<(&str, &str)> = before.into_iter().zip(all).collect();
        let says = |(before, line): &(&str, &str)| !line.is_empty() && !quotes(before, line);
        pairs.into_iter().rev().filter(says).map(|(_, line)| line)
    }
}

/// Plain text: no colours, carriage returns as line ends, no NUL, no mark of the byte order.
fn clean(text: &str) -> String {
    let plain = COLOURS.as_ref().map_or(Cow::Borrowed(text), |colours| colours.replace_all(text, ""));
    let letters = plain.chars().filter(|c| !matches!(c, '\0' | '\u{feff}'));
    // the mark of UTF-16, read as UTF-8
    letters.skip_while(|c| *c == '\u{fffd}').map(|c| if c == '\r' { '\n' } else { c }).collect()
}

/// A line without what a runner or Spack puts in front of it.
fn without_gutter(line: &str) -> &str {
    let line = without_time(line);
    without_number(line).unwrap_or(line)
}

/// GitLab's runner: `2024-05-22T12:43:46.962646Z 01O `, with a `+` for the rest of a long line.
fn without_time(line: &str) -> &str {
    let bytes = line.as_bytes();
    let at = |index: usize, any_of: &[u8]| bytes.get(index).is_some_and(|byte| any_of.contains(byte));
    let is_time = at(4, b"-") && at(10, b"T") && at(19, b".") && at(26, b"Z") && at(27, b" ");
    let is_stream = at(30, b"OE") && at(31, b" +");
    if is_time && is_stream { line.get(32..).unwrap_or_default() } else { line }
}

/// Spack's summary of a build log: `  >> 124    message`, `     123    context`.
fn without_number(line: &str) -> Option<&str> {
    let indented = line.strip_prefix("  ")?.trim_start();
    let rest = indented.strip_prefix(">> ").unwrap_or(indented);
    let message = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if message.len() == rest.len() { None } else { message.strip_prefix("    ") }
}

/// The line only repeats source or commands.
fn quotes(before: &str, line: &str) -> bool {
    let text = line.trim_start();
    let source = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    let framed = line.starts_with("    ") && is_frame(before);
    let echo = ["$ ", "+ ", "++ ", "+++ "].iter().any(|mark| text.starts_with(mark));
    source || framed || echo
}

/// `  File "x.py", line 3, in f` of Python.
fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("File \"") && line.contains("\", line ")
}

/// A check that passed, or a step, in the words of TAP, Automake, Google's test library, Rust, `CTest` and pytest.
pub(super) fn went_well(text: &str) -> bool {
    let numbered =
        text.strip_prefix("ok ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let starts = ["PASS: ", "PASS ", "PASSED ", "[       OK ]"].iter().any(|mark| text.starts_with(mark));
    // a time may follow: `Passed    0.01 sec`
    let said = text.trim_end_matches(|c: char| c.is_ascii_digit() || ". %[](=)".contains(c));
    let said = said.strip_suffix("sec").or_else(|| said.strip_suffix("ms")).unwrap_or(said);
    let said = said.trim_end_matches(|c: char| c.is_ascii_digit() || ". ".contains(c));
    numbered || starts || [" ok", " Passed", " PASSED"].iter().any(|end| said.ends_with(end))
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
    fn what_a_runner_or_spack_puts_in_front_of_a_line_is_left_out() {
        for line in [
            "x.c:1:2: error: no",
            "2024-05-22T12:43:46.962646Z 01O x.c:1:2: error: no",
            "2024-05-22T12:43:46.962646Z 0aE+x.c:1:2: error: no",
            "  >> 124    x.c:1:2: error: no",
            "     123    x.c:1:2: error: no",
            "2024-05-22T12:43:46.962646Z 01O   >> 7    x.c:1:2: error: no",
        ] {
            assert_eq!(without_gutter(line), "x.c:1:2: error: no", "{line}");
        }
        for line in ["  12 files", "  12", "2024-05-22 x", "  >> x", "   1    ", ""] {
            let rest = without_gutter(line);
            assert!(rest == line || rest.is_empty(), "{line}");
        }
    }

    #[test]
    fn what_only_quotes_is_passed_over_and_the_rest_is_not() {
        let quoting = [
            "   12 | puts(\"Killed\");",
            "      |      ^~~~~~",
            "+ grep Killed log",
            "$ grep Killed log",
            "ok 12 - survives: No space left on device",
            "PASS: oom.sh Killed",
            "test handles_oom ... ok",
            " 3/10 Test  #3: out_of_memory ....   Passed    0.01 sec",
            "tests/x.py::test_killed PASSED     [ 50%]",
            "[       OK ] Disk.Full (12 ms)",
        ];
        for line in quoting {
            assert!(quotes("", line) || went_well(line.trim_start()), "{line}");
        }
        assert!(quotes("  File \"x.py\", line 3, in f", "    raise OSError(\"Killed\")"));
        let saying = [
            "Killed",
            "x.c:1:2: error: no",
            "not ok 3 - disk: No space left on device",
            "test x ... FAILED",
            "tests/x.py::test_killed FAILED [ 50%]",
            "make: *** [x] Error 1",
            "  │ exit code: -9",
            "look ok but: error",
        ];
        for line in saying {
            assert!(!quotes("", line) && !went_well(line), "{line}");
        }
        let log = "  File \"x.py\", line 3, in f\n    raise OSError(1)\nOSError: 1\n";
        assert_eq!(
            LogTail::of(log).rev().collect::<Vec<_>>(),
            ["OSError: 1", "  File \"x.py\", line 3, in f"]
        );
    }

    #[test]
    fn only_the_end_of_a_log_is_held() {
        let log = "ü building\n".repeat(1_000_000);
        let end = LogTail::of(&log);
        assert!(end.0.len() <= READ && end.0.capacity() <= 2 * READ && end.rev().count() > 1000);
    }
}
