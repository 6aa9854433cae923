//! A ticket: a slot in a pool, held or waited for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, TicketId, stored_record::stored_record};

stored_record! {
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
        pub granted_unix_ms: Option<u64> = default,
        /// The attempt that runs in the slot.
        pub attempt: Option<AttemptId> = default,
        /// Only for a ticket with a number as its id: whether its client knows the id, because the client asked for the ticket by it. `None`
        /// for all other tickets.
        pub collected: Option<bool> = default,
        /// The host that the ticket holds; the host answered when the ticket got it.
        pub host: Option<String> = default,
        /// The machine that it holds, of a server upstream. Kept in a record of its own, [`super::UpstreamTicket`].
        #[serde(skip)]
        pub machine: Option<UpstreamMachine>,
    }
}

/// A machine that a server upstream started for a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamMachine {
    /// What the upstream gives out with it: a name, or a text in YAML.
    pub output: Arc<str>,
    /// The upstream has declared it failed.
    pub failed: bool,
}

impl Ticket {
    /// Whether it can be used: it has its slot, and its host or machine if it is to have one.
    pub fn is_ready(&self) -> bool {
        let has_host = self.host.is_some() || self.machine.is_some() || !self.claim.on_host;
        self.granted_unix_ms.is_some() && has_host
    }

    /// The host or machine that it holds, as its client gets it.
    pub fn host_output(&self) -> Option<&str> {
        self.host.as_deref().or_else(|| self.machine.as_ref().map(|machine| &*machine.output))
    }
}

/// The numbers that were given out as ids of tickets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketNumbers {
    /// The last number given out; 0 if there is none.
    pub last: u64,
}

stored_record! {
    /// A request for a slot.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct TicketClaim {
        /// Owner of the ticket; slots are shared fairly among owners.
        pub owner: String,
        /// Name of the pool; empty if the operator defined none.
        pub pool: String,
        /// CPU architecture; empty for any.
        pub arch: String = default,
        /// Kind of build, such as a release: one of the kinds in the placement file.
        pub kind: String,
        /// Tags with concurrency limits that apply to the ticket, sorted, without repetitions.
        pub tags: Vec<String> = default,
        /// Whether the ticket has priority: it goes before all tickets without it.
        pub raised: bool = default,
        /// Memory request.
        pub memory: Bytes,
        /// CPU request, thousandths of a core.
        pub milli_cores: u64,
        /// Median time of similar builds.
        pub wall: Millis,
        /// Project of the build's key; it decides who may see the ticket.
        pub project: String = default,
        /// Name of the caller that opened the ticket.
        pub by: String = default,
        /// Name of a sandbox: tickets of the same project and sandbox may use the same host one after the other. Empty: no other ticket may use
        /// this one's host.
        pub sandbox: String = default,
        /// Its pool has hosts or an upstream: it gets one of them, or a machine.
        pub on_host: bool = default,
        /// Tags for the upstream of its pool, if the pool has one and names none itself.
        pub upstream_tags: Vec<String> = default,
        /// Whether the caller that opened the ticket proved that the id belongs to its own CI job.
        pub proven: bool = default,
        /// When the token of the CI job or pod that opened the ticket expires, milliseconds since 1970; `None` for other callers. The ticket
        /// ends with it.
        pub job_token_ends_unix_ms: Option<u64> = default,
        /// Fingerprint of the request: another request with the same id is an error.
        pub asked: u64,
    }
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

    /// The sandbox for the upstream of its pool: the client's, with the project in front if it names another one.
    pub fn upstream_sandbox(&self) -> String {
        let Self { project, sandbox, .. } = self;
        let named = sandbox.split_once("--").map_or(sandbox.as_str(), |(project, _submitter)| project);
        if sandbox.is_empty() || project.is_empty() || named == project {
            return sandbox.clone();
        }
        format!("{project}:{sandbox}")
    }

    /// Whether a ticket with this claim gives up its id to `other`: `other` proved that it is the job which the id names, and this one did
    /// not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.proven && other.proven && !self.is_same(other)
    }
}
