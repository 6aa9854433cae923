//! A person's correction of a failure's cause, which overrides what the rules found.
//!
//! The correction is stored in the verdict that it caused and in every later verdict on the attempt, until it is undone. For that attempt
//! it never expires. For other failures with the same signature it does, because for example a mirror is down only for a while.

use serde::{Deserialize, Serialize};

use super::{Cause, EvidenceSource, stored_record::stored_record};

stored_record! {
    /// A cause corrected by a person.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct VerdictCorrection {
        /// The corrected cause.
        pub cause: Cause,
        /// The person's explanation, with secrets removed.
        pub why: String,
        /// The person's name, as the access file has it.
        pub by: String,
        /// When the correction was made, milliseconds since 1970.
        pub at_unix_ms: u64,
        /// Project of the attempt; empty if the attempt has none.
        pub project: String = default,
        /// The cause that the rules find from all evidence.
        pub found: Cause,
        /// Source of the evidence for `found`; `None` if nothing decided.
        pub found_source: Option<EvidenceSource> = default,
        /// The rule that found `found`: the id of a log rule, else the source of the evidence, or `none` if nothing decided.
        pub rule: String = default,
        /// The cause in the attempt's summary before the first correction; `None` if there is no summary or it has no cause.
        pub before: Option<Cause> = default,
        /// Source of the evidence for `before`.
        pub before_source: Option<EvidenceSource> = default,
        /// Which other failures the correction applies to; `None`: only to this attempt.
        pub signature: Option<CorrectionRule> = default,
        /// Whether the correction was taken back, so that the cause is again the one that the rules find.
        pub undone: bool = default,
    }
}

/// Which other failures of a project a correction applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRule {
    /// The signature of the failures that the correction applies to.
    pub id: String,
    /// When the rule expires, milliseconds since 1970.
    pub until_unix_ms: u64,
}

impl VerdictCorrection {
    /// Describes the correction as a line of evidence.
    pub fn evidence_text(&self) -> String {
        format!("{} corrected the cause: {}", self.by, self.why)
    }
}
