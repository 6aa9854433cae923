//! Makes text from callers safe to show. Any caller can choose names, so characters that could move a terminal's cursor, change the
//! direction of writing, or be invisible are written as their number wherever people read them.
//!
//! | where | `zlib` with U+202E before its end |
//! |---|---|
//! | terminal, page, report, text log | `zl\u{202e}ib` |
//! | JSON on a terminal or in a log | `zl\u202eib`, which programs read as the same text |
//! | labels of metrics | `zl\\u{202e}ib`, which Prometheus shows as in the first line |

use std::{borrow::Cow, fmt::Write as _};

/// Whether a character is shown as its number: control characters, marks that change the direction of writing, and marks without width.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character separates words or lines.
fn is_blank(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\t')
}

/// A text for one line: hidden characters as their numbers, line breaks and tabs as spaces.
#[must_use]
pub fn escaped_line(text: &str) -> Cow<'_, str> {
    replace_hidden(text, is_hidden, |c, out| {
        if is_blank(c) {
            out.push(' ');
        } else {
            push_number(c, out);
        }
    })
}

/// [`escaped_line`] as an owned text.
#[must_use]
pub fn clean(text: &str) -> String {
    escaped_line(text).into_owned()
}

/// A text of many lines, such as a page: hidden characters as their numbers, line breaks and tabs unchanged.
#[must_use]
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    replace_hidden(text, |c| is_hidden(c) && !is_blank(c), push_number)
}

/// JSON with hidden characters as JSON escapes, which programs read as the same text.
#[must_use]
pub fn escaped_json(text: &str) -> Cow<'_, str> {
    replace_hidden(
        text,
        |c| is_hidden(c) && !is_blank(c),
        |c, out| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _written = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Prometheus' text format with hidden characters as their numbers, in the escapes of that format.
#[must_use]
pub fn escaped_metrics(text: &str) -> Cow<'_, str> {
    replace_hidden(
        text,
        |c| is_hidden(c) && !is_blank(c),
        |c, out| {
            out.push('\\');
            push_number(c, out);
        },
    )
}

/// Lines of a log that may have colours: hidden characters as their numbers, except the sequences for colours, which begin with a control
/// character.
#[must_use]
pub fn in_coloured_log(text: &str) -> Cow<'_, str> {
    replace_hidden(text, |c| is_hidden(c) && !c.is_ascii_control(), push_number)
}

fn push_number(c: char, out: &mut String) {
    let _written = write!(out, "\\u{{{:x}}}", u32::from(c));
}

fn replace_hidden<'t>(
    text: &'t str,
    is_meant: fn(char) -> bool,
    push: impl Fn(char, &mut String),
) -> Cow<'t, str> {
    let Some(first) = text.find(is_meant) else { return Cow::Borrowed(text) };
    let (before, rest) = text.split_at(first);
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(before);
    for c in rest.chars() {
        if is_meant(c) {
            push(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        assert_eq!(escaped_line("a\u{1b}[2Jb\r\nc\u{9b}d"), "a\\u{1b}[2Jb  c\\u{9b}d");
        assert_eq!(escaped_line("gpj\u{202e}.exe\u{2066}\u{feff}"), "gpj\\u{202e}.exe\\u{2066}\\u{feff}");
        assert_eq!(escaped_line("ünïcödé 包"), "ünïcödé 包");
        assert_eq!(escaped_lines("<p>\n\ta\u{202e}b\0</p>"), "<p>\n\ta\\u{202e}b\\u{0}</p>");
        assert_eq!(escaped_metrics("x{p=\"a\u{202e}\"} 1\n"), "x{p=\"a\\\\u{202e}\"} 1\n");
        let shown = in_coloured_log("\u{1b}[32mINFO\u{1b}[0m a\u{202e}\n");
        assert_eq!(shown, "\u{1b}[32mINFO\u{1b}[0m a\\u{202e}\n");
    }

    #[test]
    fn json_stays_json_and_says_the_same() {
        let text = "a\u{202e}b\u{e0001}c";
        let json = format!("{{\n  \"name\": \"{text}\"\n}}\n");
        let shown = escaped_json(&json);
        assert_eq!(shown, "{\n  \"name\": \"a\\u202eb\\udb40\\udc01c\"\n}\n");
        assert!(matches!(escaped_json("{\"a\": \"ü\"}"), Cow::Borrowed(_)));
    }
}
