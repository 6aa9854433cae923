//! One rule about lines of a log, as `rules/*.toml` write it.

use serde::Deserialize;

use crate::domain::Cause;

/// A rule: which lines of a log it matches, and the cause of failure that such a line shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub(super) struct Rule {
    /// Name of the rule. One with the name of a built-in rule replaces it.
    /// Value: text, not empty.
    pub(super) id: String,
    /// What a line that matches means.
    /// Value: cause.
    pub(super) cause: Cause,
    /// What a line must match somewhere. It must not match an empty line.
    /// Value: expression.
    pub(super) pattern: String,
    /// Says only that something failed. It counts where no other rule matches.
    #[serde(default)]
    pub(super) weak: bool,
    /// The machine failed. Tools report errors of their own after that.
    #[serde(default)]
    pub(super) place: bool,
    /// Says what is wrong with the sources: no download that failed explains it.
    #[serde(default)]
    pub(super) own: bool,
    /// Says that something ended without a word. It counts if two different lines match it and no line begins to report an error.
    #[serde(default)]
    pub(super) silent: bool,
    /// Which sign of memory it is. A rule with the cause `oom` or `starved` needs one, and no other may have one.
    /// Value: `kill` (a process was killed) or `alloc` (memory was refused).
    /// Default: none.
    #[serde(default)]
    pub(super) sign: Option<Sign>,
    /// What would mend it, for people.
    /// Value: text.
    /// Default: none.
    #[serde(default)]
    pub(super) mend: Option<String>,
    /// Lines that the rule must match. They are checked when the file is read.
    #[serde(default)]
    pub(super) matches: Vec<String>,
    /// Lines that the rule must not match. They are checked when the file is read.
    #[serde(default)]
    pub(super) spares: Vec<String>,
}

/// How a line shows that memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sign {
    /// A process was killed. If the kernel counted no OOM kill, memory was not the cause.
    Kill,
    /// Memory was refused to a process. The kernel may have killed nothing.
    Alloc,
}
