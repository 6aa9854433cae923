//! A ticket: a slot in a pool, held or waited for.

use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, TicketId};

/// An open ticket, with everything that is needed to restore it after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Id of the ticket.
    pub id: TicketId,
    /// What was requested.
    pub claim: TicketClaim,
    /// Turn of the ticket: the lowest round goes first, then the lowest number within the round.
    pub round: u64,
    /// Number of the ticket in the order of opening.
    pub number: u64,
    /// When the ticket was opened, milliseconds since 1970.
    pub opened_unix_ms: u64,
    /// When the ticket got its slot, milliseconds since 1970; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_unix_ms: Option<u64>,
    /// The attempt that runs in the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// Only for a ticket with a number as its id: whether its client knows the id, because the client asked for the ticket by it. `None`
    /// for all other tickets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<bool>,
    /// The host that the ticket holds; the host answered when the ticket got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Ticket {
    /// Whether the ticket can be used: it has its slot, and its host if its pool has hosts.
    pub fn is_ready(&self) -> bool {
        self.granted_unix_ms.is_some() && (self.host.is_some() || !self.claim.on_host)
    }
}

/// The numbers that were given out as ids of tickets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketNumbers {
    /// The last number given out; 0 if there is none.
    pub last: u64,
}

/// A request for a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TicketClaim {
    /// Owner of the ticket; slots are shared fairly among owners.
    pub owner: String,
    /// Name of the pool; empty if the operator defined none.
    pub pool: String,
    /// CPU architecture; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// Kind of build, such as a release: one of the kinds in the placement file.
    pub kind: String,
    /// Tags with concurrency limits that apply to the ticket, sorted, without repetitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether the ticket has priority: it goes before all tickets without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    /// Memory request.
    pub memory: Bytes,
    /// CPU request, thousandths of a core.
    pub milli_cores: u64,
    /// Median time of similar builds.
    pub wall: Millis,
    /// Project of the build's key; it decides who may see the ticket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Name of the caller that opened the ticket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Name of a sandbox: tickets of the same project and sandbox may use the same host one after the other. Empty: no other ticket may use
    /// this one's host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// Whether the pool has hosts, so that the ticket gets one of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// Whether the caller that opened the ticket proved that the id belongs to its own CI job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// Fingerprint of the request: another request with the same id is an error.
    pub asked: u64,
}

impl TicketClaim {
    /// Whether this is the same request by the same caller for the same project.
    pub fn is_same(&self, other: &Self) -> bool {
        self.asked == other.asked && self.by == other.by && self.project == other.project
    }

    /// Project and sandbox as one text: tickets with the same text may use the same host one after the other. Empty without a sandbox.
    pub fn sandbox_of_project(&self) -> String {
        if self.sandbox.is_empty() {
            return String::new();
        }
        format!("{}\0{}", self.project, self.sandbox)
    }

    /// Whether a ticket with this claim gives up its id to `other`: `other` proved that it is the job which the id names, and this one did
    /// not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.proven && other.proven && !self.is_same(other)
    }
}
