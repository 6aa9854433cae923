//! What a verdict stands on, as it is kept with it.

use serde::{Deserialize, Serialize};

use super::{Cause, EvidenceSource, Key, Outcome, ReportedEvidence, Reporter, Summary, VerdictCorrection};

/// What a verdict stands on: with it, a later question knows what was known, and whether it says anything new.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictBasis {
    /// Where the evidence comes from that decided the cause; `None` if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_source: Option<EvidenceSource>,
    /// Number of the question ([`super::Fnv`] over all that the caller said).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// Number of all that was known, without texts of the log. Another number means that more is known by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<u64>,
    /// The caller was not trusted: a job that spoke of itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_untrusted: bool,
    /// What the caller said.
    #[serde(skip_serializing_if = "is_nothing")]
    pub reported: ReportedEvidence,
    /// Who asked.
    #[serde(rename = "said_by")]
    pub reported_by: Reporter,
    /// What a person said of the cause; `None` without a correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<Box<VerdictCorrection>>,
    /// The cause that an imported history recorded of the attempt, whatever cause the summary has since: each later verdict repeats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedCause>,
    /// What was built, if memory ended a trusted attempt: predictions know of that end after a restart too, before it is sealed. `None`
    /// for other ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built: Option<Box<Key>>,
}

fn is_nothing(reported: &ReportedEvidence) -> bool {
    *reported == ReportedEvidence::default()
}

impl VerdictBasis {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The cause of an attempt as an imported history recorded it. A verdict writes the cause that it finds into the summary; this one stays
/// evidence beside what is said later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCause {
    /// The cause; [`Cause::Unknown`] if the history has none.
    pub cause: Cause,
    /// Where the history has it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EvidenceSource>,
    /// Memory stopped the attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub censored: bool,
}

impl RecordedCause {
    /// That of an attempt that no verdict changed yet. `None` if an agent measured the attempt, or it did not fail.
    pub fn of(summary: &Summary) -> Option<Self> {
        let is_imported =
            summary.origin.is_none() && summary.samples == 0 && summary.outcome != Outcome::Succeeded;
        let (source, censored) = (summary.cause_source, summary.censored);
        is_imported.then(|| Self { cause: summary.cause.unwrap_or(Cause::Unknown), source, censored })
    }
}
