//! Recognizes lines that only mention a failure and do not report one: quoted source, commands, help, passed checks, and words in quotation
//! marks.
//!
//! | line | for example |
//! |---|---|
//! | source next to a compiler message, or under a frame of a Python traceback | ` 12 \| puts("Killed");` |
//! | a command that a shell echoes | `+ grep Killed log`, `$ grep Killed log`, `[command]git fetch` |
//! | a comment, an option in a help text, a line of documentation that a search found | `// Killed`, `--retry  if it was reset` |
//! | a check that passed or starts | `ok 3 - disk: No space left on device`, `=== RUN   TestReset` |
//! | the title of a failed test: what failed is not what it is called | `1) retries if the connection was refused` |
//! | a compiler's note beside a message | `x.py:4: note: Revealed type is ConnectionResetError` |
//! | words in quotation marks in a line that reports no error | `handles 'Out of memory'` |
//! | lines of the agent itself: messages and its report | `plimsoll: zlib ended with exit code 2`, `  killed    1 process` |

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// Matches words, outside of quotation marks, by which a line reports an error.
static REPORTS_ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:\b(?:err|errs|error|errors|errno|fatal|fail|fails|failed|failure|exception|panic|panicked|abort|aborted|aborting|cannot|can't",
        r"|unable|denied|killed|died|broken|exhausted|could not|couldn't|did not|didn't|not found|not present|not available|refused|failing|stderr",
        r"|terminated|higher than|does not exist|doesn't exist|unmet|status|code|reason|caused|message|msg|mismatch)\b|[a-z](?:Error|Exception)\b)"
    ))
    .ok()
});

/// Matches a line of a manual that a search printed.
static MANUAL_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:\S+\.(?:md|rst|adoc|html?|pod|tex)[:-]|(?:-[A-Za-z0-9], )?--?[A-Za-z][A-Za-z0-9-]*(?:[ =][A-Z<\[]\S*)?(?:  +|\t)\S)").ok()
});

/// Matches what a compiler says beside a message: its reason is the message.
static COMPILER_NOTE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\S+:[0-9]+(?::[0-9]+)?: note: ").ok());

/// Matches the title of a failed test, as Mocha, `RSpec` and `ExUnit` number them and Jest marks them.
static TEST_TITLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:[0-9]{1,4}\) (?:[^:]|:[^ ])*$|[●✕✗✘×] [^:]* › )").ok());

/// Matches a line in which a tool reports that it will retry or take another way.
static TRIES_AGAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:\b(?:retrying|trying again|re-?attempting|reconnecting)\b|\bwill (?:be )?(?:retr(?:y|ied)|try again)\b",
        r"|\b(?:try|tries|retry|retries|attempt|attempts) (?:remaining|remain|left)\b|\b(?:retry|try again) (?:in|after) [0-9]|\bnext (?:attempt|try|retry) in\b",
        r"|\b(?:before|until) (?:trying|retrying|the next)\b|\b(?:attempt|try|retry) #?[0-9]+ ?(?:of|/) ?[0-9]+\b|\bfall(?:ing|s)? back\b",
        r"|\bnow trying\b|\b(?:trying|using|attempting) (?:the )?(?:next|another|other|alternat\w+|fallback|mirrors?)\b)"
    ))
    .ok()
});

/// Matches a line in which a tool only warns.
static WARNS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u:^[\[(*#]{0,3}(?:[a-z]+ )?warn(?:ing)?\b|^W: )").ok());

/// Matches a line with similar words, in which a tool gives up.
static GIVES_UP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i-u:\b(?:0|no|no more) (?:try|tries|retry|retries|attempt|attempts)\b|\b(?:giving|gave|give) up\b|\bnot retrying\b|\bafter retrying\b)").ok()
});

fn matches_form(form: &LazyLock<Option<Regex>>, line: &str) -> bool {
    form.as_ref().is_some_and(|form| form.is_match(line))
}

/// The line before the current one: what is quoted may continue on the next line.
#[derive(Debug, Default)]
pub(in crate::retry) struct LineBefore<'l> {
    line: &'l str,
    is_source: bool,
    written_by_agent: bool,
}

impl<'l> LineBefore<'l> {
    /// Whether `line` is the agent's own, or only repeats source, commands or a manual. Remembers the result for the next line.
    pub(in crate::retry) fn is_quoted_by(&mut self, line: &'l str) -> bool {
        let text = line.trim_start();
        let is_source = is_source(text, self.is_source);
        let framed = indentation_width(line) > indentation_width(self.line) && is_frame(self.line);
        let written_by_agent = written_by_agent(line, self.written_by_agent);
        *self = Self { line, is_source, written_by_agent };
        let echo = ["$ ", "+ ", "++ ", "+++ ", "[command]", "// ", "/* ", "<!--"];
        written_by_agent
            || is_source
            || framed
            || echo.iter().any(|mark| text.starts_with(mark))
            || matches_form(&MANUAL_LINE, text)
            || matches_form(&TEST_TITLE, text)
            || matches_form(&COMPILER_NOTE, text)
    }
}

/// Columns of the title in a row of the agent's report: they follow two blanks, and a blank ends them.
const REPORT_TITLE: std::ops::Range<usize> = 2..12;

/// Whether the agent wrote the line: a message, a section of its report, or a row below one of these. Such a line repeats how an earlier
/// build ended.
fn written_by_agent(line: &str, before: bool) -> bool {
    let fold = line.starts_with("section_") && line.contains(":plimsoll");
    let is_title = |title: &str| {
        title.ends_with(' ') && title.bytes().all(|byte| byte == b' ' || byte.is_ascii_lowercase())
    };
    let is_row = || {
        let title = line.get(REPORT_TITLE).is_some_and(is_title);
        line.trim().is_empty() || (line.starts_with("  ") && title)
    };
    line.starts_with("plimsoll: ") || fold || (before && is_row())
}

/// Whether the line is source next to a compiler message: a numbered line, a line of markers below it, or an unnumbered line after these.
fn is_source(text: &str, before: bool) -> bool {
    let bare = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some(rest) = bare.trim_start().strip_prefix('|') else { return false };
    let marks = rest.chars().all(|c| c.is_whitespace() || "|^~-_+.=/\\".contains(c));
    before || marks || bare.len() < text.len()
}

fn indentation_width(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether the line is a frame of a Python traceback: `  File "x.py", line 3, in f`.
fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("File \"") && line.contains("\", line ")
}

/// Whether a check passed or a step starts, in the words of TAP, Automake, Google's test library, Rust, `CTest`, Go, pytest and others.
pub(in crate::retry) fn went_well(text: &str) -> bool {
    let numbered =
        text.strip_prefix("ok ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let marks = [
        "PASS: ",
        "PASS ",
        "PASSED ",
        "[       OK ]",
        "[ RUN      ]",
        "--- PASS: ",
        "ok  \t",
        "=== RUN ",
        "\u{2713} ",
        "\u{2714} ",
        "\u{221a} ",
    ];
    let starts = marks.iter().any(|mark| text.starts_with(mark))
        || text.starts_with("checking ")
        || text.contains("expected)")
            && ["(as expected)", "(expected)"].iter().any(|mark| text.contains(mark));
    // a time may follow the word, as in `Passed    0.01 sec`
    let words = text.trim_end_matches(|c: char| c.is_ascii_digit() || ". %[](=)".contains(c));
    let words = words.strip_suffix("sec").or_else(|| words.strip_suffix("ms")).unwrap_or(words);
    let words = words.trim_end_matches(|c: char| c.is_ascii_digit() || ". ".contains(c));
    numbered || starts || [" ok", " Passed", " PASSED"].iter().any(|end| words.ends_with(end))
}

/// Whether a tool reports that it will retry.
pub(in crate::retry) fn tries_again(line: &str) -> bool {
    matches_form(&TRIES_AGAIN, line) && !matches_form(&GIVES_UP, line)
}

/// Whether a tool reports that it will retry, or only warns, so that the failure in this line did not end the build.
pub(in crate::retry) fn goes_on(line: &str) -> bool {
    tries_again(line) || (matches_form(&WARNS, line) && !matches_form(&GIVES_UP, line))
}

/// The line; its text in quotation marks is left out if nothing outside of them reports an error.
pub(in crate::retry) fn without_mentions(line: &str) -> Cow<'_, str> {
    if !line.contains(['"', '\'', '`', '\u{2018}', '\u{201c}']) {
        return Cow::Borrowed(line);
    }
    let outside = outside_of_quotes(line);
    // an assertion quotes what it compares
    if !line.contains("AssertionError: assert ") && matches_form(&REPORTS_ERROR, &outside) {
        Cow::Borrowed(line)
    } else {
        Cow::Owned(outside)
    }
}

/// Replaces text between quotation marks with `x`. An apostrophe inside a word is not a quotation mark.
fn outside_of_quotes(line: &str) -> String {
    let mut outside = String::with_capacity(line.len());
    let (mut rest, mut before) = (line, ' ');
    while let Some(letter) = rest.chars().next() {
        let after = rest.get(letter.len_utf8()..).unwrap_or_default();
        outside.push(letter);
        let end =
            closing_quote(letter).filter(|_| !before.is_alphanumeric()).and_then(|mark| after.find(mark));
        if let Some(end) = end.filter(|end| *end > 0) {
            outside.push('x');
            (rest, before) = (after.get(end..).unwrap_or_default(), 'x');
        } else {
            (rest, before) = (after, letter);
        }
    }
    outside
}

fn closing_quote(mark: char) -> Option<char> {
    match mark {
        '"' | '\'' => Some(mark),
        '`' => Some('`'),
        '\u{2018}' => Some('\u{2019}'),
        '\u{201c}' => Some('\u{201d}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotes(before: &str, line: &str) -> bool {
        let mut lines = LineBefore::default();
        lines.is_quoted_by(before);
        lines.is_quoted_by(line)
    }

    #[test]
    fn only_quoting_lines_are_skipped() {
        let quoting = [
            "   12 | puts(\"Killed\");",
            "      |      ^~~~~~",
            "+ grep Killed log",
            "$ grep Killed log",
            "[command]git grep Killed",
            "// std::bad_alloc",
            "--retry-connrefused   also after Connection reset by peer",
            "guide.md:7: No space left on device means a full disk",
            "ok 12 - survives: No space left on device",
            "PASS: oom.sh Killed",
            "=== RUN   TestReset/Connection reset by peer",
            "\u{2713} handles ECONNRESET (5 ms)",
            "test handles_oom ... ok",
            " 3/10 Test  #3: out_of_memory ....   Passed    0.01 sec",
            "tests/x.py::test_killed PASSED     [ 50%]",
            "  1) test retries after connection refused (X.RolloutTest)",
            "  \u{25cf} upload \u{203a} reports ENOSPC to the caller",
            "client_test.go:60: injected: connection refused (expected), retry 1",
            "src/errors.py:44: note: Revealed type is ConnectionResetError",
            "[       OK ] Disk.Full (12 ms)",
        ];
        for line in quoting {
            assert!(quotes("", line) || went_well(line.trim_start()), "{line}");
        }
        assert!(quotes("  File \"x.py\", line 3, in f", "    raise OSError(\"Killed\")"));
        assert!(quotes("   3 | f();", "     | Killed by the line above"));
        let saying = [
            "Killed",
            "x.c:1:2: error: no",
            "not ok 3 - disk: No space left on device",
            "test x ... FAILED",
            "tests/x.py::test_killed FAILED [ 50%]",
            "make: *** [x] Error 1",
            "  | Error in fail: timed out",
            "look ok but: error",
            "  1) Error: Connection refused",
        ];
        for line in saying {
            assert!(!quotes("", line) && !went_well(line), "{line}");
        }
        assert!(!quotes("  File \"x.py\", line 3, in f", "OSError: Killed"));
    }

    #[test]
    fn quoted_text_counts_only_in_error_reports() {
        for (line, without) in [
            ("note: handles 'No space left on device' and `Killed`", "note: handles 'x' and `x`"),
            ("puts(\"Out of memory\");", "puts(\"x\");"),
            ("the user's 'disk' isn't full", "the user's 'x' isn't full"),
            ("E  AssertionError: assert 'No space left' == 'Killed'", "E  AssertionError: assert 'x' == 'x'"),
        ] {
            assert_eq!(without_mentions(line), without);
        }
        for line in [
            "error: 'x' undeclared",
            "OSError: 'No space left'",
            "it's a plain line",
            "level=error msg=\"x\"",
            "'",
            "\"\"",
        ] {
            assert_eq!(without_mentions(line), line);
        }
    }

    #[test]
    fn retrying_is_distinguished_from_giving_up() {
        for line in [
            "x: reset; retrying in 329 ms",
            "spurious error (1 tries remaining)",
            "Will retry in 1 seconds.",
            "try again in 5 s",
            "[WARN] reset by peer",
            "npm warn network read ECONNRESET",
            "attempt 1 of 3: refused",
            "now trying to download from the source",
        ] {
            assert!(goes_on(line), "{line}");
        }
        for line in [
            "no retries left",
            "giving up after retrying 3 times",
            "please try again later",
            "lookup: Try again",
        ] {
            assert!(!goes_on(line), "{line}");
        }
    }
}
