//! The log lines that a caller sent itself: it may read them in a verdict, and those of others not.

use plimsoll_core::domain::{EvidenceLine, EvidenceSource, MatchedLine, ReportedEvidence, Verdict};

use super::privacy::HIDDEN;

/// Log lines that the caller sent, with this question or before.
#[derive(Debug, Default)]
pub(crate) struct OwnLog {
    /// Lines that a rule matches.
    pub(crate) lines: Vec<MatchedLine>,
    /// If no rule matches: the first and the last line that mention an error.
    pub(crate) words: Vec<String>,
}

impl OwnLog {
    pub(crate) fn of<'a>(all_reported: impl Iterator<Item = &'a ReportedEvidence>) -> Self {
        let mut own = Self::default();
        for reported in all_reported {
            own.lines.extend_from_slice(&reported.log);
            own.words.extend(reported.first_words.iter().chain(&reported.last_words).cloned());
        }
        own
    }

    /// Whether `text`, the text of an evidence line, is `rule: line` of one of [`Self::lines`], so
    /// that the caller itself sent it.
    pub(crate) fn has_line(&self, text: &str) -> bool {
        self.lines.iter().any(|line| !line.line.is_empty() && text == format!("{}: {}", line.rule, line.line))
    }

    /// Whether `first`, the first line of the log that shows the failure, is a line that the caller
    /// itself sent: one in [`Self::lines`] or [`Self::words`].
    pub(crate) fn begins_with_line(&self, first: &str) -> bool {
        let lines = self.lines.iter().flat_map(|own| [&own.line, &own.first]);
        lines.chain(&self.words).any(|own| !own.is_empty() && own == first)
    }

    /// Removes from a verdict the log lines that others sent.
    pub(crate) fn hide_others(&self, verdict: &mut Verdict) {
        let mut hidden = false;
        let is_of_others = |line: &&mut EvidenceLine| line.source == EvidenceSource::Log;
        for line in verdict.evidence.iter_mut().filter(is_of_others) {
            if !self.has_line(&line.text) {
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
        if let Some(named) = named.filter(|named| hidden || !self.begins_with_line(&named.first)) {
            HIDDEN.clone_into(&mut named.line);
            named.first.clear();
        }
        if !self.lines.iter().any(|line| line.root == verdict.outlook.root) {
            verdict.outlook.root = None;
        }
    }
}
