//! What is stored of servers upstream, and of the tickets that were taken there.

use serde::{Deserialize, Serialize};

use super::{Fnv, TicketId};

/// What is known of the numbers that a server upstream gives out as ids of tickets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamServer {
    /// Address of the server, without credentials.
    pub address: String,
    /// The highest number that is known to be given out, 0 for none; `None` before the first contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Number of calls of `takeTicket` that may have got a number although their answer did not arrive here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u32,
    /// Others take tickets there, too, as the pools file said last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A ticket that was taken upstream, until it is known to be closed there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamTicket {
    /// Address of the server without credentials.
    pub address: String,
    /// Number of the ticket at that server.
    pub number: u32,
    /// The ticket here, and its number in the order of opening. `None` if no ticket here holds this one: its number was lost when it was
    /// taken, so it is only to be closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<(TicketId, u64)>,
    /// The output with which the machine was given out; `None` until the machine is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether the upstream has declared the machine failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl UpstreamServer {
    /// Id of the record, as it is used in the record's key.
    pub fn key(&self) -> String {
        key_of(&self.address)
    }
}

impl UpstreamTicket {
    /// Id of the record, as it is used in the record's key.
    pub fn key(&self) -> String {
        format!("{}/{}", key_of(&self.address), self.number)
    }
}

/// A hash of an address, for keys. The address itself is not used, because it may be longer than an id and have other characters.
fn key_of(address: &str) -> String {
    format!("{:016x}", Fnv::default().with(address.bytes()).value())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
