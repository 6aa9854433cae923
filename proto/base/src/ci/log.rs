//! Lines of a log by which a tool says that a phase begins or ends.

/// A line of output.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// Its text, without control sequences for a terminal.
    pub text: &'a [u8],
    /// The byte that ends it: LF or CR.
    pub line_end: u8,
}

/// A position in the output where a phase starts or ends. Names may have any characters and any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogMark {
    /// A section starts; it ends with [`LogMark::SectionEnd`] of the same name.
    SectionStart(String),
    /// A section ends.
    SectionEnd(String),
    /// A phase starts. It lasts until the next phase starts.
    Phase(String),
    /// The current phase has ended, and no other phase starts.
    PhaseEnd,
}

/// A tool that prints markers of phases.
#[derive(Debug)]
pub struct PhaseTool {
    /// Its name in `--phases`.
    pub name: &'static str,
    /// Its markers, for people.
    pub markers: &'static str,
    /// Each of its markers has one of these words.
    pub words: &'static [&'static str],
    /// The marker in a line.
    pub parse: fn(LogLine<'_>) -> Option<LogMark>,
}
