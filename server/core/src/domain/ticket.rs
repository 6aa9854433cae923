//! A ticket: a place in a pool that is held or waited for.

use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, TicketId};

/// An open ticket, with all that a restart needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// What it wants.
    pub claim: TicketClaim,
    /// Its turn: the lowest round is next, and the lowest number within a round.
    pub round: u64,
    /// The order of opening.
    pub number: u64,
    /// When it was opened, milliseconds since 1970.
    pub opened_unix_ms: u64,
    /// Since when it holds its place, milliseconds since 1970; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_unix_ms: Option<u64>,
    /// The attempt that runs in the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
}

/// What a ticket wants, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TicketClaim {
    /// Among whom places are shared fairly.
    pub owner: String,
    /// In which pool; empty where the operator names none.
    pub pool: String,
    /// Family of its processors; empty if it does not matter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// Why it is built: a word of the placement's kinds.
    pub kind: String,
    /// What else is limited and counts it, sorted, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// It goes before all that are not raised.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    /// Memory that it will request.
    pub memory: Bytes,
    /// Cores that it will request, in thousandths.
    pub milli_cores: u64,
    /// How long half of its like take.
    pub wall: Millis,
    /// The project of its key, which may be seen by some and not by others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Who opened it, as the server knows its callers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Its opener proved that the id is that of its own CI job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// Fingerprint of the question: the same id with another question is a mistake.
    pub asked: u64,
}

impl TicketClaim {
    /// Whether it is of the same question of the same caller about the same project.
    pub fn is_same(&self, other: &Self) -> bool {
        self.asked == other.asked && self.by == other.by && self.project == other.project
    }

    /// Whether a ticket with this claim gives its id up to `other`: one that is proven to be of the job, while this one is not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.proven && other.proven && !self.is_same(other)
    }
}
