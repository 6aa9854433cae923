//! Parses Copr's table of patterns and tags (`EXTRA_BUILDCHROOT_TAGS` in its `copr.conf`): a Python list of dictionaries, each with a
//! `pattern` over `owner/project/chroot/package` and `tags`.
//!
//! As in Copr, a pattern matches from the start of the text, and the tags of all matching patterns are combined. Only literals are parsed:
//! strings, lists, dictionaries, comments. Nothing is executed.

use std::fmt;

use super::{backtracking::MAX_CHOICES, pattern::Pattern};

/// Copr's table of patterns and tags.
#[derive(Debug, Clone, Default)]
pub struct CoprTable {
    pub(super) entries: Vec<CoprEntry>,
    /// Number of lines in the file before the table.
    pub(super) lines_before: usize,
}

/// One entry of the table: a pattern, and the tags for builds that match it.
#[derive(Debug, Clone)]
pub struct CoprEntry {
    pub(super) pattern: Pattern,
    /// Tags for builds that match the pattern.
    pub tags: Vec<String>,
    /// Line of the entry within the table, from 1.
    pub(super) line: usize,
}

/// An error in the table, with its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct CoprError {
    pub(super) line: usize,
    pub(super) text: String,
}

impl CoprEntry {
    /// Creates an entry with this pattern.
    /// Errors: the pattern is not a regular expression, or is too large.
    pub fn new(pattern: &str, tags: Vec<String>) -> Result<Self, String> {
        let compiled = Pattern::start(pattern).map_err(|why| format!("pattern '{pattern}' {why}"))?;
        Ok(Self { pattern: compiled, tags, line: 1 })
    }

    /// The pattern as the operator wrote it.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// Whether the pattern matches the beginning of `owner/project/chroot/package`.
    pub fn matches(&self, whole: &str) -> bool {
        self.pattern.is_match(whole)
    }
}

impl CoprTable {
    /// Most entries of one table. Copr's own table has some dozens; suggestions add one entry for each package.
    pub const MAX_ENTRIES: usize = 5000;

    /// Parses a table.
    /// Errors: the first error in the table, with its line.
    pub fn parse(text: &str) -> Result<Self, CoprError> {
        PythonLiteralReader { text, at: 0 }.parse_table()
    }

    /// Checks whether Python, which Copr uses, can match the patterns in a short time: Python tries the ways to match a pattern one after
    /// the other.
    /// Errors: the first entry for which this may take exponential time, with its line.
    pub fn check_backtracking(&self) -> Result<(), CoprError> {
        let Some(entry) = self.entries.iter().find(|entry| entry.pattern.may_backtrack()) else {
            return Ok(());
        };
        let text = format!(
            "Python may take exponential time for pattern '{}': it repeats something that can match in several ways, or more than {MAX_CHOICES} \
             of its parts can match in several ways; split it into several entries, or write [^/]* for a part between slashes",
            entry.pattern()
        );
        Err(CoprError { line: entry.line, text })
    }

    /// Creates a table from entries.
    pub fn of(entries: Vec<CoprEntry>) -> Self {
        Self { entries, lines_before: 0 }
    }

    /// The entries in the order of the table.
    pub fn entries(&self) -> &[CoprEntry] {
        &self.entries
    }

    /// The tags of all matching entries, in order, without repetitions; `None` if none matches.
    pub fn tags(&self, whole: &str) -> Option<Vec<String>> {
        let mut matched = self.entries.iter().filter(|entry| entry.pattern.is_match(whole)).peekable();
        matched.peek()?;
        let mut tags: Vec<String> = Vec::new();
        for tag in matched.flat_map(|entry| &entry.tags) {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        Some(tags)
    }
}

/// Writes the table as `copr.conf` has it. [`CoprTable::parse`] reads it back.
impl fmt::Display for CoprTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EXTRA_BUILDCHROOT_TAGS = [")?;
        for (number, entry) in self.entries.iter().enumerate() {
            let tags: Vec<String> = entry.tags.iter().map(|tag| quoted(tag)).collect();
            let comma = if number == 0 { "{" } else { ", {" };
            writeln!(
                f,
                "{comma}\n    \"pattern\": {},\n    \"tags\": [{}],",
                quoted(entry.pattern()),
                tags.join(", ")
            )?;
            f.write_str("}")?;
        }
        writeln!(f, "]")
    }
}

/// The text as a Python literal: a raw string if it has backslashes, because patterns are usually written like that.
fn quoted(text: &str) -> String {
    let is_plain = !text.contains(['"', '\n']) && !text.ends_with('\\');
    if is_plain {
        let raw = if text.contains('\\') { "r" } else { "" };
        return format!("{raw}\"{text}\"");
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Parser of Python literals.
struct PythonLiteralReader<'t> {
    text: &'t str,
    at: usize,
}

impl PythonLiteralReader<'_> {
    fn parse_table(mut self) -> Result<CoprTable, CoprError> {
        // `EXTRA_BUILDCHROOT_TAGS =` may precede the table
        let named = self.parse_word();
        if !named.is_empty() {
            self.need_mark("=")?;
        }
        self.need_mark("[")?;
        let mut entries = Vec::new();
        while !self.take_mark("]") {
            if entries.len() >= CoprTable::MAX_ENTRIES {
                return Err(self.error_at(format!("has more than {} entries", CoprTable::MAX_ENTRIES)));
            }
            entries.push(self.parse_entry()?);
            if !self.take_mark(",") {
                self.need_mark("]")?;
                break;
            }
        }
        if !self.skip_space().is_empty() {
            return Err(self.error_at("holds something behind its closing bracket".to_owned()));
        }
        Ok(CoprTable { entries, lines_before: 0 })
    }

    fn parse_entry(&mut self) -> Result<CoprEntry, CoprError> {
        self.need_mark("{")?;
        let line = self.line_number();
        let (mut pattern, mut tags) = (None, None);
        while !self.take_mark("}") {
            let name = self.parse_string()?;
            self.need_mark(":")?;
            match name.as_str() {
                "pattern" => {
                    let text = self.parse_string()?;
                    let compiled = Pattern::start(&text);
                    let fault = |why| self.error_at(format!("pattern '{text}' {why}"));
                    pattern = Some(compiled.map_err(fault)?);
                }
                "tags" => tags = Some(self.parse_strings()?),
                other => return Err(self.error_at(format!("{other:?} is neither pattern nor tags"))),
            }
            if !self.take_mark(",") {
                self.need_mark("}")?;
                break;
            }
        }
        match (pattern, tags) {
            (Some(pattern), Some(tags)) if !tags.is_empty() => Ok(CoprEntry { pattern, tags, line }),
            _ => Err(self.error_at("an entry needs a pattern and at least one tag".to_owned())),
        }
    }

    fn parse_strings(&mut self) -> Result<Vec<String>, CoprError> {
        self.need_mark("[")?;
        let mut strings = Vec::new();
        while !self.take_mark("]") {
            strings.push(self.parse_string()?);
            if !self.take_mark(",") {
                self.need_mark("]")?;
                break;
            }
        }
        Ok(strings)
    }

    /// Reads a string, or several adjacent ones, which Python concatenates.
    fn parse_string(&mut self) -> Result<String, CoprError> {
        let mut text = self.parse_one_string()?;
        while self.skip_space().starts_with(['"', '\'', 'r']) {
            text.push_str(&self.parse_one_string()?);
        }
        Ok(text)
    }

    fn parse_one_string(&mut self) -> Result<String, CoprError> {
        let raw = self.take_mark("r") || self.take_mark("R");
        let quote = if self.take_mark("\"") { '"' } else { '\'' };
        if quote == '\'' {
            self.need_mark("'")?;
        }
        let mut text = String::new();
        let mut chars = self.text.get(self.at..).unwrap_or_default().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\n' => break,
                '\\' => match (raw, chars.next().map(|(_, next)| next)) {
                    (false, Some('n')) => text.push('\n'),
                    (false, Some('t')) => text.push('\t'),
                    (false, Some(next @ ('\\' | '\'' | '"'))) => text.push(next),
                    // as in Python, the backslash of an unknown escape sequence stays
                    (_, Some(next)) => text.extend(['\\', next]),
                    (_, None) => break,
                },
                _ => text.push(c),
            }
        }
        Err(self.error_at("a string has no end in its line".to_owned()))
    }

    fn parse_word(&mut self) -> String {
        let rest = self.skip_space();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default().to_owned();
        self.at += word.len();
        word
    }

    /// Skips spaces and comments, and returns the remaining text.
    fn skip_space(&mut self) -> &str {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return self.text.get(self.at..).unwrap_or_default();
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take_mark(&mut self, mark: &str) -> bool {
        let there = self.skip_space().starts_with(mark);
        if there {
            self.at += mark.len();
        }
        there
    }

    fn need_mark(&mut self, mark: &str) -> Result<(), CoprError> {
        if self.take_mark(mark) {
            return Ok(());
        }
        let seen: String = self.skip_space().chars().take(12).collect();
        Err(self.error_at(format!("expected {mark:?} before {seen:?}")))
    }

    fn line_number(&self) -> usize {
        self.text.get(..self.at).unwrap_or_default().matches('\n').count() + 1
    }

    fn error_at(&self, text: String) -> CoprError {
        CoprError { line: self.line_number(), text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
EXTRA_BUILDCHROOT_TAGS = [{
    "pattern": "@asahi/kernel/.*(x86_64|aarch64)/kernel.*",  # since 2023
    "tags": ["on_demand_powerful"],
}, {
    'pattern': r'.*/.*/.*/chromium',
    'tags': ['beefy', "on_demand_powerful"]
},
# everything
{"pattern": ".*/", "tags": ["every"]},
]
"#;

    #[test]
    fn a_copr_table_parses_as_configured() {
        let copr = CoprTable::parse(TABLE).unwrap();
        assert_eq!(copr.entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [2, 5, 10]);
        let tags = |whole: &str| copr.tags(whole).unwrap_or_default();
        assert_eq!(tags("@asahi/kernel/fedora-40-x86_64/kernel-16k"), ["on_demand_powerful", "every"]);
        assert_eq!(tags("u/p/fedora-40-x86_64/chromium"), ["beefy", "on_demand_powerful", "every"]);
        assert_eq!(copr.tags("nothing"), None);
    }

    #[test]
    fn table_errors_are_reported_with_their_line() {
        for (text, line, words) in [
            ("", 1, "expected \"[\""),
            ("[{\n'pattern': '*x', 'tags': ['a']}]", 2, "'*x'"),
            ("[{\n'pattern': 'x'\n}]", 3, "needs a pattern and at least one tag"),
            ("[{'pattern': 'x', 'tags': []}]", 1, "at least one tag"),
            ("[{'pattern': 'x,\n", 1, "no end in its line"),
            ("[{'color': 'x'}]", 1, "neither pattern nor tags"),
            ("[] + OTHER", 1, "behind its closing bracket"),
            ("import os", 1, "expected \"=\""),
        ] {
            let wrong = CoprTable::parse(text).unwrap_err();
            assert!(wrong.line == line && wrong.text.contains(words), "{text:?}: {wrong:?}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic_or_hang() {
        use proptest::prelude::*;
        proptest!(|(text in "[\\[\\]{}'\"r:,#=\\\\ \na]{0,60}")| {
            let _read = CoprTable::parse(&text);
        });
    }
}
