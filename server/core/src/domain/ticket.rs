//! A ticket: a slot in a pool, held or waited for.

use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, TicketId};

/// An open ticket, with everything that a restart needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// What was requested.
    pub claim: TicketClaim,
    /// Its turn: the lowest round goes first, then the lowest number within the round.
    pub round: u64,
    /// Number in the order of opening.
    pub number: u64,
    /// When it was opened, milliseconds since 1970.
    pub opened_unix_ms: u64,
    /// When it got its slot, milliseconds since 1970; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_unix_ms: Option<u64>,
    /// The attempt that runs in the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// Of a ticket with a number as its id: whether its client knows the id, because it asked for the ticket by it. `None` for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<bool>,
    /// The host that it holds; it answered when the ticket got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Ticket {
    /// Whether it can be used: it has its slot, and its host if it is to have one.
    pub fn is_ready(&self) -> bool {
        self.granted_unix_ms.is_some() && (self.host.is_some() || !self.claim.on_host)
    }
}

/// The numbers that were given out as ids of tickets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketNumbers {
    /// The last one; 0 if there is none.
    pub last: u64,
}

/// A request for a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TicketClaim {
    /// Owner, among whom slots are shared fairly.
    pub owner: String,
    /// Pool; empty if the operator defined none.
    pub pool: String,
    /// CPU architecture; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// Why it is built: one of the kinds in the placement file.
    pub kind: String,
    /// Tags whose concurrency limits apply to it, sorted, without repetitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Priority: it goes before all tickets without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    /// Memory request.
    pub memory: Bytes,
    /// CPU request, thousandths of a core.
    pub milli_cores: u64,
    /// Median time of similar builds.
    pub wall: Millis,
    /// Project of its key; it decides who may see the ticket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Name of the caller that opened it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Tickets of the same project and sandbox may have the same host one after the other; empty: none may.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// Its pool has hosts: it gets one of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// Its opener proved that the id belongs to its own CI job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// Fingerprint of the request: the same id with another request is an error.
    pub asked: u64,
}

impl TicketClaim {
    /// Whether it is the same request by the same caller for the same project.
    pub fn is_same(&self, other: &Self) -> bool {
        self.asked == other.asked && self.by == other.by && self.project == other.project
    }

    /// The project and the sandbox, of which tickets may have the same host one after the other; empty: none may.
    pub fn sandbox_of_project(&self) -> String {
        if self.sandbox.is_empty() {
            return String::new();
        }
        format!("{}\0{}", self.project, self.sandbox)
    }

    /// Whether a ticket with this claim gives its id up to `other`: `other` proved that it is the job which the id names, and this one did
    /// not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.proven && other.proven && !self.is_same(other)
    }
}
