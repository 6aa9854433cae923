//! What a person says of the cause of a failure, over what the rules found.
//!
//! It is kept in the verdict that it brought about, and in every later verdict on the attempt until it is undone. The word about the
//! attempt has no end; the word about all failures with the same signature has one, because a mirror is down today only.

use serde::{Deserialize, Serialize};

use super::{Cause, EvidenceSource};

/// A cause that a person corrected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCorrection {
    /// What the person says.
    pub cause: Cause,
    /// Why, in the person's words, without secrets.
    pub why: String,
    /// Name of the person, as access knows it.
    pub by: String,
    /// When it was said, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Project of the attempt; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// What the rules find, by all that is known.
    pub found: Cause,
    /// Where the evidence for that comes from; `None` if nothing decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_source: Option<EvidenceSource>,
    /// Which rule found it: the id of a rule for logs, else the source of the evidence, `none` if nothing decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The cause in the summary before the first correction; `None` without a summary, or without a cause in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Cause>,
    /// Where the evidence for that came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_source: Option<EvidenceSource>,
    /// The same for other failures with this signature; `None`: it is about this attempt alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<CorrectionRule>,
    /// It was taken back: the cause is what the rules find.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undone: bool,
}

/// Failures of a project for which a correction counts too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRule {
    /// Their signature.
    pub id: String,
    /// Until when, milliseconds since 1970.
    pub until_unix_ms: u64,
}

impl VerdictCorrection {
    /// The correction as a line of evidence.
    pub fn says(&self) -> String {
        format!("{} corrected the cause: {}", self.by, self.why)
    }
}
