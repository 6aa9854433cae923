//! The result of classifying a failure: single clues, and the cause that they lead to.

use crate::domain::{Cause, EvidenceLine, EvidenceSource, RootLine};

/// Why an attempt failed, with the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The cause; `None` if it did not fail.
    pub cause: Option<Cause>,
    /// 0 to 1.
    pub confidence: f64,
    /// Source of the clue that decided; `None` if nothing decided.
    pub decided_by: Option<EvidenceSource>,
    /// The evidence, strongest first.
    pub lines: Vec<EvidenceLine>,
    /// What would fix it, if the deciding clue names that.
    pub mend: Option<String>,
    /// The line of the log that names the failure, if no rule matches it.
    pub last_words: Option<String>,
    /// The first line of the log that shows what went wrong, unchanged.
    pub failure_line: Option<String>,
    /// Position of that line and the lines that follow from it, if a rule matches it.
    pub root: Option<RootLine>,
    /// A failure of the build itself in the log, if a fault outside decides: which of them ended the build is uncertain.
    pub own_failure: Option<String>,
    /// Whether the line that names the failure reports that memory was refused to a process, not that one was killed.
    pub refused: bool,
    /// The cause and source found by the rules, if a person corrected it: the failure keeps its signature.
    pub by_rules: Option<(Cause, Option<EvidenceSource>)>,
    /// Whether no text of the log was ever sent, so it cannot show the cause.
    pub log_unread: bool,
    /// The clue behind each of `lines`, in order; used to mark them again for another cause.
    pub(super) clues: Vec<Clue>,
}

impl Finding {
    /// The cause, or "undecided" if a fault outside occurs beside a failure of the build itself: statistics of either cause would count
    /// something uncertain.
    pub fn decided_cause(&self, cause: Cause) -> Cause {
        if self.own_failure.is_some() { Cause::Undecided } else { cause }
    }

    /// Whether better evidence than the log names the cause.
    pub(super) fn is_proven(&self) -> bool {
        self.cause != Some(Cause::Unknown)
            && self.decided_by.is_some_and(|source| source != EvidenceSource::Log)
    }
}

impl Clue {
    /// Whether the clue supports this cause.
    pub(super) fn supports(&self, cause: Cause) -> bool {
        match self.against {
            Some(against) => against != cause,
            // a summary line only shows that something failed; it supports a broken build and no other cause
            None if cause == Cause::Deterministic && self.weak => {
                matches!(self.cause, Some(Cause::Deterministic | Cause::Unknown))
            }
            None => self.cause == Some(cause),
        }
    }
}

/// One clue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clue {
    pub(super) source: EvidenceSource,
    /// The cause that it points to; `None` if it only argues against one.
    pub(super) cause: Option<Cause>,
    pub(super) confidence: f64,
    pub(super) weak: bool,
    pub(super) against: Option<Cause>,
    pub(super) text: String,
    pub(super) mend: Option<String>,
}
