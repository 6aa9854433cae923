//! What a verdict was computed from; it is stored with the verdict.

use serde::{Deserialize, Serialize};

use super::{
    Cause, EvidenceSource, Key, Outcome, ReportedEvidence, Reporter, Summary, VerdictCorrection,
    stored_record::stored_record,
};

/// A rule whose line decided the cause, or would have if the rule were not silenced here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedRule {
    /// Id of the rule, at most 64 bytes.
    pub rule: String,
    /// The cause that it named.
    pub cause: Cause,
}

stored_record! {
    /// What a verdict was computed from. A later question is compared with it, to find out whether the question adds anything.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct VerdictBasis {
        /// Source of the evidence that decided the cause; `None` if nothing decided.
        pub cause_source: Option<EvidenceSource> = default,
        /// Fingerprint of the question: [`super::Fnv`] over everything that the caller sent.
        pub question: Option<u64> = default,
        /// Fingerprint of all evidence, without texts of the log. If the value differs, more is known now.
        pub evidence: Option<u64> = default,
        /// Whether the caller was untrusted: a job that reported about itself.
        pub by_untrusted: bool = default,
        /// What the caller reported.
        pub reported: ReportedEvidence = default,
        /// The caller that asked.
        #[serde(rename = "said_by")]
        pub reported_by: Reporter,
        /// A person's correction of the cause; `None` if there is none.
        pub correction: Option<Box<VerdictCorrection>> = default,
        /// The cause that an imported history recorded for the attempt, even if the summary has another one now. Each later verdict repeats it.
        pub recorded: Option<RecordedCause> = default,
        /// What was built, if memory ended a trusted attempt: with it, predictions use that end after a restart even before the attempt is
        /// sealed. `None` for other ends.
        pub built: Option<Box<Key>> = default,
        /// The rules that matched, if the log decided: first those that are silenced here, last the one that decided. At most 4.
        pub spoken: Vec<MatchedRule> = default,
    }
}

stored_record! {
    /// The cause that an imported history recorded for an attempt. A verdict writes its own cause into the summary; this one stays as evidence.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RecordedCause {
        /// The cause; [`Cause::Unknown`] if the history names none.
        pub cause: Cause,
        /// The source of evidence that the history names for the cause.
        pub source: Option<EvidenceSource> = default,
        /// Whether memory stopped the attempt.
        pub censored: bool = default,
    }
}

impl RecordedCause {
    /// The recorded cause, from a summary that no verdict has changed yet. `None` if an agent measured the attempt, or it did not fail.
    pub fn of(summary: &Summary) -> Option<Self> {
        let is_imported =
            summary.origin.is_none() && summary.samples == 0 && summary.outcome != Outcome::Succeeded;
        let (source, censored) = (summary.cause_source, summary.censored);
        is_imported.then(|| Self { cause: summary.cause.unwrap_or(Cause::Unknown), source, censored })
    }
}
