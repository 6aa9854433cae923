//! What is stored of servers upstream, and of the tickets that were taken there.

use serde::{Deserialize, Serialize};

use super::{Fnv, TicketId, stored_record::stored_record};

stored_record! {
    /// What is known of the numbers that a server upstream gives out as ids of tickets.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UpstreamServer {
        /// Address of the server, without credentials.
        pub address: String,
        /// The highest number that is known to be given out, 0 for none; `None` before the first contact.
        pub last: Option<u32> = default,
        /// Number of calls of `takeTicket` that may have got a number although their answer did not arrive here.
        pub unanswered: u32 = default,
        /// Others take tickets there, too, as the pools file had it last.
        pub shared: bool = default,
    }
}

stored_record! {
    /// A ticket that was taken upstream, until it is known to be closed there.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UpstreamTicket {
        /// Address of the server without credentials.
        pub address: String,
        /// Number of the ticket at that server.
        pub number: u32,
        /// The ticket here, and its number in the order of opening. `None` if no ticket here holds this one: its number was lost when it was
        /// taken, so it is only to be closed.
        pub holder: Option<(TicketId, u64)> = default,
        /// The output with which the machine was given out; `None` until the machine is ready.
        pub output: Option<String> = default,
        /// Whether the upstream has declared the machine failed.
        pub failed: bool = default,
    }
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
