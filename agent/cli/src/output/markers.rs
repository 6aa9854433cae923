//! Finds the markers that tools print between the phases of a build. It takes the output in pieces of any length, and does no I/O.
//!
//! | marker | printed by |
//! |---|---|
//! | those of each CI system, such as `section_start:UNIX:NAME[options]` CR | its jobs, to fold parts of the log: its row in `plimsoll_base::ci` |
//! | `==> zlib: Executing phase: 'install'`, `==> zlib: Successfully installed ...` | Spack |
//! | `Executing(%build): /bin/sh -e /var/tmp/rpm-tmp.x` | rpmbuild, also within mock |
//! | a line that a pattern of the user matches | anything else |
//!
//! A line ends at LF or CR, so that a progress bar is many short lines. Colours and cursor movements are removed before a line is
//! examined, and only its first [`LINE_BYTES`] are. Between two calls at most one such line is kept.

use std::{borrow::Cow, sync::LazyLock};

use memchr::{memchr, memchr2, memmem::Finder, memrchr2};
pub use plimsoll_base::ci::PhaseTool;
use plimsoll_base::ci::SYSTEMS;
pub(super) use plimsoll_base::ci::{LogLine, LogMark as PhaseMark};
use regex::bytes::{Regex, RegexBuilder};

/// Only this many bytes of a line are examined.
pub(super) const LINE_BYTES: usize = 4096;
/// Most patterns that a user may give.
pub const PATTERNS: usize = 16;
/// Longest text of a pattern, bytes.
const PATTERN_BYTES: usize = 1024;
/// Memory limit for a compiled pattern, and for its cache, bytes.
const COMPILED_BYTES: usize = 1 << 20;
const ESCAPE: u8 = 0x1b;

/// A user's pattern: a matching line starts a phase.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    /// Index of the regular expression's group that has the phase's name.
    group: usize,
}

impl Pattern {
    /// Compiles a pattern. `^` and `$` match the ends of the line. The phase's name is the first named group,
    /// else the first group.
    /// Errors: the pattern is longer than 1,024 bytes, invalid, too large when compiled, or has no group.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES {
            return Err(format!("a pattern has at most {PATTERN_BYTES} bytes"));
        }
        let mut builder = RegexBuilder::new(text);
        builder.multi_line(true).crlf(true).size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES);
        let regex = builder.build().map_err(|error| error.to_string())?;
        let named = regex.capture_names().position(|name| name.is_some());
        match named.or_else(|| (regex.captures_len() > 1).then_some(1)) {
            Some(group) => Ok(Self { regex, group }),
            None => {
                Err("a pattern needs a group for the phase's name, for example 'Entering (.+)'".to_owned())
            }
        }
    }
}

/// All tools whose markers are known: the CI systems, and those that build.
pub static PHASE_TOOLS: LazyLock<Vec<&'static PhaseTool>> = LazyLock::new(|| {
    let mut tools: Vec<&'static PhaseTool> = Vec::new();
    for tool in SYSTEMS.iter().filter_map(|system| system.phases).chain(&BUILD_TOOLS) {
        // systems of one family share their markers
        if tools.iter().all(|known| known.name != tool.name) {
            tools.push(tool);
        }
    }
    tools
});

/// Tools that build, in a job of any CI system.
pub static BUILD_TOOLS: [PhaseTool; 2] = [
    PhaseTool {
        name: "spack",
        markers: "Spack's phases",
        words: &["Executing phase: '", "Successfully installed "],
        parse: parse_spack,
    },
    PhaseTool { name: "rpm", markers: "sections of spec files", words: &["Executing("], parse: parse_rpm },
];

/// Which markers are searched for.
#[derive(Debug, Clone, Default)]
pub struct PhaseMarks {
    /// Those of these tools.
    pub tools: Vec<&'static PhaseTool>,
    /// Patterns of the user, at most [`PATTERNS`].
    pub patterns: Vec<Pattern>,
    /// Whether output to a terminal is read too. The build then gets a terminal that the agent creates, instead of the real one.
    pub terminals: bool,
}

/// Finds markers in one stream.
#[derive(Debug)]
pub(super) struct Scanner {
    /// A finder for each word of the tools, with the tool.
    finders: Vec<(Finder<'static>, &'static PhaseTool)>,
    patterns: Vec<Pattern>,
    /// The start of a line that has not ended yet.
    line: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(marks: PhaseMarks) -> Self {
        let words = |tool: &'static PhaseTool| tool.words.iter().map(move |word| (Finder::new(word), tool));
        Self {
            finders: marks.tools.into_iter().flat_map(words).collect(),
            patterns: marks.patterns,
            line: Vec::new(),
        }
    }

    /// The markers in the lines that end in `bytes`, in order.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) -> Vec<PhaseMark> {
        let mut marks = Vec::new();
        if !self.line.is_empty() {
            let end = memchr2(b'\r', b'\n', bytes);
            let (rest, after) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.keep_line_start(rest);
            bytes = after;
            if let Some((end, after)) = bytes.split_first() {
                let mut line = std::mem::take(&mut self.line);
                line.push(*end);
                self.scan_lines(&line, &mut marks);
                line.clear();
                // reuse the allocation for the next incomplete line
                self.line = line;
                bytes = after;
            }
        }
        let whole = memrchr2(b'\r', b'\n', bytes).map_or(0, |end| end + 1);
        let (lines, rest) = bytes.split_at(whole);
        self.scan_lines(lines, &mut marks);
        self.keep_line_start(rest);
        marks
    }

    fn keep_line_start(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend(bytes.iter().take(room));
    }

    /// Finds the markers in complete lines. Most output has no marker; for that the only cost is a search for a
    /// few words.
    fn scan_lines(&self, lines: &[u8], marks: &mut Vec<PhaseMark>) {
        let lines = if memchr(ESCAPE, lines).is_some() {
            Cow::Owned(plain_lines(lines))
        } else {
            Cow::Borrowed(lines)
        };
        let mut found: Vec<(usize, PhaseMark)> = Vec::new();
        for (finder, tool) in &self.finders {
            found.extend(marked_lines(finder, &lines, tool.parse));
        }
        for pattern in &self.patterns {
            match_pattern(pattern, &lines, &mut found);
        }
        found.sort_by_key(|(at, _mark)| *at);
        // if several patterns match one line, the first pattern counts
        found.dedup_by_key(|(at, _mark)| *at);
        marks.extend(found.into_iter().map(|(_at, mark)| mark));
    }
}

/// The line that contains the position `at`, and where it starts.
fn line_at(lines: &[u8], at: usize) -> (usize, LogLine<'_>) {
    let (before, after) = lines.split_at(at.min(lines.len()));
    let start = memrchr2(b'\r', b'\n', before).map_or(0, |end| end + 1);
    let stop = memchr2(b'\r', b'\n', after).map_or(lines.len(), |end| at.saturating_add(end));
    let text = lines.get(start..stop).unwrap_or_default();
    let text = text.get(..LINE_BYTES).unwrap_or(text);
    (start, LogLine { text, line_end: lines.get(stop).copied().unwrap_or(b'\n') })
}

fn marked_lines<'a>(
    finder: &'a Finder<'static>,
    lines: &'a [u8],
    parse: fn(LogLine<'_>) -> Option<PhaseMark>,
) -> impl Iterator<Item = (usize, PhaseMark)> + 'a {
    finder.find_iter(lines).filter_map(move |at| {
        let (start, line) = line_at(lines, at);
        Some((start, fitting(parse(line)?)?))
    })
}

/// Matches a pattern against one line at a time. Otherwise a pattern that matches line ends would be tried from
/// each line to the end of the output, which is slow.
fn match_pattern(pattern: &Pattern, lines: &[u8], found: &mut Vec<(usize, PhaseMark)>) {
    let mut start = 0;
    while let Some(rest) = lines.get(start..).filter(|rest| !rest.is_empty()) {
        let stop = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let text = rest.get(..stop.min(LINE_BYTES)).unwrap_or_default();
        if pattern.regex.is_match(text)
            && let Some(captures) = pattern.regex.captures(text)
            && let Some(name) = captures.get(pattern.group).and_then(|group| name(group.as_bytes()))
        {
            found.push((start, PhaseMark::Phase(name)));
        }
        start = start.saturating_add(stop).saturating_add(1);
    }
}

/// Parses Spack's `==> [hash or time] zlib: Executing phase: 'install'`. The phase's name includes the package,
/// because one job may install several packages.
fn parse_spack(line: LogLine<'_>) -> Option<PhaseMark> {
    let text = String::from_utf8_lossy(line.text);
    let mut text = text.trim().strip_prefix("==> ")?;
    if let Some(bracketed) = text.strip_prefix('[') {
        text = bracketed.split_once("] ")?.1;
    }
    let (package, rest) = text.split_once(": ")?;
    if rest.starts_with("Successfully installed ") {
        return Some(PhaseMark::PhaseEnd);
    }
    let phase = rest.strip_prefix("Executing phase: '")?.strip_suffix('\'')?;
    Some(PhaseMark::Phase(format!("{package}: {phase}")))
}

/// Parses rpmbuild's `Executing(%build): /bin/sh -e /var/tmp/rpm-tmp.x`, which it prints before each section of
/// a spec file. The scripts after the last section (`%clean`, `rmbuild`) end the phase.
fn parse_rpm(line: LogLine<'_>) -> Option<PhaseMark> {
    let text = str::from_utf8(line.text).ok()?;
    let (section, _shell) = text.trim().strip_prefix("Executing(")?.split_once("): /")?;
    match section {
        "%clean" | "%rmbuild" | "rmbuild" | "--clean" => Some(PhaseMark::PhaseEnd),
        section if section.starts_with('%') => Some(PhaseMark::Phase(section.to_owned())),
        _ => None,
    }
}

/// The mark with a name that is valid on the wire; `None` if no characters remain.
fn fitting(mark: PhaseMark) -> Option<PhaseMark> {
    Some(match mark {
        PhaseMark::SectionStart(text) => PhaseMark::SectionStart(name(text.as_bytes())?),
        PhaseMark::SectionEnd(text) => PhaseMark::SectionEnd(name(text.as_bytes())?),
        PhaseMark::Phase(text) => PhaseMark::Phase(name(text.as_bytes())?),
        PhaseMark::PhaseEnd => PhaseMark::PhaseEnd,
    })
}

/// A phase's name in a form that is valid on the wire; `None` if no characters remain.
fn name(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut name = String::new();
    for c in text.trim().chars().filter(|c| !c.is_control()) {
        if name.len().saturating_add(c.len_utf8()) > plimsoll_proto::limits::PHASE_NAME_BYTES {
            break;
        }
        name.push(c);
    }
    (!name.is_empty()).then_some(name)
}

/// The lines, each cut to [`LINE_BYTES`], without control sequences for a terminal: those of ECMA-48 (`ESC [
/// ... final`), strings (`ESC ] ... BEL`), and other pairs with ESC.
fn plain_lines(lines: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
        let Some((end, text)) = line.split_last().filter(|(end, _)| matches!(end, b'\r' | b'\n')) else {
            break;
        };
        let mut bytes = text.iter().copied().take(LINE_BYTES);
        while let Some(byte) = bytes.next() {
            if byte == ESCAPE {
                skip_sequence(&mut bytes);
            } else {
                plain.push(byte);
            }
        }
        plain.push(*end);
    }
    plain
}

fn skip_sequence(bytes: &mut impl Iterator<Item = u8>) {
    match bytes.next() {
        Some(b'[') => {
            bytes.find(|byte| (0x40..=0x7e).contains(byte));
        }
        Some(b']') => {
            bytes.find(|byte| *byte == 7);
        }
        _pair => {}
    }
}

#[cfg(test)]
mod tests;
