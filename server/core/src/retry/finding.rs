//! What was found out of a failure: single clues, and the cause that they add up to.

use crate::domain::{Cause, EvidenceLine, EvidenceSource, RootLine};

/// Why an attempt failed, and what says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The cause; `None` if it did not fail.
    pub cause: Option<Cause>,
    /// 0 to 1.
    pub confidence: f64,
    /// Where the clue that decided comes from; `None` if nothing did.
    pub decided_by: Option<EvidenceSource>,
    /// What was seen, strongest first.
    pub lines: Vec<EvidenceLine>,
    /// What would mend it, if the clue that decided says so.
    pub mend: Option<String>,
    /// The line of the log that names the failure where no rule knows it.
    pub last_words: Option<String>,
    /// The first line of the log that says what went wrong, as it was.
    pub failure_line: Option<String>,
    /// Where that line stands, and what followed from it, where a rule knows it.
    pub root: Option<RootLine>,
    /// A failure of the build itself that the log names beside trouble outside, where that trouble decides: which of them ended the build
    /// is not certain.
    pub own_failure: Option<String>,
    /// The line that names the failure says that memory was refused to a process, and not that one was killed.
    pub refused: bool,
    /// The cause that the rules found and where its evidence comes from, where a person says another one: the failure keeps its signature.
    pub by_rules: Option<(Cause, Option<EvidenceSource>)>,
    /// No text of the log was ever told, so that it cannot say why.
    pub log_unread: bool,
    /// What each of `lines` was seen as, in their order: with it they are marked for another cause.
    pub(super) clues: Vec<Clue>,
}

impl Finding {
    /// The cause, or that it is undecided: trouble outside beside a failure of the build itself is a cause of its own, because statistics of
    /// either would count what is not known.
    pub fn cause_as_far_as_decided(&self, cause: Cause) -> Cause {
        if self.own_failure.is_some() { Cause::Undecided } else { cause }
    }

    /// Something better than the log names the cause.
    pub(super) fn is_proven(&self) -> bool {
        self.cause != Some(Cause::Unknown)
            && self.decided_by.is_some_and(|source| source != EvidenceSource::Log)
    }
}

impl Clue {
    /// Whether it speaks for this cause.
    pub(super) fn supports(&self, cause: Cause) -> bool {
        match self.against {
            Some(against) => against != cause,
            // a summary says that something failed, as in a build that is broken, and nothing of other causes
            None if cause == Cause::Deterministic && self.weak => {
                matches!(self.cause, Some(Cause::Deterministic | Cause::Unknown))
            }
            None => self.cause == Some(cause),
        }
    }
}

/// One observation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clue {
    pub(super) source: EvidenceSource,
    /// What it points to; `None` if it only speaks against something.
    pub(super) cause: Option<Cause>,
    pub(super) confidence: f64,
    pub(super) weak: bool,
    pub(super) against: Option<Cause>,
    pub(super) text: String,
    pub(super) mend: Option<String>,
}
