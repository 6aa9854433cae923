//! Removes from a verdict what its caller may not read: log lines that others sent, and texts of
//! corrections.

use plimsoll_core::domain::{Evidence, EvidenceLine, EvidenceSource, MatchedLine, ReportedEvidence, Verdict};

use crate::access::privacy::{HIDDEN, hide_correction};

/// The verdict on a question, before what the caller may not read is removed.
#[derive(Debug)]
pub(super) struct WeighedVerdict {
    pub(super) verdict: Verdict,
    /// The evidence of a new verdict, with its fingerprint; `None` if the verdict in force is based
    /// on the same evidence.
    pub(super) new: Option<(Evidence, u64)>,
    /// The log lines that the caller itself sent, if it may read only those; `None` if it may read
    /// all lines.
    pub(super) readable: Option<OwnLog>,
    /// Whether the caller may read the author and explanation of a correction.
    pub(super) reads_corrections: bool,
}

/// Log lines that the caller sent.
#[derive(Debug, Default)]
pub(super) struct OwnLog {
    /// Lines that a rule matches.
    pub(super) lines: Vec<MatchedLine>,
    /// If no rule matches: the first and the last line that mention an error.
    pub(super) words: [Option<String>; 2],
}

impl OwnLog {
    pub(super) fn of(reported: &ReportedEvidence) -> Self {
        Self {
            lines: reported.log.clone(),
            words: [reported.first_words.clone(), reported.last_words.clone()],
        }
    }

    /// Whether `text`, the text of an evidence line, is `rule: line` of one of [`Self::lines`], so
    /// that the caller itself sent it.
    pub(super) fn has_line(&self, text: &str) -> bool {
        self.lines.iter().any(|line| !line.line.is_empty() && text == format!("{}: {}", line.rule, line.line))
    }

    /// Whether `first`, the first line of the log that shows the failure, is a line that the caller
    /// itself sent: one in [`Self::lines`] or [`Self::words`].
    pub(super) fn begins_with_line(&self, first: &str) -> bool {
        let lines = self.lines.iter().flat_map(|own| [&own.line, &own.first]);
        lines.chain(self.words.iter().flatten()).any(|own| !own.is_empty() && own == first)
    }
}

impl WeighedVerdict {
    /// The verdict without what the caller may not read.
    pub(super) fn answer(self) -> Verdict {
        let Self { mut verdict, readable, reads_corrections, .. } = self;
        if !reads_corrections {
            hide_correction(&mut verdict);
        }
        let Some(own) = readable else { return verdict };
        let mut hidden = false;
        let is_of_others = |line: &&mut EvidenceLine| line.source == EvidenceSource::Log;
        for line in verdict.evidence.iter_mut().filter(is_of_others) {
            if !own.has_line(&line.text) {
                HIDDEN.clone_into(&mut line.text);
                hidden = true;
            }
        }
        if hidden {
            // the sentence of the reason quotes the deciding evidence
            HIDDEN.clone_into(&mut verdict.reason);
            verdict.outlook.own_failure = None;
        }
        let named = verdict.outlook.signature.as_mut().filter(|named| !named.line.is_empty());
        if let Some(named) = named.filter(|named| hidden || !own.begins_with_line(&named.first)) {
            HIDDEN.clone_into(&mut named.line);
            named.first.clear();
        }
        if !own.lines.iter().any(|line| line.root == verdict.outlook.root) {
            verdict.outlook.root = None;
        }
        verdict
    }
}
