//! The result of classifying a failure: single clues, and the cause that they lead to.

use crate::domain::{Cause, EvidenceLine, EvidenceSource, MatchedRule, RootLine};

/// Why an attempt failed, with the evidence for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    /// The cause; `None` if the attempt did not fail.
    pub cause: Option<Cause>,
    /// Confidence in the cause, 0 to 1.
    pub confidence: f64,
    /// Source of the clue that decided; `None` if nothing decided.
    pub decided_by: Option<EvidenceSource>,
    /// The evidence for and against the cause, strongest first.
    pub lines: Vec<EvidenceLine>,
    /// What would fix the failure, if the deciding clue names it.
    pub mend: Option<String>,
    /// The last line of the log that mentions an error in general words, if no rule matches a line.
    pub last_words: Option<String>,
    /// The first line of the log that shows what went wrong, unchanged.
    pub failure_line: Option<String>,
    /// Position of `failure_line` and the lines that follow from it, if a rule matches it.
    pub root: Option<RootLine>,
    /// A log line that shows a failure of the build itself, if a fault outside the build decides: which of the two ended the build is
    /// uncertain.
    pub own_failure: Option<String>,
    /// Whether `own_failure` only names a test, which may have failed of the fault outside.
    pub own_is_test: bool,
    /// Whether `failure_line` reports that memory was refused to a process (and not that a process was killed).
    pub memory_refused: bool,
    /// The cause and source that the rules found, if a person corrected them. The signature of the failure is computed from these.
    pub by_rules: Option<(Cause, Option<EvidenceSource>)>,
    /// The rules that matched ([`VerdictBasis::spoken`](crate::domain::VerdictBasis)).
    pub spoken: Vec<MatchedRule>,
    /// Whether no text of the log was ever sent, so it cannot show the cause.
    pub log_unread: bool,
    /// The clue behind each of `lines`, in the same order. A corrected cause needs them to mark which lines support it.
    pub(in crate::retry) clues: Vec<Clue>,
}

impl Finding {
    /// The cause for statistics: "undecided" if the log shows both a fault outside the build and a failure of the build itself with a reason
    /// of its own, because neither can be counted with certainty.
    pub fn decided_cause(&self, cause: Cause) -> Cause {
        if self.own_failure.is_some() && !self.own_is_test { Cause::Undecided } else { cause }
    }

    /// Whether better evidence than the log names the cause; for memory, better evidence than an exit code.
    pub(in crate::retry) fn is_proven(&self) -> bool {
        let by_exit =
            self.decided_by == Some(EvidenceSource::Exit) && self.cause.is_some_and(Cause::is_memory);
        self.cause != Some(Cause::Unknown)
            && self.decided_by.is_some_and(|source| source != EvidenceSource::Log && !by_exit)
    }
}

impl Clue {
    pub(in crate::retry) fn supports(&self, cause: Cause) -> bool {
        match self.against {
            Some(against) => against != cause,
            // a summary line only shows that something failed: it supports a broken build, and no other cause
            None if cause == Cause::Deterministic && self.weak => {
                matches!(self.cause, Some(Cause::Deterministic | Cause::Unknown))
            }
            None => self.cause == Some(cause),
        }
    }
}

/// A clue: what one piece of evidence says about the cause.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::retry) struct Clue {
    pub(in crate::retry) source: EvidenceSource,
    /// The cause that the clue points to; `None` if it only argues against one.
    pub(in crate::retry) cause: Option<Cause>,
    pub(in crate::retry) confidence: f64,
    pub(in crate::retry) weak: bool,
    pub(in crate::retry) against: Option<Cause>,
    pub(in crate::retry) text: String,
    pub(in crate::retry) mend: Option<String>,
    /// The rule that the clue comes from; empty if it comes from none.
    pub(in crate::retry) rule: String,
}
