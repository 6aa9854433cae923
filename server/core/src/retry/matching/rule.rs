//! One rule about lines of a log, as `rules/*.toml` write it.

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::domain::Cause;

/// A rule: which lines of a log it matches, and the cause of failure that such a line shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub(in crate::retry) struct Rule {
    /// Name of the rule. One with the name of a built-in rule replaces it.
    /// Value: text, not empty.
    pub(in crate::retry) id: String,
    /// What a line that matches means.
    /// Value: cause.
    pub(in crate::retry) cause: Cause,
    /// What a line must match somewhere. It must not match an empty line.
    /// Value: expression.
    pub(in crate::retry) pattern: String,
    /// What a line must not match anywhere: the surroundings in which the words of `pattern` have another meaning.
    /// Value: expression.
    /// Default: none.
    #[serde(default)]
    pub(in crate::retry) unless: Option<String>,
    /// Says only that something failed. It counts where no other rule matches.
    #[serde(default)]
    pub(in crate::retry) weak: bool,
    /// With `weak`: says only that something failed, and not why.
    #[serde(default)]
    pub(in crate::retry) summary: bool,
    /// The machine failed. Tools report errors of their own after that.
    #[serde(default)]
    pub(in crate::retry) place: bool,
    /// Says what is wrong with the sources: no download that failed explains it.
    #[serde(default)]
    pub(in crate::retry) own: bool,
    /// Reports failed tests: a fault outside the build explains them unless it came before the tests.
    #[serde(default)]
    pub(in crate::retry) test: bool,
    /// The other side was reached and answered: what was asked for is not there, or not allowed. It explains that something could not be
    /// fetched, and a fault outside the build that came before it was overcome. A built-in rule with this key does not count on a line that
    /// a rule of your own calls `infra` or `contention`.
    #[serde(default)]
    pub(in crate::retry) answered: bool,
    /// Says that something ended without a word. It counts if two different lines match it and no line begins to report an error.
    #[serde(default)]
    pub(in crate::retry) silent: bool,
    /// Which sign of memory it is. A rule with the cause `oom` or `starved` needs one, and no other may have one.
    /// Value: `kill` (a process was killed), `alloc` (memory was refused) or `scheduler` (what counts memory by itself ended the job).
    /// Default: none.
    #[serde(default)]
    pub(in crate::retry) sign: Option<OutOfMemorySign>,
    /// What would mend it, for people.
    /// Value: text.
    /// Default: none.
    #[serde(default)]
    pub(in crate::retry) mend: Option<String>,
    /// Lines that the rule must match. They are checked when the file is read.
    #[serde(default)]
    pub(in crate::retry) matches: Vec<String>,
    /// Lines that the rule must not match. They are checked when the file is read.
    #[serde(default)]
    pub(in crate::retry) spares: Vec<String>,
}

/// How a line shows that memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::retry) enum OutOfMemorySign {
    /// A process was killed. If the kernel counted no OOM kill, memory was not the cause.
    Kill,
    /// Memory was refused to a process. The kernel may have killed nothing.
    Alloc,
    /// A scheduler or a container's runtime ended the job at a limit that it counts by itself. The kernel may have killed nothing.
    Scheduler,
}

/// Most bytes that one compiled expression of a rule may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Most bytes of a message of the regex library that is passed on whole.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// The expressions of one rule, compiled.
#[derive(Debug)]
pub(in crate::retry) struct RulePattern {
    pattern: Regex,
    unless: Option<Regex>,
}

impl RulePattern {
    /// Compiles the expressions of a rule.
    /// Errors: names the key of the expression and what is wrong with it.
    pub(in crate::retry) fn of(rule: &Rule) -> Result<Self, String> {
        let pattern = compile("pattern", &rule.pattern)?;
        let unless = rule.unless.as_ref().map(|unless| compile("unless", unless)).transpose()?;
        Ok(Self { pattern, unless })
    }

    /// Whether the rule matches the line.
    pub(in crate::retry) fn is_match(&self, line: &str) -> bool {
        self.pattern.is_match(line.as_bytes())
            && self.unless.as_ref().is_none_or(|unless| !unless.is_match(line.as_bytes()))
    }
}

/// Compiles an expression for bytes: on non-ASCII text a Unicode `\b` needs a slow engine, and a log may be entirely non-ASCII.
pub(in crate::retry) fn compile(key: &str, expression: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(expression).unicode(false).size_limit(MAX_COMPILED_BYTES).build();
    compiled.map_err(|error| format!("{key}: {}", brief(&error.to_string())))
}

/// The message without the expression that it quotes, if that is long.
fn brief(message: &str) -> &str {
    let is_long = message.len() > MAX_MESSAGE_BYTES;
    message.lines().next_back().filter(|_| is_long).unwrap_or(message)
}
