//! Redacts a verdict for its caller: without log lines from others that the caller may not read.

use plimsoll_core::domain::{Evidence, EvidenceLine, EvidenceSource, MatchedLine, ReportedEvidence, Verdict};

use crate::access::privacy::{HIDDEN, hide_correction};

/// The result of a question.
#[derive(Debug)]
pub(super) struct WeighedVerdict {
    pub(super) verdict: Verdict,
    /// For a new verdict: its evidence and the evidence's fingerprint; `None` if the verdict in force is based on the same.
    pub(super) new: Option<(Evidence, u64)>,
    /// The log lines that the caller itself sent; `None` if it may read all.
    pub(super) readable: Option<OwnLog>,
    /// Whether the caller may read who corrected a cause, and why.
    pub(super) reads_corrections: bool,
}

/// Log lines from the caller.
#[derive(Debug, Default)]
pub(super) struct OwnLog {
    /// Lines that match a rule.
    pub(super) lines: Vec<MatchedLine>,
    /// The first and the last line that mention an error, if no rule matches.
    pub(super) words: [Option<String>; 2],
}

impl OwnLog {
    pub(super) fn of(reported: &ReportedEvidence) -> Self {
        Self {
            lines: reported.log.clone(),
            words: [reported.first_words.clone(), reported.last_words.clone()],
        }
    }

    /// A line of evidence is one of these.
    pub(super) fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| !line.line.is_empty() && text == format!("{}: {}", line.rule, line.line))
    }

    /// Whether the first line that shows what went wrong is one of these.
    pub(super) fn begins(&self, first: &str) -> bool {
        let lines = self.lines.iter().flat_map(|own| [&own.line, &own.first]);
        lines.chain(self.words.iter().flatten()).any(|own| !own.is_empty() && own == first)
    }
}

impl WeighedVerdict {
    /// The redacted verdict: without texts of corrections, and without log lines from others that the caller may not read.
    pub(super) fn answer(self) -> Verdict {
        let Self { mut verdict, readable, reads_corrections, .. } = self;
        if !reads_corrections {
            hide_correction(&mut verdict);
        }
        let Some(own) = readable else { return verdict };
        let mut hidden = false;
        let is_of_others = |line: &&mut EvidenceLine| line.source == EvidenceSource::Log;
        for line in verdict.evidence.iter_mut().filter(is_of_others) {
            if !own.has(&line.text) {
                HIDDEN.clone_into(&mut line.text);
                hidden = true;
            }
        }
        if hidden {
            // it quotes the deciding evidence
            HIDDEN.clone_into(&mut verdict.reason);
            verdict.outlook.own_failure = None;
        }
        let named = verdict.outlook.signature.as_mut().filter(|named| !named.line.is_empty());
        if let Some(named) = named.filter(|named| hidden || !own.begins(&named.first)) {
            HIDDEN.clone_into(&mut named.line);
            named.first.clear();
        }
        if !own.lines.iter().any(|line| line.root == verdict.outlook.root) {
            verdict.outlook.root = None;
        }
        verdict
    }
}
